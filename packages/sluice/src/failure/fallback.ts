/**
 * Decides checks that the store cannot decide, by the failure action `allow`, `deny`, `local` or
 * `throw`. The decisions and their receipts are marked as `degraded`, because the store has not
 * charged them.
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

/** Actions from permissive to strict. A check uses the strictest action of its limits. */
const STRICTNESS: readonly FailureAction[] = ['allow', 'local', 'deny', 'throw'];

/** Why the store did not decide. */
export interface Failure {
  readonly reason: Reason;
  readonly cause: unknown;
  /** Whether the store certainly did not apply the call. */
  readonly notDone: boolean;
  /** The time until the next probe of the store, in ms. */
  readonly waitMs: number;
  /** Set if the store may still charge the call: the token of this charge, see `LateCharges`. */
  readonly late: string | undefined;
}

const MAX_DELAY_MS = 3_600_000;

export class Fallback {
  readonly #action: FailureAction;
  readonly #share: number;
  /** The local store: created at its first use, released when nothing in it counts. */
  #local: SyncStore | undefined = undefined;
  /** When the local store was last used, by the monotonic clock. */
  #usedMs = 0;
  /** The longest time that a charge of the local store may count. */
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
      rank = Math.max(rank, STRICTNESS.indexOf(policy.onFailure ?? this.#action));
    }
    return STRICTNESS[rank];
  }

  /** Decides by the failure action of the check. Throws if the action is `throw`. */
  decide(check: Check, nowMs: number | undefined, failure: Failure): CheckResult {
    const { reason, waitMs, cause, notDone, late } = failure;
    const action = this.actionFor(check);
    if (action === 'throw') throw unavailable(reason, cause, notDone);
    const timeMs = nowMs ?? systemClock.now();
    if (action === 'local') {
      // The caller's clock may be slower than the monotonic clock, so it is unknown when the charge
      // expires. The local store is then never released.
      if (nowMs !== undefined) this.#countsMs = Number.POSITIVE_INFINITY;
      const local = this.#decideLocally(check, timeMs, waitMs);
      return markDegraded(local, { reason, action }, late);
    }
    const limits = check.limits.map((limit) =>
      action === 'allow' ? admittedDecision(limit, timeMs) : deniedDecision(limit, timeMs, waitMs),
    );
    const result = jointDecision(limits, !check.peek && action === 'allow');
    return markDegraded(result, { reason, action }, late);
  }

  /** Adjusts charges of the local store. Returns the change for each adjustment. */
  adjust(adjustments: readonly Adjustment[], nowMs = systemClock.now()): readonly number[] {
    return adjustments.map((adjustment) =>
      this.#local !== undefined && adjustment.charge.local
        ? this.#local.adjustSync(this.#scaledAdjustment(adjustment), nowMs)
        : 0,
    );
  }

  /** Like `adjust`, but returns undefined if the receipt was used before. */
  adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs = systemClock.now(),
    client?: string,
  ): readonly number[] | undefined {
    const isLocal = adjustments.some(({ charge }) => charge.local);
    if (!isLocal || this.#local?.adjustOnceSync === undefined) {
      return this.adjust(adjustments, nowMs);
    }
    const own = adjustments.filter(({ charge }) => charge.local);
    const scaled = own.map(this.#scaledAdjustment, this);
    const changes = this.#local.adjustOnceSync(id, scaled, nowMs, client);
    if (changes === undefined) return undefined;
    const rest = [...changes];
    return adjustments.map(({ charge }) => (charge.local ? rest.shift()! : 0));
  }

  /** Returns an adjustment with the limits of this process's share. */
  #scaledAdjustment(adjustment: Adjustment): Adjustment {
    return { ...adjustment, params: this.#scaledParams(adjustment.params) };
  }

  reset(policy: Policy, key: string, nowMs: number | undefined): void {
    this.#local?.resetSync(policy, key, nowMs ?? systemClock.now());
  }

  block(policy: Policy, key: string, forMs: number, nowMs = systemClock.now()): void {
    this.#local?.blockSync?.(policy, key, forMs, nowMs);
  }

  #decideLocally(check: Check, timeMs: number, waitMs: number): CheckResult {
    const limits = check.limits.map((limit) => ({
      ...limit,
      params: this.#scaledParams(limit.params),
    }));
    const tooLarge = limits.some(({ cost, params }) => cost > params.capacity);
    if (tooLarge) {
      // The cost fits the limit, but never the share of the limit that this process admits.
      return jointDecision(
        limits.map((limit) => deniedDecision(limit, timeMs, waitMs)),
        false,
      );
    }
    this.#local ??= memoryStore();
    this.#countsMs = Math.max(this.#countsMs, ...limits.map(receiptLifetimeMs));
    this.#usedMs = monotonicClock.now();
    if (this.#stopTimer === undefined) this.#release();
    return this.#local.decideSync({ ...check, limits }, timeMs);
  }

  /** Releases the local store once all its charges have expired. */
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

  /** Returns the parameters of this process's share of a limit. */
  #scaledParams(params: LimitParams): LimitParams {
    if (this.#share === 1) return params;
    const part = (amount: number): number => Math.max(1, Math.floor(amount * this.#share));
    return { ...params, limit: part(params.limit), capacity: part(params.capacity) };
  }
}

/** Returns the decision that admits a limit as if its key had no other charges. */
function admittedDecision({ policy, params, key, cost }: Limit, atMs: number): LimitDecision {
  const { capacity } = params;
  const base = { policy: policy.name, key, cost, limit: capacity, atMs };
  return { ...base, allowed: true, remaining: capacity - cost, retryAfterMs: 0, resetAfterMs: 0 };
}

function deniedDecision(
  { policy, params, key, cost }: Limit,
  atMs: number,
  waitMs: number,
): LimitDecision {
  const base = { policy: policy.name, key, cost, limit: params.capacity, atMs };
  return { ...base, allowed: false, remaining: 0, retryAfterMs: waitMs, resetAfterMs: waitMs };
}

/**
 * Marks a decision and its receipt as degraded. `late` is the token of a call that the store may
 * still charge.
 */
function markDegraded(
  result: CheckResult,
  degraded: Degraded,
  late: string | undefined,
): CheckResult {
  // For a known idempotency id, the local store returns the first decision, which is marked.
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

/** Returns the error of a call that the store did not complete. See `Failure.notDone`. */
export function unavailable(reason: Reason, cause: unknown, notDone = false): SluiceError {
  const why = cause === undefined ? '' : `: ${(cause as Error)?.message ?? cause}`;
  const error = new SluiceError('ERR_STORE_UNAVAILABLE', `${MESSAGES[reason]}${why}`, { cause });
  const isNotDone = notDone || (cause as { notDone?: true } | undefined)?.notDone === true;
  return isNotDone ? Object.assign(error, { notDone: true }) : error;
}

const MESSAGES: Readonly<Record<Reason, string>> = {
  timeout: 'The store did not reply in time',
  error: 'The store replied with an error',
  open: 'The circuit breaker of the store is open',
  overload: 'Too many calls are waiting for the store',
};
