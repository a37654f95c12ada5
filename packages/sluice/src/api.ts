/** The types of a limiter. Names of policies and operations are checked at compile time. */
import type { AcquireOptions } from './acquire/waiters.ts';
import type { Clock } from './clock.ts';
import type { CheckResult, Decision, Receipt } from './decision.ts';
import type { Key } from './key.ts';
import type { FailureAction, OperationOf, PolicyInput } from './policy.ts';
import type { KeyState, Store } from './store.ts';

export type Policies = Readonly<Record<string, PolicyInput>>;

/** What a call costs: a number (default 1), or an operation named in the policy's `costs`. */
export type CostOptions<Operation extends string = string> =
  | { readonly cost?: number | undefined; readonly operation?: undefined }
  | { readonly operation: Operation; readonly cost?: undefined };

export interface CallOptions {
  /**
   * Idempotency key. If a call with this id was admitted within the longest window of its limits,
   * its decision is returned again and nothing is charged. Use it to retry after a timeout.
   */
  readonly id?: string | undefined;
  /** What to do if the store cannot decide. Default: the policy's action, else the store's. */
  readonly onFailure?: FailureAction | undefined;
}

export type PeekOptions = Pick<CallOptions, 'onFailure'>;

/** One limit of a check. */
export type LimitRequest<P extends Policies> =
  | {
      readonly policy: keyof P & string;
      readonly key: Key;
      readonly cost?: number | undefined;
      readonly operation?: undefined;
    }
  | {
      [Name in keyof P & string]: {
        readonly policy: Name;
        readonly key: Key;
        readonly operation: OperationOf<P[Name]>;
        readonly cost?: undefined;
      };
    }[keyof P & string];

export interface LimiterOptions<P extends Policies, S extends Store = Store> {
  /** Policies by name: `{ perMinute: '100/1m' }`. */
  readonly policies: P;
  /** The store of the counters. Default: `memoryStore()`. */
  readonly store?: S;
  /** Default: the store's own clock; for the memory store, the system clock. */
  readonly clock?: Clock;
}

/** Called with every decision, except for peeks. */
export type DecisionListener = (decision: Decision) => void;

export interface Limiter<P extends Policies> {
  /** Decides one limit, and charges it if allowed. A denial is a value, not an error. */
  check<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & CallOptions,
  ): Promise<Decision>;
  /** Decides several limits atomically: all are charged, or none. */
  check(limits: readonly LimitRequest<P>[], options?: CallOptions): Promise<Decision>;
  /** Returns what a check would decide, without charging. Default cost: 0. */
  peek<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & PeekOptions,
  ): Promise<CheckResult>;
  peek(limits: readonly LimitRequest<P>[], options?: PeekOptions): Promise<CheckResult>;
  /**
   * Waits until the check passes, in order of arrival for each key. If the wait is certain to
   * exceed `maxWaitMs`, resolves to a denial at once and charges nothing.
   */
  acquire<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & AcquireOptions,
  ): Promise<Decision>;
  acquire(limits: readonly LimitRequest<P>[], options?: AcquireOptions): Promise<Decision>;
  /**
   * Refunds a charge. Resolves to the cost refunded, summed over all limits of the check. Each
   * receipt can be used once; a second call resolves to 0.
   */
  refund(receipt: Receipt): Promise<number>;
  /**
   * Adjusts a reserved cost to the actual cost: refunds the difference, or charges it even past
   * the limit. Pass an array for one actual cost per limit. Resolves to the change made. Each
   * receipt can be used once.
   */
  settle(receipt: Receipt, actual: number | readonly number[]): Promise<number>;
  /** Deletes everything held about a key. */
  reset(policy: keyof P & string, key: Key): Promise<void>;
  /** Resolves to the state of a key, or undefined if nothing of it counts. */
  inspect(policy: keyof P & string, key: Key): Promise<KeyState | undefined>;
  /** The number of keys in the store; undefined if the store does not count them. */
  readonly size: number | undefined;
  /** Calls `listener` after every decision. Returns a function that removes it. */
  onDecision(listener: DecisionListener): () => void;
  /** Rejects all calls that wait in `acquire`. Does not close the store, which may be shared. */
  close(): Promise<void>;
}

/** A limiter on a store in this process, which can also decide synchronously. */
export interface SyncLimiter<P extends Policies> extends Limiter<P> {
  checkSync<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & CallOptions,
  ): Decision;
  checkSync(limits: readonly LimitRequest<P>[], options?: CallOptions): Decision;
  peekSync<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>>,
  ): CheckResult;
  peekSync(limits: readonly LimitRequest<P>[]): CheckResult;
  refundSync(receipt: Receipt): number;
  settleSync(receipt: Receipt, actual: number | readonly number[]): number;
  resetSync(policy: keyof P & string, key: Key): void;
  inspectSync(policy: keyof P & string, key: Key): KeyState | undefined;
  readonly size: number;
}
