/** What a limiter offers, as types. Names of policies and operations are checked here. */
import type { AcquireOptions } from './acquire/waiters.ts';
import type { Clock } from './clock.ts';
import type { CheckResult, Decision, Receipt } from './decision.ts';
import type { Key } from './key.ts';
import type { FailureAction, OperationOf, PolicyInput } from './policy.ts';
import type { KeyState, Store } from './store.ts';

export type Policies = Readonly<Record<string, PolicyInput>>;

/** How much a call takes: a cost (default 1), or an operation that the policy has a cost for. */
export type CostOptions<Operation extends string = string> =
  | { readonly cost?: number | undefined; readonly operation?: undefined }
  | { readonly operation: Operation; readonly cost?: undefined };

/** What else may be said about a call. */
export interface CallOptions {
  /**
   * Admitted under this id before, within the longest window of its limits, the call is answered
   * again and not charged again: for callers who try again after a timeout.
   */
  readonly id?: string | undefined;
  /** What to do if the store cannot decide. Default: what the policy says, or the store. */
  readonly onFailure?: FailureAction | undefined;
}

export type PeekOptions = Pick<CallOptions, 'onFailure'>;

/** One limit of a check, with the names that the limiter knows. */
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
  /** What is allowed, by name: `{ perMinute: '100/1m' }`. */
  readonly policies: P;
  /** Where the counters are. Default: `memoryStore()`. */
  readonly store?: S;
  /** Whose time it is. Default: the store's own; for the memory store, this machine's. */
  readonly clock?: Clock;
}

/** Told of every decision that is not a peek. */
export type DecisionListener = (decision: Decision) => void;

export interface Limiter<P extends Policies> {
  /** Decides, and charges if allowed. A denial is a value, not an error. */
  check<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & CallOptions,
  ): Promise<Decision>;
  /** Decides several limits in one step: all are charged, or none. */
  check(limits: readonly LimitRequest<P>[], options?: CallOptions): Promise<Decision>;
  /** What a check would say, without charging. Without a cost it asks for 0. */
  peek<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & PeekOptions,
  ): Promise<CheckResult>;
  peek(limits: readonly LimitRequest<P>[], options?: PeekOptions): Promise<CheckResult>;
  /**
   * Waits until the check passes, in order of arrival for each key. Answers a denial at once, and
   * charges nothing, when the wait would surely be longer than `maxWaitMs`.
   */
  acquire<N extends keyof P & string>(
    policy: N,
    key: Key,
    options?: CostOptions<OperationOf<P[N]>> & AcquireOptions,
  ): Promise<Decision>;
  acquire(limits: readonly LimitRequest<P>[], options?: AcquireOptions): Promise<Decision>;
  /** Takes a charge back, once. Answers how much cost was given back, over all its limits. */
  refund(receipt: Receipt): Promise<number>;
  /**
   * Makes a reserved cost the real one, once: refunds the difference, or charges it even past the
   * limit. Several limits may have an actual cost each. Answers the change that was made.
   */
  settle(receipt: Receipt, actual: number | readonly number[]): Promise<number>;
  /** Makes a key new. */
  reset(policy: keyof P & string, key: Key): Promise<void>;
  /** What is held about a key; undefined if nothing that counts is. */
  inspect(policy: keyof P & string, key: Key): Promise<KeyState | undefined>;
  /** How many keys the store holds, if it can tell. */
  readonly size: number | undefined;
  /** Calls `listener` after every decision until the answer is called. */
  onDecision(listener: DecisionListener): () => void;
  /** Lets everybody who waits go. The store is the caller's to close, and may serve others. */
  close(): Promise<void>;
}

/** What a limiter on a store in this process can do at once, without a promise. */
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
