/**
 * Processes that share a remote store take turns. While another process competes, the next waiter
 * is decided no earlier than 1.9 times the average time between two admissions at the full rate. So
 * two processes use the full rate, and one whose timers fire earlier does not get more of it.
 *
 * Another process competes if a waiter was denied at the time at which it should have passed, or if
 * less remained than expected, until 50 admissions later. After two such denials in a row, a
 * process wakes some ms early and repeats its check.
 */
import type { Limit } from '../store.ts';

/** The number of admissions after which no other process is assumed to compete. */
const RIVALRY = 50;
/** The longest pause after an admission, in ms. */
const MAX_PAUSE_MS = 100;
/** The longest time before the end of a wait at which a waiter wakes and repeats its check. */
const MAX_EARLY_MS = 8;

const paceMs = ({ params, cost }: Limit): number =>
  Math.min(Math.floor((1.9 * params.windowMs * cost) / params.limit), MAX_PAUSE_MS);

/** The turns of this process at one key. */
export class Turns {
  /** The next waiter is not decided before this time. */
  pausedUntilMs = 0;
  /** Above 0 while another process competes. */
  #rivalry = 0;
  /** How often the first waiter has lost to another process since the last admission. */
  #losses = 0;
  /** The remaining capacity after the last admission. */
  #remaining = 0;

  /** Call when a waiter was admitted. */
  admitted(limit: Limit, remaining: number, nowMs: number): void {
    // Time only adds to what remains, so less than expected means that others were admitted.
    if (remaining < this.#remaining - limit.cost) this.#rivalry = RIVALRY;
    this.#remaining = remaining;
    this.#losses = 0;
    if (this.#rivalry === 0) return;
    this.#rivalry--;
    this.pausedUntilMs = nowMs + paceMs(limit);
  }

  /**
   * Call when the first waiter was denied. `isLost` means that it should have passed. Returns how
   * long before the end of its wait to wake it, in ms.
   */
  denied(limit: Limit, isLost: boolean): number {
    if (isLost) {
      this.#rivalry = RIVALRY;
      this.#losses++;
    }
    if (this.#losses < 2) return 0;
    return Math.floor(Math.min(this.#losses - 1, paceMs(limit) / 4, MAX_EARLY_MS));
  }
}
