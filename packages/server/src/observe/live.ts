/** What is kept of the last minutes and told live, of all processes that serve together. */
import { systemClock } from 'sluice';
import type { ProcessGroup } from '../cluster/process-group.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { OpenStore } from '../stores/index.ts';
import { DenialCollectors } from './denials.ts';
import { Feed, type FeedSource, type ListenAnswer, type ListenQuestion } from './feed.ts';
import type { Health } from './health.ts';
import { History, type PolicyCounts, type Span } from './history.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';
import { type Outline, outlineOf, type SeriesSource } from './series.ts';
import { type TickPart, type TickQuestion, tickPart } from './tick.ts';

export interface LiveParts {
  readonly decisionService: DecisionService;
  readonly configuration: Configuration;
  readonly store: OpenStore;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly group: ProcessGroup;
  readonly log: Logger;
}

type PoliciesQuestion = readonly [span: Span, names: readonly string[]];

export class Live {
  readonly history: History;
  readonly feed: Feed;
  readonly #denials: DenialCollectors;
  readonly #group: ProcessGroup;

  constructor({ decisionService, configuration, store, health, metrics, group, log }: LiveParts) {
    const { counters } = metrics;
    this.#group = group;
    this.history = new History(metrics);
    this.#denials = new DenialCollectors(decisionService, counters);
    this.feed = new Feed(this.#feedSource(), log);
    this.#answer({ history: this.history, denials: this.#denials, health, store });
    configuration.onReload(({ ok, isUnchanged }) => {
      // The files have overrides, too.
      if (ok && !isUnchanged) this.feed.changed('policies', 'overrides');
    });
    decisionService.overrides.onChange(() => this.feed.changed('overrides'));
    decisionService.shadowOverrides.onChange(() => this.feed.changed('policies'));
  }

  /** What this process says of itself. */
  #answer(parts: Parameters<typeof tickPart>[0]): void {
    const group = this.#group;
    const startedAtMs = systemClock.now();
    group.handle('live.listen', (detail): ListenAnswer => {
      const { asker, filter } = detail as ListenQuestion;
      // What is decided from now on is of a second that will be told.
      this.history.look();
      this.#denials.add(asker, filter);
      return { startedAtMs };
    });
    group.handle('live.tick', (detail) => tickPart(parts, detail as TickQuestion));
    group.handle('series.outline', (detail) => outlineOf(this.history, detail as Span));
    group.handle('series.policies', (detail) =>
      this.history.policies(...(detail as PoliciesQuestion)),
    );
  }

  #feedSource(): FeedSource {
    const group = this.#group;
    return {
      listen: async (question) => (await group.gather('live.listen', question)) as ListenAnswer[],
      tick: async (question) => (await group.gather('live.tick', question)) as TickPart[],
    };
  }

  /** What all processes say. */
  get series(): SeriesSource {
    const group = this.#group;
    return {
      outlines: async (span) => (await group.gather('series.outline', span)) as Outline[],
      policies: async (...detail) =>
        (await group.gather('series.policies', detail)) as PolicyCounts[][],
    };
  }

  /** From now on the seconds are counted. */
  start(): void {
    this.history.start();
  }

  /** Ends all streams, and leaves no timer behind. */
  close(): void {
    this.history.stop();
    this.feed.close();
    this.#denials.close();
  }
}
