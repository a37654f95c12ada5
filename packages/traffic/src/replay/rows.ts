/** Data of some rows of the client table. */

/** A set of row numbers, with one bit per row. */
export class RowSet {
  #bits = new Uint8Array(1024);

  add(row: number): void {
    const at = row >>> 3;
    if (at >= this.#bits.length) {
      const bits = new Uint8Array(2 * Math.max(at, this.#bits.length));
      bits.set(this.#bits);
      this.#bits = bits;
    }
    this.#bits[at] |= 1 << (row & 7);
  }

  has(row: number): boolean {
    return ((this.#bits[row >>> 3] ?? 0) & (1 << (row & 7))) !== 0;
  }
}

const CHUNK_BITS = 13;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;

/** The first time added for each row. Chunks of times are allocated on first use. */
export class FirstTimes {
  /** A time of 0 means that no time was added. */
  readonly #chunks: (Float64Array | undefined)[] = [];

  add(row: number, timeMs: number): void {
    const chunk = row >>> CHUNK_BITS;
    let times = this.#chunks[chunk];
    if (times === undefined) {
      times = new Float64Array(CHUNK_MASK + 1);
      this.#chunks[chunk] = times;
    }
    if (times[row & CHUNK_MASK] === 0) times[row & CHUNK_MASK] = timeMs;
  }

  get(row: number): number {
    return this.#chunks[row >>> CHUNK_BITS]?.[row & CHUNK_MASK] ?? 0;
  }
}
