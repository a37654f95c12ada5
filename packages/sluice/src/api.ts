/** The types of a limiter. Names of policies and operations are checked at compile time. */
import type { AcquireOptions } from './acquire/waiters.ts';
import type { Clock } from './clock.ts';
import type { CheckResult, Decision, Receipt } from './decision.ts';
import type { Key } from './key.ts';
import type { Duration, FailureAction, OperationOf, PolicyInput } from './policy.ts';
import type { RunContext, RunOptions, RunResult } from './run/context.ts';
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
   * Default: every call is charged.
   *
   * @example id: request.headers['idempotency-key']
   */
  readonly id?: string | undefined;
  /**
   * What to do if the store cannot decide. Default: the policy's action, else the store's.
   *
   * @example onFailure: 'deny'
   */
  readonly onFailure?: FailureAction | undefined;
  /**
   * Text of up to 64 characters that names the holder of a concurrency limit. `inspect` returns
   * it. Other limits ignore it. Default: none.
   *
   * @example label: 'worker-3'
   */
  readonly label?: string | undefined;
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
  /**
   * Policies by name. Required.
   *
   * @example policies: { perMinute: '100/1m' }
   */
  readonly policies: P;
  /**
   * The store of the counters. Default: `memoryStore()`.
   *
   * @example store: redisStore(client)
   */
  readonly store?: S;
  /**
   * The clock. Default: the store's own clock; for the memory store, the system clock.
   *
   * @example clock: new ManualClock()
   */
  readonly clock?: Clock;
}

/** Called with the decision of every `check` and `acquire`, but not of `peek`. */
export type DecisionListener = (decision: Decision) => void;

/** The function of `run`. */
type Work<T> = (context: RunContext) => T | PromiseLike<T>;

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
   * Waits until the check passes. Calls for the same key are admitted in order of arrival. If the
   * wait is certain to exceed `maxWaitMs`, resolves to a denial at once and charges nothing.
   */
  acquire<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & AcquireOptions,
  ): Promise<Decision>;
  acquire(limits: readonly LimitRequest<P>[], options?: AcquireOptions): Promise<Decision>;
  /**
   * Waits as `acquire` does, then calls a function, the last argument. Renews the holds of
   * concurrency limits while the function runs, and releases them once when it returns or throws.
   * Resolves to the function's value, or to a denial; rejects with the function's error.
   */
  run<N extends keyof P & string, T>(
    policy: N,
    key: Key,
    options: CostOptions<OperationOf<P[N]>> & RunOptions,
    work: Work<T>,
  ): Promise<RunResult<T>>;
  run<T>(policy: keyof P & string, key: Key, work: Work<T>): Promise<RunResult<T>>;
  run<T>(
    limits: readonly LimitRequest<P>[],
    options: RunOptions,
    work: Work<T>,
  ): Promise<RunResult<T>>;
  run<T>(limits: readonly LimitRequest<P>[], work: Work<T>): Promise<RunResult<T>>;
  /**
   * Refunds a charge, and releases the holds of the receipt. Resolves to the cost refunded, summed
   * over all limits of the check. Each receipt can be used once; a second call resolves to 0.
   */
  refund(receipt: Receipt): Promise<number>;
  /**
   * Adjusts a reserved cost to the actual cost: refunds the difference, or charges it even past
   * the limit. Pass an array to set one actual cost per limit. Resolves to the change, summed over
   * all limits. Each receipt can be used once. Does not change holds of concurrency limits.
   */
  settle(receipt: Receipt, actual: number | readonly number[]): Promise<number>;
  /**
   * Releases the holds of a receipt; the charges of its window limits stay. Resolves to false if a
   * hold had expired or was released before.
   */
  release(receipt: Receipt): Promise<boolean>;
  /**
   * Starts the leases of a receipt's holds again. Resolves to false if a hold has expired or was
   * released: then the holder must stop.
   */
  renew(receipt: Receipt): Promise<boolean>;
  /**
   * Blocks a key of a policy with the `block` option for a duration, such as `'1h'`. Replaces a
   * running block. Does not make later blocks longer.
   */
  block(policy: keyof P & string, key: Key, duration: Duration): Promise<void>;
  /** Ends the block of a key. The next block has the length of the first. */
  unblock(policy: keyof P & string, key: Key): Promise<void>;
  /** Deletes the state of a key, including its ids, used receipts, holds and blocks. */
  reset(policy: keyof P & string, key: Key): Promise<void>;
  /** Resolves to the state of a key, or undefined if the key has no charge that still counts. */
  inspect(policy: keyof P & string, key: Key): Promise<KeyState | undefined>;
  /** The number of keys in the store; undefined if the store does not count them. */
  readonly size: number | undefined;
  /** Calls `listener` after every decision. Returns a function that removes the listener. */
  onDecision(listener: DecisionListener): () => void;
  /** Rejects all calls that wait in `acquire`. Does not close the store, which may be shared. */
  close(): Promise<void>;
}

/** A limiter whose store is in this process, so that it can also decide synchronously. */
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
  releaseSync(receipt: Receipt): boolean;
  renewSync(receipt: Receipt): boolean;
  blockSync(policy: keyof P & string, key: Key, duration: Duration): void;
  unblockSync(policy: keyof P & string, key: Key): void;
  resetSync(policy: keyof P & string, key: Key): void;
  inspectSync(policy: keyof P & string, key: Key): KeyState | undefined;
  readonly size: number;
}
