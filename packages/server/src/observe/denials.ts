/**
 * Denials for those who watch them live. They are collected only while somebody does, and each
 * filter has a list of its own, so that a rare key is found in a flood of others. A list is short:
 * the first of each second are told, and how many more there were.
 */
import { type Clock, type Degraded, type Limit, type LimitDecision, systemClock } from 'sluice';
import type { DecisionService } from '../decision-service.ts';
import { matchesWildcardParts } from '../wildcard.ts';
import type { DecisionCounters, DenialHook } from './policy-counters.ts';

/** Which denials somebody wants to see; without either, all. Plain data. */
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
  /** Undefined if no wait helps. */
  readonly retryAfterMs?: number;
  readonly windowMs?: number;
  readonly algorithm?: string;
  readonly shadow?: true;
  readonly degraded?: Degraded;
}

export interface DenialBatch {
  readonly denials: readonly Denial[];
  /** How many more there were that fit the filter. */
  readonly omitted: number;
}

/** How many are told at once. */
export const MAX_DENIALS = 50;

/** Whoever has not asked for so long is gone. */
const FORGET_MS = 5000;

/** Filters that are alike have the same text. */
export const filterText = ({ policy, key }: DenialFilter): string =>
  JSON.stringify([policy ?? null, key ?? null]);

class Collector {
  readonly #policy: string | undefined;
  readonly #keyParts: readonly string[] | undefined;
  #denials: Denial[] = [];
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

  /** Whether there is room; if not, it is counted. */
  hasRoom(): boolean {
    if (this.#denials.length < MAX_DENIALS) return true;
    this.#omitted++;
    return false;
  }

  add(denial: Denial): void {
    this.#denials.push(denial);
  }

  take(): DenialBatch {
    const batch = { denials: this.#denials, omitted: this.#omitted };
    this.#denials = [];
    this.#omitted = 0;
    return batch;
  }
}

/** The filters of one process that has streams. */
interface Asker {
  askedMs: number;
  readonly collectors: Map<string, Collector>;
}

export class DenialCollectors {
  readonly #decisionService: DecisionService;
  readonly #counters: DecisionCounters;
  readonly #clock: Clock;
  readonly #askers = new Map<string, Asker>();
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

  /** Whether anything is collected. */
  get isOn(): boolean {
    return this.#askers.size > 0;
  }

  /** Collects what fits one more filter, until the asker is forgotten or takes without it. */
  add(name: string, filter: DenialFilter): void {
    const { collectors } = this.#asker(name);
    const text = filterText(filter);
    if (!collectors.has(text)) collectors.set(text, new Collector(filter));
  }

  /** What fits each filter, since it was last taken. From now on these are all that count. */
  take(name: string, filters: readonly DenialFilter[]): readonly DenialBatch[] {
    const { collectors } = this.#asker(name);
    const wanted = new Set(filters.map(filterText));
    for (const text of [...collectors.keys()]) if (!wanted.has(text)) collectors.delete(text);
    for (const filter of filters) this.add(name, filter);
    return filters.map((filter) => collectors.get(filterText(filter))!.take());
  }

  #asker(name: string): Asker {
    const askedMs = this.#clock.now();
    let asker = this.#askers.get(name);
    if (asker === undefined) {
      asker = { askedMs, collectors: new Map() };
      this.#askers.set(name, asker);
      this.#counters.onDenial = this.#collect;
      this.#cancel ??= this.#clock.schedule(FORGET_MS, () => this.#forget());
    }
    asker.askedMs = askedMs;
    return asker;
  }

  #forget(): void {
    this.#cancel = undefined;
    const nowMs = this.#clock.now();
    for (const [name, { askedMs }] of this.#askers) {
      if (Math.abs(nowMs - askedMs) >= FORGET_MS) this.#askers.delete(name);
    }
    if (this.isOn) this.#cancel = this.#clock.schedule(FORGET_MS, () => this.#forget());
    else this.#counters.onDenial = undefined;
  }

  /** Forgets everybody. */
  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#askers.clear();
    this.#counters.onDenial = undefined;
  }

  readonly #collect: DenialHook = (denied, { label }, limits, degraded, isShadow) => {
    let denial: Denial | undefined;
    for (const { collectors } of this.#askers.values()) {
      for (const collector of collectors.values()) {
        if (!collector.fits(denied, label) || !collector.hasRoom()) continue;
        denial ??= this.#denialOf(denied, limits, degraded, isShadow);
        collector.add(denial);
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
    // A policy that came with the request is known only there; those in shadow are not.
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
