/**
 * Normalizes keys for the limiter. Keys above the maximum length, such as long tokens, are replaced
 * by their SHA-256. SHA-256 is implemented here, because not every platform has `node:crypto`, and
 * `crypto.subtle` is asynchronous.
 */
import { joinKey, type Key, MAX_KEY_LENGTH } from '../key.ts';

/** Returns a key that the limiter accepts. Accepts numbers, because user ids are often numbers. */
export function normalizeKey(key: Key | number): Key {
  if (typeof key === 'number') return String(key);
  const text = Array.isArray(key) ? joinKey(...key) : key;
  // A value of another type is returned unchanged: the limiter rejects it.
  if (typeof text !== 'string' || text.length <= MAX_KEY_LENGTH) return text as Key;
  return `sha256:${sha256(text)}`;
}

const ROUNDS = 64;
const BLOCK_BYTES = 64;

/** Returns the first 32 bits of the fraction of a root, as in the constants of SHA-256. */
const fraction = (root: number): number => ((root % 1) * 2 ** 32) | 0;

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let each = 2; primes.length < count; each++) {
    if (primes.every((prime) => each % prime !== 0)) primes.push(each);
  }
  return primes;
}

const PRIMES = firstPrimes(ROUNDS);
const ROUND_CONSTANTS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));
const INITIAL_STATE = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));

const rotate = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

/**
 * Returns the SHA-256 of a text in hexadecimal. Hashes UTF-16, because UTF-8 cannot encode lone
 * surrogates.
 */
export function sha256(text: string): string {
  const bytes = padText(text);
  const state = Int32Array.from(INITIAL_STATE);
  const words = new Int32Array(ROUNDS);
  for (let from = 0; from < bytes.byteLength; from += BLOCK_BYTES)
    addBlock(state, words, bytes, from);
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

/** Returns the text, a one bit, zeros and the length in bits, padded to whole blocks. */
function padText(text: string): DataView {
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

/** Adds one block of the text to the state of the hash. */
function addBlock(state: Int32Array, words: Int32Array, bytes: DataView, from: number): void {
  let [a, b, c, d, e, f, g, h] = state;
  for (let round = 0; round < ROUNDS; round++) {
    words[round] = round < 16 ? bytes.getInt32(from + 4 * round) : scheduleWord(words, round);
    const choice = (e & f) ^ (~e & g);
    const one =
      h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + ROUND_CONSTANTS[round];
    const most = (a & b) ^ (a & c) ^ (b & c);
    const other = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + most;
    const sum = one + words[round];
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + sum) | 0, c, b, a, (sum + other) | 0];
  }
  for (const [place, word] of [a, b, c, d, e, f, g, h].entries()) state[place] += word;
}

function scheduleWord(words: Int32Array, round: number): number {
  const [early, late] = [words[round - 15], words[round - 2]];
  const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
  const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
  return words[round - 16] + first + words[round - 7] + second;
}
