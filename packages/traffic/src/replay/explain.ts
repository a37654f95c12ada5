/**
 * Explains the decision on one request of a log: replays all requests of the client up to that
 * request, and returns the state of the algorithm at that time.
 */
import type { AlgorithmName, KeyState, Policy } from 'sluice';
import { describeKey, type KeyDescription } from 'sluice/engine';
import type { Entry } from '../entry.ts';
import { costOf, exceedsCapacity, unboundedStore } from './replay.ts';

export interface ExplainOptions {
  /** The policy. Must have one limit for all keys. */
  readonly policy: Policy;
  readonly keyOf: (entry: Entry) => string;
  /** The client, as `keyOf` returns it. */
  readonly key: string;
  /**
   * Time of the request to explain. By default, explains the first denied request or, if none is
   * denied, the request with the least remaining.
   */
  readonly atMs?: number | undefined;
}

export interface ExplainedRequest {
  readonly timeMs: number;
  readonly allowed: boolean;
  /** Cost of the request in the log. Default 1. */
  readonly cost?: number;
}

/** Why a request was chosen for the explanation, see `CHOICES`. */
export type Choice = 'first-denied' | 'least-remaining' | 'at' | 'first-denied-at' | 'none-at';

const CHOICES: Readonly<Record<Choice, string>> = {
  'first-denied': 'the first denied one of this key',
  'least-remaining': 'none is denied; this is the one with the least remaining',
  at: 'the one at the given time',
  'first-denied-at': 'the first denied one of several at the given time',
  'none-at': 'none at the given time; shows what one would get',
};

/** Returns why the request was chosen. */
export const choiceText = (choice: Choice): string => CHOICES[choice];

/** A decision, and the state of the key before it. */
export interface Explanation {
  readonly kind: 'explain';
  /** Set if the request is from a log. */
  readonly choice?: Choice;
  /**
   * Set if the request is from a log: numbers of the client's requests up to and including this
   * request.
   */
  readonly seen?: { readonly requests: number; readonly denied: number };
  readonly policy: string;
  readonly key: string;
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  /** The largest cost that can ever fit: `burst` for a token bucket, otherwise the limit. */
  readonly capacity: number;
  readonly windowMs: number;
  readonly bucketMs: number;
  readonly atMs: number;
  readonly cost: number;
  /** True if the log has costs: limits then count cost instead of requests. */
  readonly hasCosts?: true;
  /** True if the cost exceeds the capacity, so that no wait helps. */
  readonly costAboveLimit?: true;
  readonly allowed: boolean;
  /** Remaining capacity after the request. */
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly resetAfterMs: number;
  /** True if the log has a request at `atMs`. Otherwise the decision is hypothetical. */
  readonly inLog: boolean;
  /** State before the decision; the documentation of each algorithm defines its cells. */
  readonly cells: readonly number[];
  readonly used: number;
  /**
   * For sliding logs and sliding buckets: the entries that count, oldest first. A service returns
   * only the newest 1,000.
   */
  readonly entries: readonly { readonly atMs: number; readonly cost: number }[];
  /** Number of entries that count, if `entries` lists fewer. */
  readonly entryCount?: number;
  /** The requests of the last two windows, including this request; at most the newest 20,000. */
  readonly requests: readonly ExplainedRequest[];
}

/**
 * Returns a description of the state, in numbers and sentences, for a request of the explained
 * cost.
 */
export const describeExplanation = (explained: Explanation): KeyDescription =>
  describeKey(explained.algorithm, explained, explained, explained.atMs, explained.cost);

const MAX_REQUESTS = 20_000;
/**
 * Cost of a hypothetical request, which is explained if the log has no request at the given time.
 */
const HYPOTHETICAL_COST = 1;

type ExplainedDecision = Pick<
  Explanation,
  'cost' | 'allowed' | 'remaining' | 'retryAfterMs' | 'resetAfterMs' | 'atMs'
>;

export class Explainer {
  readonly #options: ExplainOptions;
  readonly #store = unboundedStore();
  #requests: ExplainedRequest[] = [];
  #nowMs = Number.NEGATIVE_INFINITY;
  #found: Explanation | undefined = undefined;
  #seen = 0;
  #denied = 0;
  #hasCosts = false;
  #isDone = false;

  constructor(options: ExplainOptions) {
    this.#options = options;
  }

