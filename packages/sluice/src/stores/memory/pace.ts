/**
 * Until when keys may be forgotten by a clock that is not always right.
 *
 * A clock that jumps a day ahead makes every key look expired, and when it is set right again they
 * must still be there. So after a jump, ahead or back, nothing is forgotten until the clock has run
 * on for a quarter of a window; and however far it jumps, that counts as a small step.
 */
export class Pace {
  readonly #quarterMs: number;
  #lastMs = 0;
  /** How far the clock has to run on before forgetting goes on. */
  #holdMs = 0;

  constructor(windowMs: number) {
    this.#quarterMs = windowMs / 4;
  }

  /** Takes note of the time; answers up to when keys may be forgotten. */
  floorMs(nowMs: number): number {
    const stepMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    const isJump = stepMs < 0 || stepMs > this.#quarterMs;
    if (isJump && this.#holdMs <= 0) this.#holdMs = this.#quarterMs;
    this.#holdMs -= Math.min(Math.max(stepMs, 0), this.#quarterMs / 4);
    return this.#holdMs > 0 ? 0 : nowMs;
  }
}
