/**
 * Why one request of a log is answered as it is: the requests of its client are replayed up to it,
 * and what the algorithm then knows is laid open.
 */
import type { AlgorithmName, KeyState, Policy } from 'sluice';
import type { Entry } from '../entry.ts';
import { costOf, isTooDear, roomyStore } from './replay.ts';

export interface ExplainOptions {
  /** With one limit for all keys. */
  readonly policy: Policy;
  readonly keyOf: (entry: Entry) => string;
  /** Whose request it is. */
  readonly key: string;
  /** When it came. Default: the first that is denied, or else the one that leaves the least. */
  readonly atMs?: number | undefined;
}

export interface ExplainedRequest {
  readonly timeMs: number;
  readonly allowed: boolean;
  /** Only if the log says so; otherwise it is 1. */
  readonly cost?: number;
}

/** A decision with all that led to it. */
export interface Explanation {
  readonly kind: 'explain';
  readonly policy: string;
  readonly key: string;
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  /** What a token bucket holds; otherwise the limit. */
  readonly capacity: number;
  readonly windowMs: number;
  readonly bucketMs: number;
  readonly atMs: number;
  readonly cost: number;
  /** Whether the log says what requests cost, so that what counts is costs rather than requests. */
  readonly hasCosts?: true;
  /** Whether the cost is above all that the limit could ever let through: no time will do. */
  readonly tooDear?: true;
  readonly allowed: boolean;
  /** What is left after it. */
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly resetAfterMs: number;
  /** Whether there was a request at that time; otherwise it says what one would have been told. */
  readonly wasAsked: boolean;
  /** What is known before the decision: as the algorithm's page tells. */
  readonly cells: readonly number[];
  readonly used: number;
  /** The entries of a log that count, oldest first. A service lists at most the newest 1,000. */
  readonly entries: readonly { readonly atMs: number; readonly cost: number }[];
  /** How many entries count, listed or not. Without it, all are listed. */
  readonly entryCount?: number;
  /** The requests of the last two windows, up to this one, the newest of them if there are many. */
  readonly requests: readonly ExplainedRequest[];
}

const MAX_REQUESTS = 20_000;
/** What is asked about where there was no request. */
const COST = 1;

type Quoted = Pick<
  Explanation,
  'cost' | 'allowed' | 'remaining' | 'retryAfterMs' | 'resetAfterMs' | 'atMs'
>;

export class Explainer {
  readonly #options: ExplainOptions;
  readonly #store = roomyStore();
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

  /** Whether nothing that comes can change the answer. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** How many requests of the client there were, and how many of them were denied, so far. */
  get seen(): { readonly requests: number; readonly denied: number } {
    return { requests: this.#seen, denied: this.#denied };
  }

  /** Takes the next requests, in the order of their times. */
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
    const quote = this.#take(costOf(entry));
    this.#seen++;
    if (!quote.allowed) this.#denied++;
    const { cost } = entry;
    const { allowed } = quote;
    this.#note({ timeMs: this.#nowMs, allowed, ...(cost !== undefined && { cost }) });
    if (atMs === undefined) {
      if (quote.allowed && quote.remaining >= (this.#found?.remaining ?? Infinity)) return;
      this.#found = this.#explanation(before, quote, true);
      this.#isDone = !quote.allowed;
      return;
    }
    // Of several at the same time, the first that is denied is the one that somebody asks about.
    if (this.#nowMs === atMs && this.#found?.allowed !== false) {
      this.#found = this.#explanation(before, quote, true);
    }
  }

  /** A cost that is too dear is denied without asking, and there is no time to come back at. */
  #take(cost: number): Quoted {
    const { policy, key } = this.#options;
    const params = policy.params!;
    const space = this.#store.open(policy);
    if (!isTooDear(cost, params)) return space.takeSync(params, key, cost, this.#nowMs);
    const { remaining, resetAfterMs, atMs } = space.peekSync(params, key, 0, this.#nowMs);
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

  #explanation(state: KeyState | undefined, quote: Quoted, wasAsked: boolean): Explanation {
    const { policy, key } = this.#options;
    const { limit, capacity, windowMs, bucketMs } = policy.params!;
    const { cost, allowed, remaining, retryAfterMs, resetAfterMs, atMs } = quote;
    return {
      kind: 'explain',
      policy: policy.name,
      key,
      algorithm: policy.algorithm,
      ...{ limit, capacity, windowMs, bucketMs, atMs, cost },
      ...(isTooDear(cost, policy.params!) && { tooDear: true }),
      ...{ allowed, remaining, retryAfterMs, resetAfterMs, wasAsked },
      cells: state?.cells ?? [],
      used: state?.used ?? 0,
      entries: state?.entries ?? [],
      requests: this.#requests
        .filter(({ timeMs }) => timeMs > atMs - 2 * windowMs)
        .slice(-MAX_REQUESTS),
    };
  }

  /** The answer, once all has been read; undefined if the client has no requests up to there. */
  result(): Explanation | undefined {
    const result = this.#result();
    return result && { ...result, ...(this.#hasCosts && { hasCosts: true }) };
  }

  #result(): Explanation | undefined {
    const { policy, key, atMs } = this.#options;
    if (this.#found !== undefined || atMs === undefined || this.#seen === 0) return this.#found;
    const quote = this.#store.open(policy).peekSync(policy.params!, key, COST, atMs);
    return this.#explanation(this.#stateAt(atMs), quote, false);
  }
}
