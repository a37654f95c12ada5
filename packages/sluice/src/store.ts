/**
 * The contract of a store: where the state of the keys lies, and who decides.
 *
 * A store decides, because deciding where the state lies is the only shape that is one atomic
 * step. The limiter has checked everything it passes: names, keys, costs up to the capacity, and
 * no limit twice in one check.
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

/** What no two limits of a check may share. */
export const idOf = (policy: string, key: string): string => JSON.stringify([policy, key]);

/** One or more limits decided together, all or nothing, at one instant. */
export interface Check {
  readonly limits: readonly Limit[];
  /** A peek asks and writes nothing, whatever the answer. */
  readonly peek: boolean;
  /** Admitted once under this id within the longest window, it is answered again, not charged. */
  readonly id?: string | undefined;
  /** What to do if the store fails; without it, what the policies say. */
  readonly onFailure?: FailureAction | undefined;
}

/** Change by `delta` what a charge of a receipt stands for; minus the charged cost is a refund. */
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

/** Takes back what a limit was charged at a time. */
export function refundOf({ policy, params, key, cost }: Limit, atMs: number): Adjustment {
  return { policy, params, charge: { policy: policy.name, key, cost, atMs }, delta: -cost };
}

/** What is held about a key, decoded. */
export interface KeyState {
  readonly policy: string;
  readonly algorithm: string;
  /** What counts against the limit now, in cost. For a token bucket: what is missing. */
  readonly used: number;
  readonly remaining: number;
  readonly resetAfterMs: number;
  /** The algorithm's own three numbers, as its page tells; the third of a log is the store's. */
  readonly cells: readonly number[];
  /**
   * The newest entries of a log that count, oldest first, at most 1,000 of them. The other
   * algorithms have none.
   */
  readonly entries: readonly { readonly atMs: number; readonly cost: number }[];
  /** How many entries of the log count, listed or not; 0 for the other algorithms. */
  readonly entryCount: number;
}

/** The largest number of entries that `inspect` returns. */
export const MAX_INSPECTED = 1000;

/** A command that carries one or more operations to the store. */
export interface SentCommand {
  /** The failure domain that it is sent to, as `domainOf` returns it. Default 0. */
  readonly domain?: number;
  /** Set by the store when it has replied or failed. An error of a key alone is a reply. */
  outcome?: 'replied' | 'failed' | undefined;
}

/**
 * Called when an operation is sent, with the command that carries it. Several operations may share
 * one command, whose failure is then one failure of the store.
 */
export type OnSent = (command: SentCommand) => void;

/** Whoever waits for an answer; one of the two is called, once. */
export interface Recipient<T> {
  sent?(command: SentCommand): void;
  answered(answer: T): void;
  failed(error: unknown): void;
}

/**
 * `nowMs` is the time that the limiter was told to use. Without it, a store uses its own clock:
 * callers' clocks are not to be trusted where a store serves several of them.
 */
export interface Store {
  /** Decides a batch of checks, in order. One check's denial does not concern its neighbours. */
  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]>;
  /**
   * Decides one check as `decide` does, and tells `recipient`, now or later: for those who ask so
   * often that a promise would be a cost. Throws only for an error of the caller, such as a check
   * that cannot be sent.
   */
  submit?(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void;
  /** Takes charges back, or adds to them. Answers, for each, the change that was made. */
  adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]>;
  /**
   * Applies adjustments once for each receipt. Resolves to undefined, and changes nothing, if the
   * receipt `id` has been used before and could still change something.
   */
  adjustOnce?(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[] | undefined>;
  /**
   * Applies adjustments that no caller waits for, when the store can be reached. Resolves when they
   * are done or no longer matter, and never rejects. Without this method, `adjust` is called.
   */
  adjustLater?(adjustments: readonly Adjustment[], nowMs?: number): Promise<void>;
  /** Deletes everything held about a key, including ids and receipts. */
  reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void>;
  /**
   * The failure domain of a key: keys of one domain become unavailable together. A store without
   * this method is one domain.
   */
  domainOf?(policy: Policy, key: string): number;
  /** What is held about a key; undefined if nothing that counts is. */
  inspect?(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<KeyState | undefined>;
  /**
   * Calls `listener` each time that a connection to the store has been established. Returns a
   * function that removes the listener.
   */
  onReady?(listener: () => void): () => void;
  /** How many keys are held. */
  readonly size?: number | undefined;
  /** How many keys were evicted while they still counted. */
  readonly evicted?: number | undefined;
  /** How many keys of each policy are never evicted, whatever the other policies hold. */
  readonly guaranteedKeys?: number | undefined;
  /** Lets go of connections and timers. */
  close(): Promise<void>;
}

/** A store that can also answer at once, because its state lies in this process. */
export interface SyncStore extends Store {
  /** The keys of a policy, for checks of that one limit. */
  open(policy: Policy): SyncPolicyTable;
  decideSync(check: Check, nowMs: number): CheckResult;
  adjustSync(adjustment: Adjustment, nowMs: number): number;
  /** As `adjustOnce`. */
  adjustOnceSync(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs: number,
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

/** The keys of one policy in this process: the short way to a decision. */
export interface SyncPolicyTable {
  /** Decides a check of one limit, and charges it if it fits. Without a time, as of now. */
  takeSync(params: LimitParams, key: string, cost: number, nowMs?: number): CheckResult;
  /** The same without charging. */
  peekSync(params: LimitParams, key: string, cost: number, nowMs: number): CheckResult;
}
