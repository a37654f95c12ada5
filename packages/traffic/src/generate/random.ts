/**
 * Seeded random numbers. They are the same on any machine, because the generator uses only 32-bit
 * integer arithmetic.
 *
 * The generator is xoshiro128++ (Blackman and Vigna): four words of state, a period of 2^128 - 1.
 * Hashes of the seed and a counter fill the state, so that consecutive seeds give unrelated
 * numbers.
 */

/** Step of the counter: the golden ratio as a 32-bit fraction. */
const STEP = 0x9e3779b9;

/** Hashes 32 bits with the finalizer of MurmurHash3. Different values have different hashes. */
function hash(value: number): number {
  let word = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return word ^ (word >>> 16);
}

const rotateLeft = (word: number, by: number): number => (word << by) | (word >>> (32 - by));

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /** Different streams of the same seed give independent numbers. */
  constructor(seed: number, stream = 0) {
    const low = seed % 2 ** 32;
    const high = Math.floor(seed / 2 ** 32);
    let state = hash(low ^ hash(high ^ hash(stream + STEP)));
    const word = (): number => {
      state = (state + STEP) | 0;
      return hash(state);
    };
    [this.#a, this.#b, this.#c, this.#d] = [word(), word(), word(), word()];
    // From a state of all zeros, the generator would return only zeros.
    if ((this.#a | this.#b | this.#c | this.#d) === 0) this.#a = 1;
  }

  /** Returns 32 random bits. */
  bits(): number {
    const result = (rotateLeft((this.#a + this.#d) | 0, 7) + this.#a) | 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = rotateLeft(this.#d, 11);
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
