/** What few clients have, by their rows in the table of all clients. */

/** Some of the clients, a bit each. */
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

/** The first time of something, for some of the clients. */
export class FirstTimes {
  /** 0 is none yet. */
  #times = new Float64Array(1024);

  add(row: number, timeMs: number): void {
    if (row >= this.#times.length) {
      const times = new Float64Array(2 * Math.max(row, this.#times.length));
      times.set(this.#times);
      this.#times = times;
    }
    if (this.#times[row] === 0) this.#times[row] = timeMs;
  }

  get(row: number): number {
    return this.#times[row] ?? 0;
  }
}
