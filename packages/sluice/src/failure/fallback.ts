/**
 * What is decided in a store's place: `allow`, `deny`, `local` or `throw`. Such a decision says so,
 * and so does its receipt, because it must not be given back to a store that never charged it.
 */
import type { LimitParams } from '../algorithms/algorithm.ts';
import { monotonicClock, scheduleInBackground, systemClock } from '../clock.ts';
import {
  type CheckResult,
  type Degraded,
  jointDecision,
  type LimitDecision,
  type Receipt,
} from '../decision.ts';
import { SluiceError } from '../errors.ts';
import type { FailureAction, Policy } from '../policy.ts';
import {
  type Adjustment,
  type Check,
  type Limit,
  receiptLifetimeMs,
  type SyncStore,
} from '../store.ts';
import { memoryStore } from '../stores/memory/memory-store.ts';
import type { Reason } from './call.ts';

/** From the least to the most careful: of several limits, the most careful one's counts. */
const CAREFULNESS: readonly FailureAction[] = ['allow', 'local', 'deny', 'throw'];

/** Why the store did not decide. */
export interface Failure {
  readonly reason: Reason;
  readonly cause: unknown;
  /** Whether the store surely has not done it. */
  readonly notDone: boolean;
  /** How long until the store is asked again, in ms. */
  readonly waitMs: number;
  /** The token of the charge that the store may still make. */
  readonly late: string | undefined;
}

const MAX_DELAY_MS = 3_600_000;

export class Fallback {
  readonly #action: FailureAction;
  readonly #share: number;
  /** The store of this process; made when it is first needed, released when nothing counts. */
  #local: SyncStore | undefined = undefined;
  /** When it was last used, how long its charges may count, and what stops its timer. */
  #usedMs = 0;
  #countsMs = 0;
  #stopTimer: (() => void) | undefined = undefined;

  constructor(action: FailureAction, share: number) {
    this.#action = action;
    this.#share = share;
  }

