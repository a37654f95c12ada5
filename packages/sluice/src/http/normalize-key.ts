/**
 * Keys that are longer than a limiter takes, such as a token of thousands of characters: their
 * SHA-256 stands for them. It is computed here, because `node:crypto` is not everywhere, and
 * `crypto.subtle` answers only with a promise.
 */
import { joinKey, type Key, MAX_KEY_LENGTH } from '../key.ts';

/** A key that a limiter takes. An id of a user is often a number. */
export function normalizeKey(key: Key | number): Key {
  if (typeof key === 'number') return String(key);
  const text = Array.isArray(key) ? joinKey(...key) : key;
  // What is no text is the limiter's to refuse.
  if (typeof text !== 'string' || text.length <= MAX_KEY_LENGTH) return text as Key;
  return `sha256:${sha256(text)}`;
}

const ROUNDS = 64;
const BLOCK_BYTES = 64;

/** The first 32 bits of the fraction of a root: the constants of SHA-256 are those of primes. */
const fraction = (root: number): number => ((root % 1) * 2 ** 32) | 0;

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let each = 2; primes.length < count; each++) {
    if (primes.every((prime) => each % prime !== 0)) primes.push(each);
  }
  return primes;
}

const PRIMES = firstPrimes(ROUNDS);
const STEPS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));

const turned = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

/** SHA-256 in hexadecimal, of UTF-16: in UTF-8 all halves of surrogate pairs would be alike. */
export function sha256(text: string): string {
  const bytes = padded(text);
  const state = Int32Array.from(START);
  const words = new Int32Array(ROUNDS);
  for (let from = 0; from < bytes.byteLength; from += BLOCK_BYTES) mix(state, words, bytes, from);
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

/** The text, a one, zeros, and how many bits it has: whole blocks. */
function padded(text: string): DataView {
  const length = 2 * text.length;
  const blocks = Math.ceil((length + 9) / BLOCK_BYTES);
  const bytes = new DataView(new ArrayBuffer(blocks * BLOCK_BYTES));
  for (let place = 0; place < text.length; place++) {
    bytes.setUint16(2 * place, text.charCodeAt(place));
  }
  bytes.setUint8(length, 0x80);
  bytes.setBigUint64(bytes.byteLength - 8, BigInt(length) * 8n);
  return bytes;
}

/** One block into the state. */
function mix(state: Int32Array, words: Int32Array, bytes: DataView, from: number): void {
  let [a, b, c, d, e, f, g, h] = state;
  for (let round = 0; round < ROUNDS; round++) {
    words[round] = round < 16 ? bytes.getInt32(from + 4 * round) : scheduled(words, round);
    const choice = (e & f) ^ (~e & g);
    const one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + STEPS[round];
    const most = (a & b) ^ (a & c) ^ (b & c);
    const other = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + most;
    const sum = one + words[round];
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + sum) | 0, c, b, a, (sum + other) | 0];
  }
  for (const [place, word] of [a, b, c, d, e, f, g, h].entries()) state[place] += word;
}

function scheduled(words: Int32Array, round: number): number {
  const [early, late] = [words[round - 15], words[round - 2]];
  const first = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
  const second = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
  return words[round - 16] + first + words[round - 7] + second;
}
