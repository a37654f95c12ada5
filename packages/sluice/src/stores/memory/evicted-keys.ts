/**
 * Upper bounds of the costs that evicted keys have used, in fixed memory: a count-min sketch whose
 * cells hold maxima instead of sums.
 *
 * Each key has one cell in each of two rows, chosen by the two halves of its keyed hash. A cell
 * holds the largest used cost, and the latest expiry, of all evicted keys that it is the cell of:
 *
 *     | used | untilMs |
 *
 * An evicted key that returns starts with the smaller value of its two cells. This value is never
 * less than the key has used, so eviction cannot free a key from its limit. The value is larger
 * only if both cells are shared with other evicted keys. With n evicted keys in the sketch and m
 * cells per row, the probability of sharing both is at most (n / m)^2.
 */

const ROWS = 2;
const NUMBERS_PER_CELL = 2;

export class EvictedKeys {
  /** Results of the last `find`: the key has used at most `used`, which expires at `untilMs`. */
  used = 0;
  untilMs = 0;
  /** When the last cell expires. */
  latestMs = 0;
  /** When the last key was added. */
  addedMs = 0;
  readonly #cells: Float64Array;
  readonly #size: number;

  /** `size` is the number of cells in a row. A cell takes 16 bytes. */
  constructor(size: number) {
    this.#size = size;
    this.#cells = new Float64Array(ROWS * size * NUMBERS_PER_CELL);
  }

  /** Adds a key that has used `used`, which expires at `untilMs`. Overwrites expired cells. */
  add(low: number, high: number, used: number, untilMs: number, nowMs: number): void {
    this.latestMs = Math.max(this.latestMs, untilMs);
    this.addedMs = nowMs;
    for (const at of this.#cellsOf(low, high)) {
      const isExpired = this.#cells[at + 1] <= nowMs;
      this.#cells[at] = isExpired ? used : Math.max(this.#cells[at], used);
      this.#cells[at + 1] = Math.max(this.#cells[at + 1], untilMs);
    }
  }

  /** Whether a key may have been evicted with unexpired charges. Sets `used` and `untilMs`. */
  find(low: number, high: number, nowMs: number): boolean {
    const cells = this.#cells;
    const [one, other] = this.#cellsOf(low, high);
    this.used = Math.min(cells[one], cells[other]);
    this.untilMs = Math.min(cells[one + 1], cells[other + 1]);
    return this.untilMs > nowMs;
  }

  /** Returns the index of the key's cell in each of the two rows. */
  #cellsOf(low: number, high: number): readonly number[] {
    const scale = this.#size / 2 ** 32;
    return [low, high].map(
      (hash, row) => (row * this.#size + Math.floor((hash >>> 0) * scale)) * NUMBERS_PER_CELL,
    );
  }
}
