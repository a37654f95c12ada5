/**
 * Seeded random numbers. They are the same on any machine, because the generator uses only 32-bit
 * integer arithmetic.
 *
 * The generator is xoshiro128++ (Blackman and Vigna): four words of state, a period of 2^128 - 1.
 * The state is filled from a hashed counter, so that consecutive seeds give unrelated numbers.
 */

/** The golden ratio in 32 bits. */
const STEP = 0x9e3779b9;

/** The finalizer of MurmurHash3, a bijection. */
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

  /** Different streams of the same seed give independent numbers. */
  constructor(seed: number, stream = 0) {
    const low = seed % 2 ** 32;
    const high = Math.floor(seed / 2 ** 32);
    let state = mixed(low ^ mixed(high ^ mixed(stream + STEP)));
    const word = (): number => {
      state = (state + STEP) | 0;
      return mixed(state);
    };
    [this.#a, this.#b, this.#c, this.#d] = [word(), word(), word(), word()];
    // From a state of all zeros, the generator would return only zeros.
    if ((this.#a | this.#b | this.#c | this.#d) === 0) this.#a = 1;
  }

  /** Returns 32 random bits. */
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

  /** Returns a number in [0, 1). */
  fraction(): number {
    return this.bits() / 2 ** 32;
  }

  /** Returns an integer in [0, end). */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  one<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
}
