/**
 * The interface of a store. A store holds the state of the keys, and decides checks.
 *
 * The store decides, because reading the state, deciding and charging must be one atomic step. The
 * limiter validates all arguments before it calls a store: names, keys, costs up to the capacity,
 * and that no check has the same limit twice.
 */
import type { LimitParams } from './algorithms/algorithm.ts';
import { algorithms, isConcurrency } from './algorithms/index.ts';
import type { Charge, CheckResult } from './decision.ts';
import { SluiceError } from './errors.ts';
import type { FailureAction, Policy } from './policy.ts';

/** One policy applied to one key inside a check. */
export interface Limit {
  readonly policy: Policy;
  readonly params: LimitParams;
  readonly key: string;
  readonly cost: number;
}

/**
 * Returns text that identifies a limit. A check must not have two limits with the same id. The
 * lengths make it unambiguous, also if ids are joined. `JSON.stringify` took 7 % of the time of
 * `run`.
 */
export const idOf = (policy: string, key?: string): string =>
  `${policy.length}:${policy}${key === undefined ? '' : `${key.length}:${key}`}`;

/** One or more limits that are decided together: all are charged, or none. */
export interface Check {
  readonly limits: readonly Limit[];
  /** Whether to decide without charging. */
  readonly peek: boolean;
  /**
   * Idempotency key. If a check with this id was admitted within the longest window, its decision
   * is returned again and nothing is charged.
   */
  readonly id?: string | undefined;
  /** The client whose share of the memory for ids is used. Default: a share for all callers. */
  readonly client?: string | undefined;
  /** What to do if the store fails. Default: the action of the policies. */
  readonly onFailure?: FailureAction | undefined;
  /** Kept with the holds of concurrency limits, and returned by `inspect`. */
  readonly label?: string | undefined;
}

/**
 * Changes a charge by `delta`. A delta of minus the charged cost is a refund.
 *
 * The charge of a concurrency limit is a hold, which `charge.fence` identifies. A delta of minus
 * its cost releases it. With `renew`, and a delta of 0, its lease starts again. The change is minus
 * the cost for a release and the cost for a renewal, or 0 if the hold has expired or was released.
 */
export interface Adjustment {
  readonly policy: Policy;
  readonly params: LimitParams;
  readonly charge: Charge;
  readonly delta: number;
  readonly renew?: true;
}

/**
 * Returns how long a used receipt of a limit is remembered, in ms: while a refund of the largest
 * cost has an effect. At least two windows, because `settle` can charge a token bucket at any time.
 */
export function receiptLifetimeMs({ policy, params }: Pick<Limit, 'policy' | 'params'>): number {
  const { refundableMs } = algorithms[policy.algorithm];
  return Math.max(2 * params.windowMs, refundableMs(params, params.capacity));
}

/** Builds the refund of a limit from its decision. */
export function refundOf(
  { policy, params, key, cost }: Limit,
  { atMs, fence, lease }: Pick<Charge, 'atMs' | 'fence' | 'lease'>,
): Adjustment {
  const identity = { ...(fence !== undefined && { fence }), ...(lease !== undefined && { lease }) };
  const charge = { policy: policy.name, key, cost, atMs, ...identity };
  return { policy, params, charge, delta: -cost };
}

/** A hold of a concurrency limit. */
export interface Hold {
  readonly fence: number;
  readonly cost: number;
  /** When it was taken or last renewed. */
  readonly atMs: number;
  readonly expiresAtMs: number;
  /** The `label` of the call that took it. */
  readonly label?: string | undefined;
}

/** Units of a limit that a process has borrowed. */
export interface LentUnits {
  /** Identifies the lease. */
  readonly id: number;
  /** The units that its holder has not reported as spent. */
  readonly units: number;
  readonly endsAtMs: number;
}

/** The decoded state of a key. */
export interface KeyState {
  readonly policy: string;
  readonly algorithm: string;
  /** The cost that counts now. For a token bucket: the missing tokens. */
  readonly used: number;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** The algorithm's three numbers, see its documentation page. The third is 0 for a log. */
  readonly cells: readonly number[];
  /** For a log: the newest 1,000 entries that count, oldest first. Empty for other algorithms. */
  readonly entries: readonly { readonly atMs: number; readonly cost: number }[];
  /** For a log: how many entries count, including those not listed. 0 for other algorithms. */
  readonly entryCount: number;
  /** The newest 1,000 holds of a concurrency limit, those that expire first at the beginning. */
  readonly holds?: readonly Hold[];
  /** The leases of the key, if it has any. `used` includes their units. */
  readonly leases?: readonly LentUnits[];
  /** Set while a block is running: when it ends, in ms since the epoch. */
  readonly blockedUntilMs?: number | undefined;
  /** Set if the next block would be in a row: the number of blocks so far. */
  readonly blocks?: number;
}

/** The largest number of entries, and of holds, that `inspect` returns. */
export const MAX_INSPECTED = 1000;

