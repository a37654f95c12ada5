/**
 * Numbers that look random and are the same for the same seed, on any machine: nothing here but
 * shifts, sums and products of 32-bit integers.
 *
 * The generator is xoshiro128++ (Blackman and Vigna): four words of state, a period of 2^128 - 1.
 * The words are filled from the seed by steps of a counter, each mixed until every bit of the seed
 * has touched every bit of the word, so that neighbouring seeds have nothing in common.
 */

/** The golden ratio in 32 bits: odd, and far from any pattern. */
const STEP = 0x9e3779b9;

/** Each step is undone by another one, so no two inputs meet. */
function mixed(value: number): number {
  let word = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return word ^ (word >>> 16);
}

const rotated = (word: number, by: number): number => (word << by) | (word >>> (32 - by));

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /** Streams of the same seed have nothing to do with each other. */
  constructor(seed: number, stream = 0) {
    const low = seed % 2 ** 32;
    const high = Math.floor(seed / 2 ** 32);
    let state = mixed(low ^ mixed(high ^ mixed(stream + STEP)));
    const word = (): number => {
      state = (state + STEP) | 0;
      return mixed(state);
    };
    [this.#a, this.#b, this.#c, this.#d] = [word(), word(), word(), word()];
    // With all words 0 it would stay there for ever.
    if ((this.#a | this.#b | this.#c | this.#d) === 0) this.#a = 1;
  }

  /** 32 bits. */
  bits(): number {
    const result = (rotated((this.#a + this.#d) | 0, 7) + this.#a) | 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = rotated(this.#d, 11);
    return result >>> 0;
  }

  /** From 0 to 1, which it never is. */
  fraction(): number {
    return this.bits() / 2 ** 32;
  }

  /** An integer from 0 to `end`, which it never is. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  one<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
}
