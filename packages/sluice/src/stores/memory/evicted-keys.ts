/**
 * Upper bounds for evicted keys that still count, in fixed memory: a count-min sketch of maxima.
 *
 * Each key has one cell in each of two rows, chosen by the two halves of its keyed hash. A cell
 * holds the largest use, and the latest expiry, of all keys that were evicted into it:
 *
 *     | used | untilMs |
 *
 * An evicted key that returns starts with the smaller value of its two cells. That is never less
 * than the key has used, so eviction cannot free a key from its limit. It is more only if other
 * evicted keys share both of its cells. With n such keys the probability is at most (n / cells)^2.
 */

const ROWS = 2;
const CELL = 2;

export class EvictedKeys {
  /** Results of the last `find`: the key has used at most `used`, which expires at `untilMs`. */
  used = 0;
  untilMs = 0;
  /** When the last cell expires, and when the last key was added. */
  latestMs = 0;
  addedMs = 0;
  readonly #cells: Float64Array;
  readonly #size: number;

  /** `size` is the number of cells in a row. A cell takes 16 bytes. */
  constructor(size: number) {
    this.#size = size;
    this.#cells = new Float64Array(ROWS * size * CELL);
  }

  /** Adds a key that has used `used` until `untilMs`. Overwrites expired cells. */
  add(low: number, high: number, used: number, untilMs: number, nowMs: number): void {
    this.latestMs = Math.max(this.latestMs, untilMs);
    this.addedMs = nowMs;
    for (const at of this.#cellsOf(low, high)) {
      const isExpired = this.#cells[at + 1] <= nowMs;
      this.#cells[at] = isExpired ? used : Math.max(this.#cells[at], used);
      this.#cells[at + 1] = Math.max(this.#cells[at + 1], untilMs);
    }
  }

  /** Returns whether a key may have been evicted and still counts. Sets `used` and `untilMs`. */
  find(low: number, high: number, nowMs: number): boolean {
    const cells = this.#cells;
    const [one, other] = this.#cellsOf(low, high);
    this.used = Math.min(cells[one], cells[other]);
    this.untilMs = Math.min(cells[one + 1], cells[other + 1]);
    return this.untilMs > nowMs;
  }

  /** Returns the start of the key's cell in each row. */
  #cellsOf(low: number, high: number): readonly number[] {
    const scale = this.#size / 2 ** 32;
    return [low, high].map(
      (hash, row) => (row * this.#size + Math.floor((hash >>> 0) * scale)) * CELL,
    );
  }
}
