/**
 * Collects denials for event streams, while at least one stream is open. Each filter has its own
 * list, so that many denials of other keys do not hide a rare key. For each second, a list holds:
 *
 * - the last denial of each of the first 50 keys, and how often the key was denied before,
 * - the number of all further denials.
 */
import { type Clock, type Degraded, type Limit, type LimitDecision, systemClock } from 'sluice';
import type { DecisionService } from '../decision-service.ts';
import { matchesWildcardParts } from '../wildcard.ts';
import type { DecisionCounters, DenialHook } from './policy-counters.ts';

/** Selects denials. A filter without fields selects all. Serializable as JSON. */
export interface DenialFilter {
  /** The name of a policy, or a label that several policies share. */
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
  /** Set if the key is blocked: the end of the block. */
  readonly blockedUntilMs?: number;
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
  /** Number of further denials that match the filter, including the repeated denials. */
  readonly omitted: number;
}

/** Maximum number of denials in a list. Each denial has a different key. */
export const MAX_DENIALS = 50;

/** Returns the id of the group of a denial. A list shows only the last denial of each group. */
export const groupText = (policy: string, key: string, isShadow: boolean): string =>
  `${isShadow ? 's' : 'e'}${policy}\n${key}`;

/** A subscriber that has not polled for this long is removed. */
const EXPIRY_MS = 5000;

/** Returns the id of a filter. Equal filters have the same id. */
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

/** A process with open event streams, and the filters of these streams. */
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

  /** Adds a filter. It stays until the subscriber expires, or calls `take` without this filter. */
  add(name: string, filter: DenialFilter): void {
    const { collectors } = this.#subscriber(name);
    const text = filterText(filter);
    if (!collectors.has(text)) collectors.set(text, new Collector(filter));
  }

  /**
   * Returns the denials for each filter since the last call. Removes the other filters of the
   * subscriber.
   */
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

  /** Removes all subscribers. */
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
    const { atMs, policy, key, cost, limit, remaining, retryAfterMs, blockedUntilMs } = denied;
    // Inline policies are found only in `limits`, and shadow policies only in the configuration.
    const definition =
      limits.find((each) => each.policy.name === policy)?.policy ??
      this.#decisionService.policies.get(policy)?.policy;
    return {
      ...{ atMs, policy, key, cost, limit, remaining },
      ...(Number.isFinite(retryAfterMs) && { retryAfterMs }),
      ...(blockedUntilMs !== undefined && { blockedUntilMs }),
      ...(definition && { windowMs: definition.windowMs, algorithm: definition.algorithm }),
      ...(isShadow && { shadow: true }),
      ...(degraded && { degraded }),
    };
  }
}
