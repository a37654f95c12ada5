/**
 * Collects denials for event streams while at least one is open. Each filter has its own list, so
 * that a flood of other keys does not hide a rare one. A list holds the last denial of each of the
 * first 50 keys of a second, how often the key was denied, and the number of all other denials.
 */
import { type Clock, type Degraded, type Limit, type LimitDecision, systemClock } from 'sluice';
import type { DecisionService } from '../decision-service.ts';
import { matchesWildcardParts } from '../wildcard.ts';
import type { DecisionCounters, DenialHook } from './policy-counters.ts';

/** Selects denials; without fields, all. Plain data. */
export interface DenialFilter {
  /** The name of a policy, or the label that it shares with others. */
  readonly policy?: string | undefined;
  /** A key, or a pattern with `*`. */
  readonly key?: string | undefined;
}

export interface Denial {
  readonly atMs: number;
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  readonly limit: number;
  readonly remaining: number;
  /** Undefined if the wait is infinite. */
  readonly retryAfterMs?: number;
  readonly windowMs?: number;
  readonly algorithm?: string;
  readonly shadow?: true;
  readonly degraded?: Degraded;
  /** Number of earlier denials of this policy and key in the same second. */
  readonly repeats?: number;
}

export interface DenialBatch {
  /** At most one for each policy and key. */
  readonly denials: readonly Denial[];
  /** Number of further denials that match the filter, including those in `repeats`. */
  readonly omitted: number;
}

/** Maximum number of denials in a list. Each is of a different key. */
export const MAX_DENIALS = 50;

/** Denials with the same text are listed as one. */
export const groupText = (policy: string, key: string, isShadow: boolean): string =>
  `${isShadow ? 's' : 'e'}${policy}\n${key}`;

/** A process that has not polled for this long is dropped. */
const EXPIRY_MS = 5000;

/** Equal filters have the same text. */
export const filterText = ({ policy, key }: DenialFilter): string =>
  JSON.stringify([policy ?? null, key ?? null]);

class Collector {
  readonly #policy: string | undefined;
  readonly #keyParts: readonly string[] | undefined;
  #denials = new Map<string, { denial: Denial; repeats: number }>();
  #omitted = 0;

  constructor({ policy, key }: DenialFilter) {
    this.#policy = policy;
    this.#keyParts = key?.split('*');
  }

  fits({ policy, key }: LimitDecision, label: string): boolean {
    const wanted = this.#policy;
    if (wanted !== undefined && wanted !== policy && wanted !== label) return false;
    return this.#keyParts === undefined || matchesWildcardParts(this.#keyParts, key);
  }

  /** Adds a denial, or only counts it if the list is full. */
  add(group: string, describe: () => Denial): void {
    const listed = this.#denials.get(group);
    if (listed !== undefined) {
      listed.denial = describe();
      listed.repeats++;
      this.#omitted++;
    } else if (this.#denials.size < MAX_DENIALS) {
      this.#denials.set(group, { denial: describe(), repeats: 0 });
    } else this.#omitted++;
  }

  take(): DenialBatch {
    const denials = [...this.#denials.values()].map(({ denial, repeats }) =>
      repeats === 0 ? denial : { ...denial, repeats },
    );
    const batch = { denials, omitted: this.#omitted };
    this.#denials = new Map();
    this.#omitted = 0;
    return batch;
  }
}

/** The filters of one process with open event streams. */
interface Subscriber {
  polledMs: number;
  readonly collectors: Map<string, Collector>;
}

export class DenialCollectors {
  readonly #decisionService: DecisionService;
  readonly #counters: DecisionCounters;
  readonly #clock: Clock;
  readonly #subscribers = new Map<string, Subscriber>();
  #cancel: (() => void) | undefined = undefined;

  constructor(
    decisionService: DecisionService,
    counters: DecisionCounters,
    clock: Clock = systemClock,
  ) {
    this.#decisionService = decisionService;
    this.#counters = counters;
    this.#clock = clock;
  }

  /** Whether denials are collected. */
  get isOn(): boolean {
    return this.#subscribers.size > 0;
  }

  /** Adds a filter, until the subscriber expires or calls `take` without it. */
  add(name: string, filter: DenialFilter): void {
    const { collectors } = this.#subscriber(name);
    const text = filterText(filter);
    if (!collectors.has(text)) collectors.set(text, new Collector(filter));
  }

  /** Returns the denials per filter since the last call, and drops all other filters. */
  take(name: string, filters: readonly DenialFilter[]): readonly DenialBatch[] {
    const { collectors } = this.#subscriber(name);
    const wanted = new Set(filters.map(filterText));
    for (const text of [...collectors.keys()]) if (!wanted.has(text)) collectors.delete(text);
    for (const filter of filters) this.add(name, filter);
    return filters.map((filter) => collectors.get(filterText(filter))!.take());
  }

  #subscriber(name: string): Subscriber {
    const polledMs = this.#clock.now();
    let subscriber = this.#subscribers.get(name);
    if (subscriber === undefined) {
      subscriber = { polledMs, collectors: new Map() };
      this.#subscribers.set(name, subscriber);
      this.#counters.onDenial = this.#collect;
      this.#cancel ??= this.#clock.schedule(EXPIRY_MS, () => this.#expire());
    }
    subscriber.polledMs = polledMs;
    return subscriber;
  }

  #expire(): void {
    this.#cancel = undefined;
    const nowMs = this.#clock.now();
    for (const [name, { polledMs }] of this.#subscribers) {
      if (Math.abs(nowMs - polledMs) >= EXPIRY_MS) this.#subscribers.delete(name);
    }
    if (this.isOn) this.#cancel = this.#clock.schedule(EXPIRY_MS, () => this.#expire());
    else this.#counters.onDenial = undefined;
  }

  /** Drops all subscribers. */
  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#subscribers.clear();
    this.#counters.onDenial = undefined;
  }

  readonly #collect: DenialHook = (denied, { label }, limits, degraded, isShadow) => {
    let denial: Denial | undefined;
    const describe = (): Denial => {
      denial ??= this.#denialOf(denied, limits, degraded, isShadow);
      return denial;
    };
    const group = groupText(denied.policy, denied.key, isShadow);
    for (const { collectors } of this.#subscribers.values()) {
      for (const collector of collectors.values()) {
        if (collector.fits(denied, label)) collector.add(group, describe);
      }
    }
  };

  #denialOf(
    denied: LimitDecision,
    limits: readonly Limit[],
    degraded: Degraded | undefined,
    isShadow: boolean,
  ): Denial {
    const { atMs, policy, key, cost, limit, remaining, retryAfterMs } = denied;
    // Inline policies are only in `limits`; shadow policies only in the configuration.
    const definition =
      limits.find((each) => each.policy.name === policy)?.policy ??
      this.#decisionService.policies.get(policy)?.policy;
    return {
      ...{ atMs, policy, key, cost, limit, remaining },
      ...(Number.isFinite(retryAfterMs) && { retryAfterMs }),
      ...(definition && { windowMs: definition.windowMs, algorithm: definition.algorithm }),
      ...(isShadow && { shadow: true }),
      ...(degraded && { degraded }),
    };
  }
}
