/**
 * A keyed hash of strings, for tables that nobody outside can aim a collision at.
 *
 * HalfSipHash with one round a word and three to finish, the 32-bit sibling of the function that
 * hash tables of several languages use for the same reason. A word is four characters below 256,
 * or two of any kind; a string that has both is hashed the second way, under a different key, so
 * the two ways never meet. The result is 64 bits, folded from both halves of the final state.
 * The keys themselves are not kept: with 64 secret-keyed bits, the chance that any two of a
 * million keys share an identity is about 1 in 37 million.
 */

/** The secret of one table, and the last result. */
export class KeyedHash {
  /** The two halves of the last hash, as signed 32-bit integers. */
  low = 0;
  high = 0;
  private readonly key: Int32Array;

  constructor() {
    this.key = crypto.getRandomValues(new Int32Array(4));
  }

  /** Hashes `text` into `low`, which is also the answer, and `high`. */
  hash(text: string): number {
    const length = text.length;
    const key = this.key;
    let v0 = key[0];
    let v1 = key[1];
    let v2 = v0 ^ 0x6c796765;
    let v3 = v1 ^ 0x74656462;
    let index = 0;
    let word = 0;
    for (const last = length - 3; index < last; index += 4) {
      const a = text.charCodeAt(index);
      const b = text.charCodeAt(index + 1);
      const c = text.charCodeAt(index + 2);
      const d = text.charCodeAt(index + 3);
      if ((a | b | c | d) > 255) return this.hashWide(text);
      word = a | (b << 8) | (c << 16) | (d << 24);
      v3 ^= word;
      // One round.
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    word = length << 24;
    for (let shift = 0; index < length; index++, shift += 8) {
      const a = text.charCodeAt(index);
      if (a > 255) return this.hashWide(text);
      word |= a << shift;
    }
    return this.finish(v0, v1, v2, v3, word);
  }

  private hashWide(text: string): number {
    const length = text.length;
    const key = this.key;
    let v0 = key[2];
    let v1 = key[3];
    let v2 = v0 ^ 0x6c796765;
    let v3 = v1 ^ 0x74656462;
    let index = 0;
    for (const last = length - 1; index < last; index += 2) {
      const word = text.charCodeAt(index) | (text.charCodeAt(index + 1) << 16);
      v3 ^= word;
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    const word = (length << 24) | (index < length ? text.charCodeAt(index) : 0);
    return this.finish(v0, v1, v2, v3, word);
  }

  private finish(v0: number, v1: number, v2: number, v3: number, word: number): number {
    v3 ^= word;
    for (let round = 0; round < 4; round++) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      if (round === 0) {
        v0 ^= word;
        v2 ^= 0xff;
      }
    }
    this.high = v0 ^ v2;
    this.low = v1 ^ v3;
    return this.low;
  }
}