  /** True once later requests cannot change the result. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** Replays the next requests, in order of time. */
  add(entries: readonly Entry[]): void {
    const { keyOf, key, atMs } = this.#options;
    for (const entry of entries) {
      this.#nowMs = Math.max(this.#nowMs, entry.timeMs);
      if (atMs !== undefined && this.#nowMs > atMs) this.#isDone = true;
      if (this.#isDone) return;
      if (entry.cost !== undefined) this.#hasCosts = true;
      if (keyOf(entry) === key) this.#decide(entry);
    }
  }

  #decide(entry: Entry): void {
    const { atMs } = this.#options;
    const before = this.#stateAt(this.#nowMs);
    const decision = this.#take(costOf(entry));
    this.#seen++;
    if (!decision.allowed) this.#denied++;
    const { cost } = entry;
    const { allowed } = decision;
    this.#note({ timeMs: this.#nowMs, allowed, ...(cost !== undefined && { cost }) });
    if (atMs === undefined) {
      if (decision.allowed && decision.remaining >= (this.#found?.remaining ?? Infinity)) return;
      const choice = decision.allowed ? 'least-remaining' : 'first-denied';
      this.#found = this.#explanation(before, decision, choice);
      this.#isDone = !decision.allowed;
      return;
    }
    // Of several requests at that time, explain the first denied request.
    if (this.#nowMs === atMs && this.#found?.allowed !== false) {
      const isLater = this.#found !== undefined && !decision.allowed;
      this.#found = this.#explanation(before, decision, isLater ? 'first-denied-at' : 'at');
    }
  }

  /** Decides a request. Denies a cost above the capacity without a retry time. */
  #take(cost: number): ExplainedDecision {
    const { policy, key } = this.#options;
    const params = policy.params!;
    const table = this.#store.open(policy);
    if (!exceedsCapacity(cost, params)) return table.takeSync(params, key, cost, this.#nowMs);
    const { remaining, resetAfterMs, atMs } = table.peekSync(params, key, 0, this.#nowMs);
    return { cost, allowed: false, remaining, retryAfterMs: 0, resetAfterMs, atMs };
  }

  #note(request: ExplainedRequest): void {
    this.#requests.push(request);
    const sinceMs = this.#nowMs - 2 * this.#options.policy.windowMs;
    if (this.#requests.length > MAX_REQUESTS && this.#requests[0].timeMs <= sinceMs) {
      this.#requests = this.#requests.filter(({ timeMs }) => timeMs > sinceMs);
    }
    if (this.#requests.length > 2 * MAX_REQUESTS) {
      this.#requests = this.#requests.slice(-MAX_REQUESTS);
    }
  }

  #stateAt(nowMs: number): KeyState | undefined {
    const { policy, key } = this.#options;
    return this.#store.inspectSync(policy, policy.params!, key, nowMs);
  }

  #explanation(
    state: KeyState | undefined,
    decision: ExplainedDecision,
    choice: Choice,
  ): Explanation {
    const { policy, key } = this.#options;
    const { limit, capacity, windowMs, bucketMs } = policy.params!;
    const { cost, allowed, remaining, retryAfterMs, resetAfterMs, atMs } = decision;
    return {
      kind: 'explain',
      choice,
      seen: { requests: this.#seen, denied: this.#denied },
      policy: policy.name,
      key,
      algorithm: policy.algorithm,
      ...{ limit, capacity, windowMs, bucketMs, atMs, cost },
      ...(exceedsCapacity(cost, policy.params!) && { costAboveLimit: true }),
      ...{ allowed, remaining, retryAfterMs, resetAfterMs, inLog: choice !== 'none-at' },
      cells: state?.cells ?? [],
      used: state?.used ?? 0,
      entries: state?.entries ?? [],
      requests: this.#requests
        .filter(({ timeMs }) => timeMs > atMs - 2 * windowMs)
        .slice(-MAX_REQUESTS),
    };
  }

  /** Returns the explanation, or undefined if the client has no requests up to that time. */
  result(): Explanation | undefined {
    const result = this.#result();
    return result && { ...result, ...(this.#hasCosts && { hasCosts: true }) };
  }

  #result(): Explanation | undefined {
    const { policy, key, atMs } = this.#options;
    if (this.#found !== undefined || atMs === undefined || this.#seen === 0) return this.#found;
    const decision = this.#store
      .open(policy)
      .peekSync(policy.params!, key, HYPOTHETICAL_COST, atMs);
    return this.#explanation(this.#stateAt(atMs), decision, 'none-at');
  }
}
