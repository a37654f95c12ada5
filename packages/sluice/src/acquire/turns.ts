/**
 * Shares the capacity of a key fairly between processes that wait for it in a remote store. While
 * another process competes, this process pauses after each admission for 1.9 times the average time
 * between two admissions at the full rate. So two processes together use the full rate, and a
 * process whose timers fire earlier does not get a larger part of it.
 *
 * Another process is assumed to compete for 50 admissions after one of two events: a waiter was
 * denied at the time at which it should have been admitted, or less remained than expected. After
 * two such denials in a row, the waiter wakes some ms early and repeats its check.
 */
import type { Limit } from '../store.ts';

/** The number of admissions for which another process is assumed to compete. */
const COMPETING_ADMISSIONS = 50;
/** The longest pause after an admission, in ms. */
const MAX_PAUSE_MS = 100;
/** Maximum time by which a waiter wakes before the end of its wait, in ms. */
const MAX_EARLY_MS = 8;

/** Returns the pause after an admission, in ms. */
const pauseMs = ({ params, cost }: Limit): number =>
  Math.min(Math.floor((1.9 * params.windowMs * cost) / params.limit), MAX_PAUSE_MS);

/** When the waiters of this process for one key may be decided. */
export class Turns {
  /** The next waiter is not decided before this time. */
  pausedUntilMs = 0;
  /** The number of further admissions for which another process is assumed to compete. */
  #competingFor = 0;
  /** How often the first waiter has lost to another process since the last admission. */
  #losses = 0;
  /** The remaining capacity after the last admission. */
  #remaining = 0;

  /** Call when a waiter was admitted. */
  admitted(limit: Limit, remaining: number, nowMs: number): void {
    // `remaining` only grows with time. Less than expected means that another process was admitted.
    if (remaining < this.#remaining - limit.cost) this.#competingFor = COMPETING_ADMISSIONS;
    this.#remaining = remaining;
    this.#losses = 0;
    if (this.#competingFor === 0) return;
    this.#competingFor--;
    this.pausedUntilMs = nowMs + pauseMs(limit);
  }

  /**
   * Call when the first waiter was denied. `isLost` means that it should have been admitted, so
   * that another process was. Returns by how many ms to wake it before the end of its wait.
   */
  denied(limit: Limit, isLost: boolean): number {
    if (isLost) {
      this.#competingFor = COMPETING_ADMISSIONS;
      this.#losses++;
    }
    if (this.#losses < 2) return 0;
    return Math.floor(Math.min(this.#losses - 1, pauseMs(limit) / 4, MAX_EARLY_MS));
  }
}
