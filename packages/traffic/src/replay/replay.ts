/**
 * Requests of a log through the shipped engine, at the times of the log. Each replay has a store of
 * its own, so that several policies, or two versions of them, can be asked about the same traffic.
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

/** What is said of a policy where results are told. */
export interface PolicyFacts {
  readonly name: string;
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  readonly windowMs: number;
  /** Asked, and told about, but never in the way. */
  readonly shadow: boolean;
}

/** A request that costs more than these policies could ever let through, so that it is denied. */
export interface NeverFits {
  readonly violated: readonly string[];
}

/** What a request costs where no rule says so. */
export const costOf = ({ cost }: Entry): number => cost ?? 1;

/**
 * Whether a cost is above all that a limit could ever let through. The engine refuses to be asked
 * about such a cost (ERR_COST_ABOVE_LIMIT), so that nobody asks it: it is denied, and charges
 * nothing.
 */
export const isTooDear = (cost: number, { capacity }: LimitParams): boolean => cost > capacity;

/** Which limits requests have. */
export interface Rules {
  readonly policies: readonly PolicyFacts[];
  /**
   * The limits of a request of this client, with numbers that hold at this time; none means that it
   * is not limited. The list is not kept. A limit may have a cost that is too dear for it.
   */
  limitsOf(entry: Entry, client: string, nowMs: number): readonly Limit[] | NeverFits;
}

/** What there is to say of a policy that has one limit for all keys. */
export function factsOf(policy: Policy, shadow: boolean): PolicyFacts {
  const { name, algorithm, windowMs } = policy;
  return { name, algorithm, limit: policy.params!.limit, windowMs, shadow };
}

/** Every policy for every request, by the client's name; `shadow` names those only watched. */
export function rulesByClient(
  policies: readonly Policy[],
  shadow: ReadonlySet<string> = new Set(),
): Rules {
  // One list serves all requests, as nobody keeps it.
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

/** What one request would have been told. */
export interface ReplayOutcome {
  readonly allowed: boolean;
  /** The policies that had no room for it. */
  readonly denying: readonly string[];
  /** The policies in shadow that would have denied it. */
  readonly shadowDenying: readonly string[];
  /** Whether it is denied because it costs more than a limit could ever let through. */
  readonly tooDear?: true;
}

const NONE: readonly string[] = [];
const ADMITTED: ReplayOutcome = { allowed: true, denying: NONE, shadowDenying: NONE };

/** A replay must forget nothing that counts, however many clients there are. */
const MAX_KEYS = 2 ** 29;

/** The engine, with room for as many keys as it can have. */
export const roomyStore = (): SyncStore => memoryStore({ maxKeys: MAX_KEYS });

export class Replay {
  readonly #store = roomyStore();
  readonly #rules: Rules;
  /** The policies in shadow by name. */
  readonly #shadow: ReadonlySet<string>;

  constructor(rules: Rules) {
    this.#rules = rules;
    const shadow = rules.policies.filter((policy) => policy.shadow);
    this.#shadow = new Set(shadow.map(({ name }) => name));
  }

  /** Decides one request as the service would. `nowMs` does not run backwards. */
  decide(entry: Entry, client: string, nowMs: number): ReplayOutcome {
    const asked = this.#rules.limitsOf(entry, client, nowMs);
    if ('violated' in asked)
      return { allowed: false, denying: asked.violated, shadowDenying: NONE };
    return asked.some(isDear) ? this.#decideDear(asked, nowMs) : this.#decideSound(asked, nowMs);
  }

  /** With limits that may have room for it. */
  #decideSound(asked: readonly Limit[], nowMs: number): ReplayOutcome {
    if (this.#shadow.size === 0) {
      return this.#takeAll(asked, nowMs) ? ADMITTED : this.#denied(asked, nowMs);
    }
    const isShadow = ({ policy }: Limit): boolean => this.#shadow.has(policy.name);
    const enforced = asked.filter((limit) => !isShadow(limit));
    if (!this.#takeAll(enforced, nowMs)) return this.#denied(enforced, nowMs);
    // What is only watched is charged for what happens, which is all that the others let pass.
    const full = asked.filter((limit) => isShadow(limit) && !this.#take(limit, nowMs));
    if (full.length === 0) return ADMITTED;
    return { allowed: true, denying: NONE, shadowDenying: full.map(nameOf) };
  }

  /** As the service: denied by those that could never let it through, and by no other. */
  #decideDear(asked: readonly Limit[], nowMs: number): ReplayOutcome {
    const dear = asked.filter(isDear).map(nameOf);
    const denying = dear.filter((name) => !this.#shadow.has(name));
    if (denying.length > 0) return { allowed: false, denying, shadowDenying: NONE, tooDear: true };
    const others = asked.filter((limit) => !isDear(limit));
    const outcome = this.#decideSound(others, nowMs);
    if (!outcome.allowed) return outcome;
    return { ...outcome, shadowDenying: [...outcome.shadowDenying, ...dear] };
  }

  /**
   * All or nothing, as the store's own `decideSync`, but without asking all limits before charging
   * them, and without making a decision of them all: most requests pass, and what was charged for
   * one that does not can be taken back as if nothing had been.
   */
  #takeAll(limits: readonly Limit[], nowMs: number): boolean {
    for (let at = 0; at < limits.length; at++) {
      if (this.#take(limits[at], nowMs)) continue;
      for (const limit of limits.slice(0, at))
        this.#store.adjustSync(refundOf(limit, nowMs), nowMs);
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

const isDear = ({ cost, params }: Limit): boolean => isTooDear(cost, params);
const nameOf = ({ policy }: Limit): string => policy.name;
