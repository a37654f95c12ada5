/**
 * Adapts stores of express-rate-limit, such as rate-limit-redis and rate-limit-mongo, to Sluice.
 *
 * Such a store only counts requests, in its own fixed windows. So up to twice the limit is admitted
 * around the boundary of two windows, and the cost of a request is always 1.
 */
import { systemClock } from '../../clock.ts';
import { type CheckResult, DecisionRecord, PeekRecord, type Receipt } from '../../decision.ts';
import { expected, isInteger, isRecord } from '../../errors.ts';
import { type GuardedStore, withFailurePolicy } from '../../failure/guarded-store.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, Check, KeyState, Limit, Store } from '../../store.ts';

type Maybe<T> = T | Promise<T>;

/** The count of a key, as in express-rate-limit. */
export interface ClientRateLimitInfo {
  readonly totalHits: number;
  readonly resetTime: Date | undefined;
}

/** The store interface of express-rate-limit. */
export interface CounterStore<O = never> {
  init?(options: O): Maybe<void>;
  get?(key: string): Maybe<ClientRateLimitInfo | undefined>;
  increment(key: string): Maybe<ClientRateLimitInfo>;
  decrement(key: string): Maybe<void>;
  resetKey(key: string): Maybe<void>;
  resetAll?(): Maybe<void>;
  shutdown?(): Maybe<void>;
  readonly localKeys?: boolean;
  readonly prefix?: string;
}

/** The store interface of express-rate-limit before version 6. */
export interface LegacyStore {
  incr(key: string, callback: IncrementCallback): void;
  decrement(key: string): void;
  resetKey(key: string): void;
  resetAll?(): void;
}

export type IncrementCallback = (
  error: Error | undefined,
  totalHits: number,
  resetTime: Date | undefined,
) => void;

/** The deadline of the store. Longer than for Redis, because many stores use a database. */
const DEADLINE_MS = 1000;

/** Whether a value is a store of express-rate-limit and not a store of Sluice. */
export function isCounterStore(store: unknown): store is CounterStore | LegacyStore {
  if (!isRecord(store) || typeof store.decide === 'function') return false;
  return typeof store.increment === 'function' || typeof store.incr === 'function';
}

/** Throws if a method has the wrong type. */
function checkCounterStore(store: CounterStore | LegacyStore): void {
  const methods = store as unknown as Record<string, unknown>;
  const isMissing = ['decrement', 'resetKey'].some((name) => typeof methods[name] !== 'function');
  const isWrong = ['init', 'get', 'resetAll', 'shutdown'].some(
    (name) => methods[name] !== undefined && typeof methods[name] !== 'function',
  );
  if (!isMissing && !isWrong) return;
  const what = '`store` to have the methods `increment`, `decrement` and `resetKey`';
  throw expected('ERR_INVALID_OPTION', what, store);
}

/** Converts a store with callbacks to a store with promises. */
function withPromises(store: CounterStore | LegacyStore): CounterStore {
  if ('increment' in store) return store;
  const increment = (key: string): Promise<ClientRateLimitInfo> =>
    new Promise((resolve, reject) => {
      store.incr(key, (error, totalHits, resetTime) => {
        if (error) reject(error);
        else resolve({ totalHits, resetTime });
      });
    });
  return {
    increment,
    decrement: (key) => store.decrement(key),
    resetKey: (key) => store.resetKey(key),
  };
}

/** A decision whose receipt contains the end of the window, after which refunds have no effect. */
class CountedDecision extends DecisionRecord {
  override get receipt(): Receipt | undefined {
    const receipt = super.receipt;
    const windowEndMs = this.atMs + this.resetAfterMs;
    if (receipt !== undefined) Object.assign(receipt.charges[0], { windowEndMs });
    return receipt;
  }
}

export interface CounterStoreEvents {
  /** Called if the store fails to count. */
  onError(error: unknown): void;
  /**
   * Whether requests can be refunded. If so, denied requests are refunded too, because their counts
   * would delay the next admission.
   */
  readonly refunds: boolean;
}

class CountingStore implements Store {
  readonly #store: CounterStore;
  readonly #events: CounterStoreEvents;

  constructor(store: CounterStore, events: CounterStoreEvents) {
    this.#store = store;
    this.#events = events;
  }

