/**
 * What is decided in a store's place: `allow`, `deny`, `local` or `throw`. Such a decision says so,
 * and so does its receipt, because it must not be given back to a store that never charged it.
 */
import type { Terms } from '../algorithms/algorithm.ts';
import { systemClock } from '../clock.ts';
import {
  type Degraded,
  jointDecision,
  type LimitDecision,
  type Quote,
  type Receipt,
} from '../decision.ts';
import { SluiceError } from '../errors.ts';
import type { FailureAction, Policy } from '../policy.ts';
import type { Adjustment, Check, Limit, SyncStore } from '../store.ts';
import { memoryStore } from '../stores/memory/memory-store.ts';
import type { Reason } from './call.ts';

/** From the least to the most careful: of several limits, the most careful one's counts. */
const CAREFULNESS: readonly FailureAction[] = ['allow', 'local', 'deny', 'throw'];

export class Substitute {
  readonly #action: FailureAction;
  readonly #share: number;
  /** The limiter in this process; made when it is first needed. */
  #local: SyncStore | undefined = undefined;

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

  /** `waitMs` is when the store is asked again. Throws if that is what to do. */
  decide(
    check: Check,
    nowMs: number | undefined,
    reason: Reason,
    waitMs: number,
    cause: unknown,
  ): Quote {
    const action = this.actionFor(check);
    if (action === 'throw') throw unavailable(reason, cause);
    const timeMs = nowMs ?? systemClock.now();
    if (action === 'local') {
      const local = this.#decideLocally(check, timeMs, waitMs);
      return marked(local, { reason, action });
    }
    const limits = check.limits.map((limit) =>
      action === 'allow' ? asNew(limit, timeMs) : refused(limit, timeMs, waitMs),
    );
    return marked(jointDecision(limits, !check.peek && action === 'allow'), { reason, action });
  }

  adjust({ policy, terms, charge, delta }: Adjustment, nowMs: number | undefined): number {
    if (this.#local === undefined || !charge.local) return 0;
    const scaled = { policy, terms: this.#scaled(terms), charge, delta };
    return this.#local.adjustSync(scaled, nowMs ?? systemClock.now());
  }

  reset(policy: Policy, key: string, nowMs: number | undefined): void {
    this.#local?.resetSync(policy, key, nowMs ?? systemClock.now());
  }

  #decideLocally(check: Check, timeMs: number, waitMs: number): Quote {
    const limits = check.limits.map((limit) => ({ ...limit, terms: this.#scaled(limit.terms) }));
    const tooLarge = limits.some(({ cost, terms }) => cost > terms.capacity);
    if (tooLarge) {
      // It fits the limit, but not this process's share of it, however long it waits.
      return jointDecision(
        limits.map((limit) => refused(limit, timeMs, waitMs)),
        false,
      );
    }
    this.#local ??= memoryStore();
    return this.#local.decideSync({ limits, peek: check.peek, id: check.id }, timeMs);
  }

  #scaled(terms: Terms): Terms {
    if (this.#share === 1) return terms;
    const part = (amount: number): number => Math.max(1, Math.floor(amount * this.#share));
    return { ...terms, limit: part(terms.limit), capacity: part(terms.capacity) };
  }
}

/** The answer for a key of which nothing is known. */
function asNew({ policy, terms, key, cost }: Limit, atMs: number): LimitDecision {
  const { capacity } = terms;
  const base = { policy: policy.name, key, cost, limit: capacity, atMs };
  return { ...base, allowed: true, remaining: capacity - cost, retryAfterMs: 0, resetAfterMs: 0 };
}

function refused({ policy, terms, key, cost }: Limit, atMs: number, waitMs: number): LimitDecision {
  const base = { policy: policy.name, key, cost, limit: terms.capacity, atMs };
  return { ...base, allowed: false, remaining: 0, retryAfterMs: waitMs, resetAfterMs: waitMs };
}

/** Says in a decision, and in its receipt, that it was not the store's. */
function marked(quote: Quote, degraded: Degraded): Quote {
  // An id that was admitted here before has the same answer, with the same receipt.
  if (quote.degraded !== undefined) return quote;
  const { receipt } = quote as { receipt?: Receipt };
  Object.assign(quote, { degraded });
  if (receipt !== undefined) {
    const marks =
      degraded.action === 'local' ? { degraded: true, local: true } : { degraded: true };
    const charges = receipt.charges.map((charge) => ({ ...charge, ...marks }));
    Object.defineProperty(quote, 'receipt', { value: { charges } });
  }
  return quote;
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
