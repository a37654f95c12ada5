/**
 * Decides which keys have expired for long enough to be deleted.
 *
 * Allows for clock errors. A clock that jumps a day ahead makes every key look expired, but the
 * keys must still exist when the clock is corrected. So after a jump, ahead or back, no key is
 * deleted until the clock has advanced by a quarter of a window. The time between two sweeps counts
 * as at most a sixteenth of a window. Also, a key is kept for one window after its expiry, so that
 * the clock may step back by less than a window.
 */
export class SweepClock {
  readonly #windowMs: number;
  /** Time of the last sweep. */
  #lastMs = 0;
  /** After a clock jump: the time that must still pass before a key is deleted. */
  #holdMs = 0;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /**
   * Call once per sweep. Returns a time: keys that expired before it may be deleted. Returns 0 if
   * no key may be deleted.
   */
  floorMs(nowMs: number): number {
    const windowMs = this.#windowMs;
    const stepMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    const isJump = stepMs < 0 || stepMs > windowMs / 4;
    if (isJump && this.#holdMs <= 0) this.#holdMs = windowMs / 4;
    this.#holdMs -= Math.min(Math.max(stepMs, 0), windowMs / 16);
    return this.#holdMs > 0 ? 0 : nowMs - windowMs;
  }
}