  actionFor({ onFailure, limits }: Check): FailureAction {
    if (onFailure !== undefined) return onFailure;
    let rank = 0;
    for (const { policy } of limits) {
      rank = Math.max(rank, CAREFULNESS.indexOf(policy.onFailure ?? this.#action));
    }
    return CAREFULNESS[rank];
  }

  /** Throws if that is the action of the check. */
  decide(check: Check, nowMs: number | undefined, failure: Failure): CheckResult {
    const { reason, waitMs, cause, notDone, late } = failure;
    const action = this.actionFor(check);
    if (action === 'throw') throw unavailable(reason, cause, notDone);
    const timeMs = nowMs ?? systemClock.now();
    if (action === 'local') {
      // How long a charge counts by a caller's clock cannot be told by this process's.
      if (nowMs !== undefined) this.#countsMs = Number.POSITIVE_INFINITY;
      const local = this.#decideLocally(check, timeMs, waitMs);
      return marked(local, { reason, action }, late);
    }
    const limits = check.limits.map((limit) =>
      action === 'allow' ? asNew(limit, timeMs) : refused(limit, timeMs, waitMs),
    );
    const result = jointDecision(limits, !check.peek && action === 'allow');
    return marked(result, { reason, action }, late);
  }

  /** Adjusts what this process has charged. Returns, for each adjustment, the change. */
  adjust(adjustments: readonly Adjustment[], nowMs = systemClock.now()): readonly number[] {
    return adjustments.map((adjustment) =>
      this.#local !== undefined && adjustment.charge.local
        ? this.#local.adjustSync(this.#shared(adjustment), nowMs)
        : 0,
    );
  }

  /** As `adjust`, once for each receipt: undefined if the receipt has been used. */
  adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs = systemClock.now(),
  ): readonly number[] | undefined {
    const isLocal = adjustments.some(({ charge }) => charge.local);
    if (!isLocal || this.#local?.adjustOnceSync === undefined) {
      return this.adjust(adjustments, nowMs);
    }
    const own = adjustments.filter(({ charge }) => charge.local);
    const changes = this.#local.adjustOnceSync(id, own.map(this.#shared, this), nowMs);
    if (changes === undefined) return undefined;
    const rest = [...changes];
    return adjustments.map(({ charge }) => (charge.local ? rest.shift()! : 0));
  }

  #shared(adjustment: Adjustment): Adjustment {
    return { ...adjustment, params: this.#scaled(adjustment.params) };
  }

  reset(policy: Policy, key: string, nowMs: number | undefined): void {
    this.#local?.resetSync(policy, key, nowMs ?? systemClock.now());
  }

  #decideLocally(check: Check, timeMs: number, waitMs: number): CheckResult {
    const limits = check.limits.map((limit) => ({ ...limit, params: this.#scaled(limit.params) }));
    const tooLarge = limits.some(({ cost, params }) => cost > params.capacity);
    if (tooLarge) {
      // It fits the limit, but not this process's share of it, however long it waits.
      return jointDecision(
        limits.map((limit) => refused(limit, timeMs, waitMs)),
        false,
      );
    }
    this.#local ??= memoryStore();
    this.#countsMs = Math.max(this.#countsMs, ...limits.map(receiptLifetimeMs));
    this.#usedMs = monotonicClock.now();
    if (this.#stopTimer === undefined) this.#release();
    return this.#local.decideSync({ limits, peek: check.peek, id: check.id }, timeMs);
  }

  /** Releases the memory of the local store once all that it has charged has expired. */
  #release(): void {
    const leftMs = this.#usedMs + this.#countsMs - monotonicClock.now();
    if (leftMs <= 0) {
      this.#local = undefined;
      this.#countsMs = 0;
      this.#stopTimer = undefined;
    } else {
      const delayMs = Math.min(leftMs, MAX_DELAY_MS);
      this.#stopTimer = scheduleInBackground(delayMs, () => this.#release());
    }
  }

  close(): void {
    this.#stopTimer?.();
  }

  #scaled(params: LimitParams): LimitParams {
    if (this.#share === 1) return params;
    const part = (amount: number): number => Math.max(1, Math.floor(amount * this.#share));
    return { ...params, limit: part(params.limit), capacity: part(params.capacity) };
  }
}

/** The answer for a key of which nothing is known. */
function asNew({ policy, params, key, cost }: Limit, atMs: number): LimitDecision {
  const { capacity } = params;
  const base = { policy: policy.name, key, cost, limit: capacity, atMs };
  return { ...base, allowed: true, remaining: capacity - cost, retryAfterMs: 0, resetAfterMs: 0 };
}

function refused(
  { policy, params, key, cost }: Limit,
  atMs: number,
  waitMs: number,
): LimitDecision {
  const base = { policy: policy.name, key, cost, limit: params.capacity, atMs };
  return { ...base, allowed: false, remaining: 0, retryAfterMs: waitMs, resetAfterMs: waitMs };
}

/**
 * Marks a decision and its receipt as not the store's. `late` is the token of a call that the
 * store may still charge.
 */
function marked(result: CheckResult, degraded: Degraded, late: string | undefined): CheckResult {
  // An id that was admitted here before has the same answer, with the same receipt.
  if (result.degraded !== undefined) return result;
  const { receipt } = result as { receipt?: Receipt };
  Object.assign(result, { degraded });
  if (receipt !== undefined) {
    const charges = receipt.charges.map((charge) => ({
      ...charge,
      degraded: true,
      ...(degraded.action === 'local' && { local: true }),
      ...(late !== undefined && { late }),
    }));
    Object.defineProperty(result, 'receipt', { value: { charges } });
  }
  return result;
}

/** The error for a store that could not do it; `notDone` if it surely has not. */
export function unavailable(reason: Reason, cause: unknown, notDone = false): SluiceError {
  const why = cause === undefined ? '' : `: ${(cause as Error)?.message ?? cause}`;
  const error = new SluiceError('ERR_STORE_UNAVAILABLE', `${MESSAGES[reason]}${why}`, { cause });
  const isNotDone = notDone || (cause as { notDone?: true } | undefined)?.notDone === true;
  return isNotDone ? Object.assign(error, { notDone: true }) : error;
}

const MESSAGES: Readonly<Record<Reason, string>> = {
  timeout: 'The store did not answer in time',
  error: 'The store answered with an error',
  open: 'The store has been failing, and is not asked for a while',
  overload: 'Too many calls wait for the store',
};
