/**
 * Shares the capacity of a key in a remote store fairly between processes that have waiters for the
 * key. While another process competes, this process pauses after each admission for 1.9 times the
 * average time between two admissions at the full rate. So two processes together use the full
 * rate, and a process whose timers fire earlier does not get a larger part of the capacity.
 *
 * This process assumes for its next 50 admissions that another process competes after one of two
 * events: the store denied a waiter at the time that it had predicted for the admission, or less
 * capacity remained than expected. After two such denials in a row, the waiter repeats its check
 * some milliseconds before the predicted time.
 */
import type { Limit } from '../store.ts';

/** The number of admissions for which this process assumes that another process competes. */
const COMPETING_ADMISSIONS = 50;
/** The longest pause after an admission, in ms. */
const MAX_PAUSE_MS = 100;
/** The longest time by which a waiter wakes before its predicted admission, in ms. */
const MAX_EARLY_MS = 8;

/** Returns the pause after an admission, in ms. */
const pauseMs = ({ params, cost }: Limit): number =>
  Math.min(Math.floor((1.9 * params.windowMs * cost) / params.limit), MAX_PAUSE_MS);

/** Delays the checks of this process's waiters for one key. */
export class Pacing {
  /** The check of the next waiter is not sent before this time. */
  pausedUntilMs = 0;
  /** The remaining admissions for which this process assumes that another process competes. */
  #competingFor = 0;
  /** The calls of `onDenied` with `isLost` since the last admission. */
  #losses = 0;
  /** `remaining` of the last admission. */
  #remaining = 0;

  /** Call this when a waiter is admitted. */
  onAdmitted(limit: Limit, remaining: number, nowMs: number): void {
    // Without other charges, `remaining` never falls by more than the cost. If it has, the store
    // has admitted a call of another process.
    if (remaining < this.#remaining - limit.cost) this.#competingFor = COMPETING_ADMISSIONS;
    this.#remaining = remaining;
    this.#losses = 0;
    if (this.#competingFor === 0) return;
    this.#competingFor--;
    this.pausedUntilMs = nowMs + pauseMs(limit);
  }

  /**
   * Call this when the first waiter is denied. `isLost` means that the store had predicted an
   * admission for this time, so another process took the capacity. Returns by how many ms to wake
   * the waiter before its next predicted admission.
   */
  onDenied(limit: Limit, isLost: boolean): number {
    if (isLost) {
      this.#competingFor = COMPETING_ADMISSIONS;
      this.#losses++;
    }
    if (this.#losses < 2) return 0;
    return Math.floor(Math.min(this.#losses - 1, pauseMs(limit) / 4, MAX_EARLY_MS));
  }
}
