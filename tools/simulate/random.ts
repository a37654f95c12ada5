/** Pseudo-random numbers from a seed (mulberry32), so that a seed repeats a run. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) | 0;
  }

  /** Returns a number from 0 to below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(part: number): boolean {
    return this.next() < part;
  }

  /** Returns a number from `least` to below `most`. */
  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }

  /** Returns an integer from `least` to `most`. */
  integer(least: number, most: number): number {
    return Math.floor(this.between(least, most + 1));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.next() * choices.length)];
  }

  /** Returns a number with an exponential distribution. */
  exponential(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }
}
