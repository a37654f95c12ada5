/**
 * Replays the requests of a log through the library's memory store, at the times of the log. Each
 * replay has its own store, so that several sets of policies can decide the same traffic.
 */
import {
  type AlgorithmName,
  type Limit,
  type LimitParams,
  memoryStore,
  type Policy,
  type SyncStore,
} from 'sluice';
import { refundOf } from 'sluice/engine';
import type { Entry } from '../entry.ts';

/** The parameters of a policy that the results contain. */
export interface PolicyFacts {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  readonly windowMs: number;
  /** True if the policy is evaluated and reported, but never denies. */
  readonly shadow: boolean;
}

/**
 * Returned for a request that the policies in `violated` can never admit: its cost exceeds their
 * limits, or it has no key.
 */
export interface NeverFits {
  readonly violated: readonly string[];
}

/** Returns the cost in the log, or 1. */
export const costOf = ({ cost }: Entry): number => cost ?? 1;

/**
 * Returns true if a cost can never fit. Must be called before each store call: the limiter throws
 * for such a cost (ERR_COST_ABOVE_LIMIT), but a replay calls the store without the limiter.
 */
export const exceedsCapacity = (cost: number, { capacity }: LimitParams): boolean =>
  cost > capacity;

/** Finds the limits that apply to a request. */
export interface Rules {
  readonly policies: readonly PolicyFacts[];
  /**
   * Returns the limits of a request at `nowMs`. An empty list means that the request is not
   * limited. The cost of a limit may exceed its capacity. The caller must not store the list,
   * because the next call may change it.
   */
  limitsOf(entry: Entry, client: string, nowMs: number): readonly Limit[] | NeverFits;
}

/** Returns the parameters of a policy that has one limit for all keys. */
export function factsOf(policy: Policy, shadow: boolean): PolicyFacts {
  const { name, algorithm, windowMs } = policy;
  return { name, algorithm, limit: policy.params!.limit, windowMs, shadow };
}

/**
 * Returns rules that apply every policy to every request, with the client as key. `shadow` has the
 * names of the policies in shadow mode.
 */
export function rulesByClient(
  policies: readonly Policy[],
  shadow: ReadonlySet<string> = new Set(),
): Rules {
  // Reuse one list for all requests, to avoid allocations. Callers do not store the list.
  const limits = policies.map((policy) => ({ policy, params: policy.params!, key: '', cost: 1 }));
  return {
    policies: policies.map((policy) => factsOf(policy, shadow.has(policy.name))),
    limitsOf: (entry, key) => {
      const cost = costOf(entry);
      for (const limit of limits) {
        limit.key = key;
        limit.cost = cost;
      }
      return limits;
    },
  };
}

/** The decision on one request. */
export interface ReplayOutcome {
  readonly allowed: boolean;
  /** The policies that deny the request. */
  readonly denying: readonly string[];
  /** The policies in shadow mode that would deny the request. */
  readonly shadowDenying: readonly string[];
  /** True if the request is denied because its cost exceeds a limit. */
  readonly costAboveLimit?: true;
}

const NONE: readonly string[] = [];
const ADMITTED: ReplayOutcome = { allowed: true, denying: NONE, shadowDenying: NONE };

/** Higher than the number of keys in any log, so that a replay never evicts a key. */
const MAX_KEYS = 2 ** 29;

/** Returns a memory store that never evicts. */
export const unboundedStore = (): SyncStore => memoryStore({ maxKeys: MAX_KEYS });

export class Replay {
  readonly #store = unboundedStore();
  readonly #rules: Rules;
  /** Names of the policies in shadow mode. */
  readonly #shadow: ReadonlySet<string>;

  constructor(rules: Rules) {
    this.#rules = rules;
    const shadow = rules.policies.filter((policy) => policy.shadow);
    this.#shadow = new Set(shadow.map(({ name }) => name));
  }

  /** Decides one request as the service would. `nowMs` must not decrease. */
  decide(entry: Entry, client: string, nowMs: number): ReplayOutcome {
    const limits = this.#rules.limitsOf(entry, client, nowMs);
    if ('violated' in limits)
      return { allowed: false, denying: limits.violated, shadowDenying: NONE };
    return limits.some(isExceeded)
      ? this.#decideExceeding(limits, nowMs)
      : this.#decideValid(limits, nowMs);
  }

  /** Decides limits. No cost may exceed a capacity. */
  #decideValid(limits: readonly Limit[], nowMs: number): ReplayOutcome {
    if (this.#shadow.size === 0) {
      return this.#takeAll(limits, nowMs) ? ADMITTED : this.#denied(limits, nowMs);
    }
    const isShadow = ({ policy }: Limit): boolean => this.#shadow.has(policy.name);
    const enforced = limits.filter((limit) => !isShadow(limit));
    if (!this.#takeAll(enforced, nowMs)) return this.#denied(enforced, nowMs);
    // Shadow limits are charged for the requests that the enforced limits admit.
    const full = limits.filter((limit) => isShadow(limit) && !this.#take(limit, nowMs));
    if (full.length === 0) return ADMITTED;
    return { allowed: true, denying: NONE, shadowDenying: full.map(nameOf) };
  }

  /**
   * Decides a request whose cost exceeds the capacity of some limits. Like the service, reports
   * only these limits as denying.
   */
  #decideExceeding(limits: readonly Limit[], nowMs: number): ReplayOutcome {
    const exceeded = limits.filter(isExceeded).map(nameOf);
    const denying = exceeded.filter((name) => !this.#shadow.has(name));
    if (denying.length > 0)
      return { allowed: false, denying, shadowDenying: NONE, costAboveLimit: true };
    const others = limits.filter((limit) => !isExceeded(limit));
    const outcome = this.#decideValid(others, nowMs);
    if (!outcome.allowed) return outcome;
    return { ...outcome, shadowDenying: [...outcome.shadowDenying, ...exceeded] };
  }

  /**
   * Charges all limits or none, like `decideSync` of the store. Faster than `decideSync` for
   * admitted requests, which are the most frequent: it does not peek at the limits first and
   * creates no decision. If a limit denies, refunds the limits charged before it.
   */
  #takeAll(limits: readonly Limit[], nowMs: number): boolean {
    for (let at = 0; at < limits.length; at++) {
      if (this.#take(limits[at], nowMs)) continue;
      for (const limit of limits.slice(0, at))
        this.#store.adjustSync(refundOf(limit, { atMs: nowMs }), nowMs);
      return false;
    }
    return true;
  }

  #denied(limits: readonly Limit[], nowMs: number): ReplayOutcome {
    const full = limits.filter((limit) => !this.#fits(limit, nowMs));
    return { allowed: false, denying: full.map(nameOf), shadowDenying: NONE };
  }

  #fits({ policy, params, key, cost }: Limit, nowMs: number): boolean {
    return this.#store.open(policy).peekSync(params, key, cost, nowMs).allowed;
  }

  #take({ policy, params, key, cost }: Limit, nowMs: number): boolean {
    return this.#store.open(policy).takeSync(params, key, cost, nowMs).allowed;
  }
}

const isExceeded = ({ cost, params }: Limit): boolean => exceedsCapacity(cost, params);
const nameOf = ({ policy }: Limit): string => policy.name;
