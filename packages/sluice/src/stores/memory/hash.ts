/**
 * A keyed hash of strings, so that clients cannot choose keys that collide.
 *
 * HalfSipHash-1-3: one round per word and three final rounds. It is the 32-bit variant of SipHash,
 * which the hash tables of several languages use for the same reason. A word is two characters; the
 * last word is the length. The state starts from 128 secret bits. Each half of the 64-bit result is
 * the exclusive or of two words of the final state.
 *
 * Two keys with the same hash are treated as one key. With 64 bits, the probability that any two of
 * a million keys collide is about 1 in 37 million.
 */

/**
 * Called as `codeAt.call(text, index)`. Some Redis clients define a class derived from `String`. In
 * such a process, V8 would look up `text.charCodeAt` again for each character.
 */
const codeAt = ''.charCodeAt;

export class KeyedHash {
  /** The two halves of the last hash, as signed 32-bit integers. */
  low = 0;
  high = 0;
  /** The initial state of every hash. */
  readonly #secret = crypto.getRandomValues(new Int32Array(4));

  /** Returns 53 bits of the hash of `text`, an exact integer. */
  hash53(text: string): number {
    this.hash(text);
    return (this.high >>> 11) * 2 ** 32 + (this.low >>> 0);
  }

  /** Hashes `text` into `low`, which is never 0, and `high`. */
  hash(text: string): void {
    const length = text.length;
    const secret = this.#secret;
    let v0 = secret[0];
    let v1 = secret[1];
    let v2 = secret[2];
    let v3 = secret[3];
    for (let index = 0; index < length + 8; index += 2) {
      let word = 0;
      if (index < length) {
        word = codeAt.call(text, index);
        if (index + 1 < length) word |= codeAt.call(text, index + 1) << 16;
      } else if (index < length + 2) word = length;
      else if (index < length + 4) v2 ^= 0xff;
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
    this.high = v0 ^ v2;
    this.low = v1 ^ v3 || 1;
  }
}
