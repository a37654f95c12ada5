/** A call of `run` whose function is running. */
import { isConcurrency } from '../algorithms/index.ts';
import type { Admitted } from '../decision.ts';
import { SluiceError } from '../errors.ts';
import type { HeapEntry } from '../heap.ts';
import { type Adjustment, refundOf } from '../store.ts';
import type { RunContext, TimedCheck } from './context.ts';

/** The last part of a lease, which is not used: the store's clock may be faster than this one. */
const MARGIN = 1 / 100;

/** Returns the adjustments that refund an admitted check. */
export function refundsOf({ limits }: TimedCheck, decision: Admitted): readonly Adjustment[] {
  // Uses the decision instead of its receipt, which is created when it is first read.
  if (limits.length === 1 && decision.degraded === undefined) {
    return [refundOf(limits[0], decision)];
  }
  return decision.receipt.charges.map((charge, at) => {
    const { policy, params } = limits[at];
    return { policy, params, charge, delta: -charge.cost };
  });
}

/** Without a fence there is no hold: the store failed, and `onFailure` admitted the call. */
const isHold = ({ policy, charge }: Adjustment): boolean =>
  isConcurrency(policy) && charge.fence !== undefined;

export class ActiveRun implements RunContext, HeapEntry {
  readonly decision: Admitted;
  readonly holds: readonly Adjustment[];
  /** The shortest lease of the holds. */
  readonly leaseMs: number;
  /** When this process regards the leases as ended. */
  endsMs = 0;
  /** When the holds are renewed or the leases are checked next. */
  dueMs = 0;
  hasEnded = false;
  #reason: { readonly of: unknown } | undefined = undefined;
  #controller: AbortController | undefined = undefined;
  order?: number;
  at?: number;

  constructor(decision: Admitted, charges: readonly Adjustment[], sentMs: number) {
    this.decision = decision;
    this.holds = charges.filter(isHold);
    this.leaseMs = Math.min(...this.holds.map(({ params }) => params.windowMs));
    this.extend(sentMs);
  }

  /** Starts the leases again at `sentMs`, the time at which the check or renewal was sent. */
  extend(sentMs: number): void {
    this.endsMs = sentMs + this.leaseMs * (1 - MARGIN);
    this.dueMs = sentMs + this.leaseMs / 3;
  }

  get fence(): number | undefined {
    return this.decision.fence;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason.of);
    }
    return this.#controller.signal;
  }

  get isAborted(): boolean {
    return this.#reason !== undefined;
  }

  abort(reason: unknown): void {
    if (this.#reason !== undefined || this.hasEnded) return;
    this.#reason = { of: reason };
    this.#controller?.abort(reason);
  }
}

export const leaseLost = (): SluiceError =>
  new SluiceError('ERR_LEASE_LOST', 'The hold no longer counts, so the work must stop');
