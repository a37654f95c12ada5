/**
 * A keyed hash of strings, for tables that nobody outside can aim a collision at.
 *
 * HalfSipHash with one round a word and three to finish, the 32-bit sibling of the function that
 * hash tables of several languages use for the same reason. A word is four characters of a byte
 * each. The state starts from 128 secret bits, and the result is 64 bits, folded
 * from both halves of the final state.
 *
 * The keys themselves are not kept: with 64 secret-keyed bits, the chance that any two of a
 * million keys share an identity is about 1 in 37 million.
 */

/** The secret of one table, and the last result. */
export class KeyedHash {
  /** The two halves of the last hash, as signed 32-bit integers. */
  low = 0;
  high = 0;
  /** 128 secret bits, the state that every hash starts from. */
  private readonly key0: number;
  private readonly key1: number;
  private readonly key2: number;
  private readonly key3: number;

  constructor() {
    const [key0, key1, key2, key3] = crypto.getRandomValues(new Int32Array(4));
    this.key0 = key0;
    this.key1 = key1;
    this.key2 = key2;
    this.key3 = key3;
  }

  /** Hashes `text` into `low`, which is also the answer, and `high`. */
  hash(text: string, twist = 0): number {
    const length = text.length;
    let v0 = this.key0;
    let v1 = this.key1;
    let v2 = this.key2;
    let v3 = this.key3 ^ twist;
    let index = 0;
    let word = 0;
    for (const last = length - 3; index < last; index += 4) {
      const a = text.charCodeAt(index);
      const b = text.charCodeAt(index + 1);
      const c = text.charCodeAt(index + 2);
      const d = text.charCodeAt(index + 3);
      if ((a | b | c | d) > 255) return this.#hashWide(text);
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
      if (a > 255) return this.#hashWide(text);
      word |= a << shift;
    }
    return this.#finish(v0, v1, v2, v3, word);
  }

  /** Hashes text with characters above 255 as its bytes, twisted so that the ways never meet. */
  #hashWide(text: string): number {
    let bytes = '';
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      bytes += String.fromCharCode(code & 255, code >>> 8);
    }
    return this.hash(bytes, 1);
  }

  #finish(v0: number, v1: number, v2: number, v3: number, word: number): number {
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