/** A command that carries one or more operations to the store. */
export interface SentCommand {
  /** The failure domain to which the command is sent, see `domainOf`. Default 0. */
  readonly domain?: number;
  /** Set by the store when the command has ended. An error about one key is a reply. */
  outcome?: 'replied' | 'failed' | undefined;
}

/**
 * Called when an operation is sent, with the command that carries it. Several operations may share
 * one command. The circuit breaker counts the failure of a command once.
 */
export type OnSent = (command: SentCommand) => void;

/** Adds a listener for released holds. Returns a function that removes it. */
export type OnRelease = (listener: (policy: string, key: string) => void) => () => void;

/** Receives the result of an operation: either `succeeded` or `failed` is called, once. */
export interface Recipient<T> {
  /** Whether the caller waits no longer. */
  readonly isExpired?: boolean;
  sent?(command: SentCommand): void;
  succeeded(result: T): void;
  failed(error: unknown): void;
}

/** A kind of policy that a store may not support: concurrency limits, or the `block` option. */
export type StoreFeature = 'concurrency' | 'block';

/** Throws if a policy needs a feature that the store does not support. */
export function checkFeatures(policy: Policy, features: readonly StoreFeature[] = []): void {
  const needed = isConcurrency(policy) ? 'concurrency' : policy.block && 'block';
  if (needed === undefined || features.includes(needed)) return;
  const message = `The store does not support \`${needed}\`, which policy \`${policy.name}\` has`;
  throw new SluiceError('ERR_UNSUPPORTED_POLICY', message);
}

/**
 * The parameter `nowMs` is the time of the limiter's `clock` option. If it is undefined, a store
 * uses its own clock, because the clocks of several callers differ.
 */
export interface Store {
  /** The features that the store supports. Default: none. */
  readonly features?: readonly StoreFeature[] | undefined;
  /** Decides a batch of checks in order. Each check is independent of the others. */
  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]>;
  /**
   * Returns the decision of a check if this process can make it without a call to the store, with
   * units that it has borrowed. Otherwise returns undefined.
   */
  decideLocally?(check: Check, nowMs?: number): CheckResult | undefined;
  /**
   * Decides one check, and passes the result to `recipient`, now or later. Avoids the promise that
   * `decide` creates. Throws only for an error of the caller, such as a check that cannot be sent.
   */
  submit?(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void;
  /** Refunds charges or adds to them. Resolves to the change made by each adjustment. */
  adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]>;
  /**
   * Applies the adjustments of a receipt once. If the receipt `id` was used before, changes nothing
   * and resolves to undefined. The record of the id is kept while a second use could have an
   * effect. It takes memory from the share of `client`, which must be the same for each use of the
   * receipt. Default: a share for all callers.
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
   * they are applied or no longer have an effect. Never rejects. Default: `adjust`.
   */
  adjustLater?(adjustments: readonly Adjustment[], nowMs?: number): Promise<void>;
  /** Deletes everything held about a key, including ids, receipts, holds and blocks. */
  reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void>;
  /**
   * Blocks a key for `forMs` from now, instead of a block that is running. 0 ends the block and
   * sets the number of blocks in a row to 0. The policy has the `block` option.
   */
  block?(
    policy: Policy,
    key: string,
    forMs: number,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<void>;
  /**
   * Returns the failure domain of a key. The keys of one domain become unavailable together. A
   * store without this method is one domain.
   */
  domainOf?(policy: Policy, key: string): number;
  /** Resolves to the state of a key, or undefined if the key has no charge that still counts. */
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
  /**
   * Calls `listener` with the policy and the key when a hold was released, also by another process.
   * Some releases may not be reported. Returns a function that removes the listener.
   */
  readonly onRelease?: OnRelease | undefined;
  /** The number of keys. */
  readonly size?: number | undefined;
  /** The number of keys that were evicted while their charges still counted. */
  readonly evicted?: number | undefined;
  /** The number of keys of each policy that other policies cannot evict. */
  readonly guaranteedKeys?: number | undefined;
  /** Releases connections and timers. */
  close(): Promise<void>;
}

/** A store with its state in this process, which can also decide synchronously. */
export interface SyncStore extends Store {
  /** Returns the table of the keys of a policy, for checks with one limit. */
  open(policy: Policy): SyncPolicyTable;
  decideSync(check: Check, nowMs: number): CheckResult;
  adjustSync(adjustment: Adjustment, nowMs: number): number;
  /** The synchronous form of `adjustOnce`. */
  adjustOnceSync(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number,
    client?: string,
  ): readonly number[] | undefined;
  resetSync(policy: Policy, key: string, nowMs: number): void;
  /** As `block`. */
  blockSync?(policy: Policy, key: string, forMs: number, nowMs: number): void;
  inspectSync(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs: number,
  ): KeyState | undefined;
  readonly size: number;
}

/** The keys of one policy in this process: the fast path for checks with one limit. */
export interface SyncPolicyTable {
  /** Decides a check of one limit, and charges it if it fits. Default time: now. */
  takeSync(
    params: LimitParams,
    key: string,
    cost: number,
    nowMs?: number,
    label?: string,
  ): CheckResult;
  /** Decides a check of one limit, without charging it. */
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
