/**
 * Avoids decisions while all slots of a concurrency limit are held: after an admission that took
 * the last slot, the next waiter sleeps until a hold is released or may have expired. Otherwise
 * that waiter would be denied after each admission.
 */
import { isConcurrency } from '../algorithms/index.ts';
import type { LimitDecision } from '../decision.ts';
import type { Limit } from '../store.ts';

/** The slots of one key. */
export class HeldSlots {
  /** No hold expires before this time, according to the last denial. */
  #expireMs = 0;
  /** The longest time between two decisions, because a notification of a release can be lost. */
  #pollMs = 0;
  /** All slots of this limit are held until this time, unless a hold is released. */
  #limit = 0;
  #untilMs = 0;

  /** Returns the time until which no check of the limit is admitted, unless a hold is released. */
  untilMs({ policy, params }: Limit): number {
    // The limit of a later call may be larger.
    return isConcurrency(policy) && params.limit <= this.#limit ? this.#untilMs : 0;
  }

  /** Call when a check was denied at `decidedMs`. */
  denied({ policy, cost }: Limit, denial: LimitDecision, decidedMs: number, pollMs: number): void {
    // A larger cost waits for several holds to expire.
    if (!isConcurrency(policy) || cost > 1 || denial.allowed) return;
    this.#expireMs = decidedMs + denial.retryAfterMs;
    this.#pollMs = pollMs;
  }

  /** Call when a check was admitted, and no hold was released during its decision. */
  admitted({ policy, params }: Limit, { remaining }: LimitDecision, nowMs: number): void {
    if (!isConcurrency(policy) || remaining > 0) return;
    this.#limit = params.limit;
    this.#untilMs = Math.min(this.#expireMs, nowMs + this.#pollMs);
  }

  /** Call when a hold may have been released. */
  released(): void {
    this.#untilMs = 0;
  }
}