  async decide(checks: readonly Check[]): Promise<readonly CheckResult[]> {
    return Promise.all(checks.map((check) => this.#decide(check)));
  }

  async #decide({ limits, peek }: Check): Promise<CheckResult> {
    const [limit] = limits;
    if (limits.length > 1 || limit.cost > 1) {
      throw expected('ERR_INVALID_CHECK', 'one limit with a cost of 1', limits);
    }
    if (peek) return decisionOf(limit, await this.#get(limit.key), true);
    let counted: ClientRateLimitInfo;
    try {
      counted = withValidCount(await this.#store.increment(limit.key));
    } catch (error) {
      this.#events.onError(error);
      throw error;
    }
    const decision = decisionOf(limit, counted, false);
    if (!decision.allowed && this.#events.refunds) this.#refundDenied(limit.key);
    return decision;
  }

  /** Refunds a denied request. The decision does not wait for the refund. */
  async #refundDenied(key: string): Promise<void> {
    try {
      await this.#store.decrement(key);
    } catch (error) {
      this.#events.onError(error);
    }
  }

  async adjust(adjustments: readonly Adjustment[]): Promise<readonly number[]> {
    return Promise.all(
      adjustments.map(async ({ policy, charge, delta }) => {
        const { windowEndMs = charge.atMs + policy.windowMs } = charge as { windowEndMs?: number };
        // After the end of its window, the charge no longer counts.
        if (delta >= 0 || systemClock.now() >= windowEndMs) return 0;
        await this.#store.decrement(charge.key);
        return delta;
      }),
    );
  }

  async reset(_policy: Policy, key: string): Promise<void> {
    await this.#store.resetKey(key);
  }

  async inspect(
    policy: Policy,
    { limit }: { readonly limit: number },
    key: string,
  ): Promise<KeyState | undefined> {
    const counted = await this.#get(key);
    if (counted === undefined) return undefined;
    return {
      policy: policy.name,
      algorithm: policy.algorithm,
      used: counted.totalHits,
      remaining: Math.max(limit - counted.totalHits, 0),
      resetAfterMs: untilMs(counted.resetTime, policy.windowMs),
      cells: [],
      entries: [],
      entryCount: 0,
    };
  }

  async #get(key: string): Promise<ClientRateLimitInfo | undefined> {
    if (this.#store.get !== undefined) return this.#store.get(key);
    throw expected('ERR_INVALID_OPTION', '`store` to have the method `get`', this.#store);
  }

  async close(): Promise<void> {
    await this.#store.shutdown?.();
  }
}

/** Returns `counted`. Throws if its count is not an integer: NaN would admit every request. */
function withValidCount(counted: ClientRateLimitInfo): ClientRateLimitInfo {
  if (isInteger(counted?.totalHits, 1)) return counted;
  const what = '`totalHits` of the store to be an integer >= 1';
  throw expected('ERR_INVALID_OPTION', what, counted?.totalHits);
}

/** Returns the time until the reset, or one window if the store returned no time. */
function untilMs(resetTime: Date | undefined, windowMs: number): number {
  const timeMs = resetTime?.getTime();
  return timeMs === undefined ? windowMs : Math.max(timeMs - systemClock.now(), 0);
}

function decisionOf(
  { policy, params, key, cost }: Limit,
  counted: ClientRateLimitInfo | undefined,
  isPeek: boolean,
): CheckResult {
  const atMs = systemClock.now();
  const hits = (counted?.totalHits ?? 0) + (isPeek ? cost : 0);
  const resetAfterMs = untilMs(counted?.resetTime, policy.windowMs);
  const retryAfterMs = hits <= params.limit ? 0 : Math.max(resetAfterMs, 1);
  const kind = isPeek ? PeekRecord : CountedDecision;
  const result = { free: params.limit - hits, resetAfterMs };
  return new kind(policy.name, key, cost, params.limit, retryAfterMs, atMs, result);
}

/** Adapts a store of express-rate-limit, and adds failure handling. */
export function sluiceStore(
  store: CounterStore | LegacyStore,
  events: CounterStoreEvents,
): GuardedStore {
  checkCounterStore(store);
  return withFailurePolicy(new CountingStore(withPromises(store), events), {
    deadlineMs: DEADLINE_MS,
  });
}
