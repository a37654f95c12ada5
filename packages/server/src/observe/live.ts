/** The history and the live feed, merged over all processes. */
import { systemClock } from 'sluice';
import type { ProcessGroup } from '../cluster/process-group.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { Settings } from '../settings.ts';
import type { OpenStore } from '../stores/index.ts';
import { DenialCollectors } from './denials.ts';
import { Feed, type FeedSource, type ListenReply, type ListenRequest } from './feed.ts';
import type { Health } from './health.ts';
import { History, type PolicyCounts, type Span } from './history.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';
import { type Outline, outlineOf, type SeriesSource } from './series.ts';
import { type TickPart, type TickRequest, tickPart } from './tick-data.ts';

export interface LiveParts {
  readonly decisionService: DecisionService;
  readonly configuration: Configuration;
  readonly store: OpenStore;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly group: ProcessGroup;
  readonly log: Logger;
  readonly settings: Pick<Settings, 'grafanaUrl'>;
}

type PoliciesRequest = readonly [span: Span, names: readonly string[]];

export class Live {
  readonly history: History;
  readonly feed: Feed;
  readonly #denials: DenialCollectors;
  readonly #group: ProcessGroup;

  constructor(parts: LiveParts) {
    const { decisionService, configuration, store, health, metrics, group, log } = parts;
    const { counters } = metrics;
    const { grafanaUrl } = parts.settings;
    this.#group = group;
    this.history = new History(metrics);
    this.#denials = new DenialCollectors(decisionService, counters);
    this.feed = new Feed(this.#feedSource(), log, systemClock, { grafanaUrl });
    this.#handleQueries({ history: this.history, denials: this.#denials, health, store });
    configuration.onReload(({ ok, isUnchanged }) => {
      // The files contain both policies and overrides.
      if (ok && !isUnchanged) this.feed.changed('policies', 'overrides');
    });
    decisionService.overrides.onChange(() => this.feed.changed('overrides'));
    decisionService.shadowOverrides.onChange(() => this.feed.changed('policies'));
  }

  /** Registers the handlers for queries of other processes. */
  #handleQueries(parts: Parameters<typeof tickPart>[0]): void {
    const group = this.#group;
    const startedAtMs = systemClock.now();
    group.handle('live.listen', (detail): ListenReply => {
      const { subscriber, filter } = detail as ListenRequest;
      // Record earlier decisions now, so that later decisions count towards a second that is sent.
      this.history.record();
      this.#denials.add(subscriber, filter);
      return { startedAtMs };
    });
    group.handle('live.tick', (detail) => tickPart(parts, detail as TickRequest));
    group.handle('series.outline', (detail) => outlineOf(this.history, detail as Span));
    group.handle('series.policies', (detail) =>
      this.history.policies(...(detail as PoliciesRequest)),
    );
  }

  #feedSource(): FeedSource {
    const group = this.#group;
    return {
      listen: async (request) => (await group.gather('live.listen', request)) as ListenReply[],
      tick: async (request) => (await group.gather('live.tick', request)) as TickPart[],
    };
  }

  get series(): SeriesSource {
    const group = this.#group;
    return {
      outlines: async (span) => (await group.gather('series.outline', span)) as Outline[],
      policies: async (...detail) =>
        (await group.gather('series.policies', detail)) as PolicyCounts[][],
    };
  }

  start(): void {
    this.history.start();
  }

  /** Ends all event streams and timers. */
  close(): void {
    this.history.stop();
    this.feed.close();
    this.#denials.close();
  }
}
