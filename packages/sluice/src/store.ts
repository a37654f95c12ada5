/**
 * The contract of a store, which holds the state of the keys and decides.
 *
 * Stores decide, because only a decision made where the state is can be one atomic step. The
 * limiter validates everything it passes: names, keys, costs up to the capacity, and that no check
 * has a limit twice.
 */
import type { LimitParams } from './algorithms/algorithm.ts';
import { algorithms } from './algorithms/index.ts';
import type { Charge, CheckResult } from './decision.ts';
import type { FailureAction, Policy } from './policy.ts';

/** One policy applied to one key inside a check. */
export interface Limit {
  readonly policy: Policy;
  readonly params: LimitParams;
  readonly key: string;
  readonly cost: number;
}

/** Identifies a limit. No two limits of a check may have the same. */
export const idOf = (policy: string, key?: string): string => JSON.stringify([policy, key]);

/** One or more limits that are decided together: all are charged, or none. */
export interface Check {
  readonly limits: readonly Limit[];
  /** Decides without charging. */
  readonly peek: boolean;
  /** Idempotency key: a check admitted under it within the longest window is not charged again. */
  readonly id?: string | undefined;
  /** The client that the record of the id is accounted to. Default: one for all callers. */
  readonly client?: string | undefined;
  /** What to do if the store fails. Default: the action of the policies. */
  readonly onFailure?: FailureAction | undefined;
}

/** Changes a charge by `delta`. A delta of minus the charged cost is a refund. */
export interface Adjustment {
  readonly policy: Policy;
  readonly params: LimitParams;
  readonly charge: Charge;
  readonly delta: number;
}

/**
 * Returns how long the receipts of a limit are kept, in ms: while a refund of the largest cost has
 * an effect, and at least two windows, because `settle` can charge a token bucket more at any time.
 */
export function receiptLifetimeMs({ policy, params }: Pick<Limit, 'policy' | 'params'>): number {
  const { refundableMs } = algorithms[policy.algorithm];
  return Math.max(2 * params.windowMs, refundableMs(params, params.capacity));
}

/** Builds the refund of a limit that was charged at `atMs`. */
export function refundOf({ policy, params, key, cost }: Limit, atMs: number): Adjustment {
  return { policy, params, charge: { policy: policy.name, key, cost, atMs }, delta: -cost };
}

/** The decoded state of a key. */
export interface KeyState {
  readonly policy: string;
  readonly algorithm: string;
  /** The cost that counts now. For a token bucket: the missing tokens. */
  readonly used: number;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** The algorithm's three numbers, see its documentation page. The third of a log is unused. */
  readonly cells: readonly number[];
  /** The newest 1,000 entries of a log that count, oldest first. Empty for other algorithms. */
  readonly entries: readonly { readonly atMs: number; readonly cost: number }[];
  /** How many entries of a log count, listed or not; 0 for other algorithms. */
  readonly entryCount: number;
}

/** The largest number of entries that `inspect` returns. */
export const MAX_INSPECTED = 1000;

/** A command that carries one or more operations to the store. */
export interface SentCommand {
  /** The failure domain that it is sent to, see `domainOf`. Default 0. */
  readonly domain?: number;
  /** Set by the store when it has replied or failed. An error about one key is a reply. */
  outcome?: 'replied' | 'failed' | undefined;
}

/**
 * Called with the command that carries an operation when it is sent. Several operations may share
 * one command, whose failure then counts once.
 */
export type OnSent = (command: SentCommand) => void;

/** Receives the result of an operation: either `succeeded` or `failed` is called, once. */
export interface Recipient<T> {
  sent?(command: SentCommand): void;
  succeeded(result: T): void;
  failed(error: unknown): void;
}

/**
 * `nowMs` is the time of the limiter's `clock` option. Without it, a store uses its own clock,
 * because the clocks of several callers differ.
 */
export interface Store {
  /** Decides a batch of checks in order. Each check is independent of the others. */
  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]>;
  /**
   * Decides one check as `decide` does, and calls `recipient`, now or later. Avoids the cost of a
   * promise. Throws only for an error of the caller, such as a check that cannot be sent.
   */
  submit?(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void;
  /** Refunds charges or adds to them. Resolves to the change made, for each adjustment. */
  adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]>;
  /**
   * Applies adjustments once for each receipt. If the receipt `id` was used before and could still
   * have an effect, changes nothing and resolves to undefined. The record is accounted to `client`,
   * which must be the same whenever the receipt is used. Default: one for all callers.
   */
  adjustOnce?(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
    client?: string,
  ): Promise<readonly number[] | undefined>;
  /**
   * Applies adjustments that no caller waits for, as soon as the store is reachable. Resolves when
   * they are done or no longer have an effect. Never rejects. Default: `adjust`.
   */
  adjustLater?(adjustments: readonly Adjustment[], nowMs?: number): Promise<void>;
  /** Deletes everything held about a key, including ids and receipts. */
  reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void>;
  /**
   * Returns the failure domain of a key. The keys of one domain become unavailable together. A
   * store without this method is one domain.
   */
  domainOf?(policy: Policy, key: string): number;
  /** Resolves to the state of a key, or undefined if nothing of it counts. */
  inspect?(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<KeyState | undefined>;
  /**
   * Calls `listener` each time a connection to the store is established. Returns a function that
   * removes the listener.
   */
  onReady?(listener: () => void): () => void;
  /** The number of keys. */
  readonly size?: number | undefined;
  /** The number of keys that were evicted while they still counted. */
  readonly evicted?: number | undefined;
  /** The number of keys of each policy that other policies cannot evict. */
  readonly guaranteedKeys?: number | undefined;
  /** Releases connections and timers. */
  close(): Promise<void>;
}

/** A store with its state in this process, which can also decide synchronously. */
export interface SyncStore extends Store {
  /** Returns the keys of a policy, for checks of that one limit. */
  open(policy: Policy): SyncPolicyTable;
  decideSync(check: Check, nowMs: number): CheckResult;
  adjustSync(adjustment: Adjustment, nowMs: number): number;
  /** As `adjustOnce`. */
  adjustOnceSync(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number,
    client?: string,
  ): readonly number[] | undefined;
  resetSync(policy: Policy, key: string, nowMs: number): void;
  inspectSync(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs: number,
  ): KeyState | undefined;
  readonly size: number;
}

/** The keys of one policy in this process: the fast path to a decision. */
export interface SyncPolicyTable {
  /** Decides a check of one limit, and charges it if it fits. Default time: now. */
  takeSync(params: LimitParams, key: string, cost: number, nowMs?: number): CheckResult;
  /** The same without charging. */
  peekSync(params: LimitParams, key: string, cost: number, nowMs: number): CheckResult;
}

/** Implements `decide` by `submit`: each check is submitted on its own. */
export function decideBySubmit(
  store: Required<Pick<Store, 'submit'>>,
  checks: readonly Check[],
  nowMs?: number,
): Promise<readonly CheckResult[]> {
  const all = checks.map(
    (check) =>
      new Promise<readonly CheckResult[]>((succeeded, failed) => {
        store.submit(check, nowMs, { succeeded, failed });
      }),
  );
  return all.length === 1 ? all[0] : Promise.all(all).then((results) => results.flat());
}
