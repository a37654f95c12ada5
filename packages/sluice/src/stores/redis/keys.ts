/**
 * The names of keys in Redis, such as `s:{user:42}perMinuteC1m`. They are short, because each name
 * takes memory.
 *
 * The text in braces determines the Cluster slot, so all policies of one key are in one slot and
 * can be decided atomically. Braces inside the caller's key are escaped, so that a client cannot
 * choose the slot. Lone surrogates, which UTF-8 cannot represent, are escaped so that different
 * keys have different names.
 *
 * The suffix is the policy name, the tag of the algorithm and the window; for `sliding-buckets`
 * also the length of a bucket. The tag and the lengths identify the format of the value. So a
 * policy that changes its algorithm or window starts new counters, while processes with the old
 * policy still use the old counters. Names are unambiguous: the prefix and the escaped key contain
 * no braces, and the tag is the last capital letter.
 */
import { algorithms } from '../../algorithms/index.ts';
import { durationCode } from '../../duration.ts';
import type { Policy } from '../../policy.ts';

/** Matches text that may need escaping. Faster than `UNSAFE`, but also matches surrogate pairs. */
const MAY_NEED_ESCAPE = /[{}%\ud800-\udfff]/;
/** With the `u` flag, `\p{Surrogate}` matches only lone surrogates. */
const UNSAFE = /[{}%\p{Surrogate}]/gu;
/** For policy names. Also matches `=`, the last character of the names from `ofRecords`. */
const UNSAFE_NAME = /[=%\p{Surrogate}]/gu;
const UNSAFE_ID = /[%\p{Surrogate}]/gu;

/** Returns an id with lone surrogates escaped, so that different ids stay different in UTF-8. */
export const idText = (id: string): string => id.replace(UNSAFE_ID, escapeCharacter);

const escapeCharacter = (character: string): string =>
  `%${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

const ESCAPED = /%([0-9a-f]{4})/g;
const unescapeCharacter = (_: string, code: string): string =>
  String.fromCharCode(Number.parseInt(code, 16));

/** Matches the key in braces, the name of the policy, and the tag and lease at the end. */
const HOLDS_NAME = new RegExp(`^\\{([^}]*)\\}([^]*)${algorithms.concurrency.redisTag}\\d+[a-z]+$`);

export class KeyNames {
  readonly #prefix: string;
  readonly #suffixes = new WeakMap<Policy, string>();
  /** Cache of the last policy and its suffix, because most callers use one policy repeatedly. */
  #lastPolicy: Policy | undefined = undefined;
  #lastSuffix = '';

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Returns the name of the Redis key with the counter of a policy and a key. */
  of(policy: Policy, key: string): string {
    const text = MAY_NEED_ESCAPE.test(key) ? key.replace(UNSAFE, escapeCharacter) : key;
    if (policy !== this.#lastPolicy) {
      this.#lastSuffix = this.#suffix(policy);
      this.#lastPolicy = policy;
    }
    return `${this.#prefix}{${text}}${this.#lastSuffix}`;
  }

  /** Returns the name of the Redis key with the ids and used receipts of a limit. */
  ofRecords(limitKey: string): string {
    return `${limitKey}=`;
  }

  /** The channel on which releases of holds are published. */
  get channel(): string {
    return releaseChannel(`${this.#prefix}{`);
  }

  /** Parses the name of a concurrency limit, without its prefix. Returns undefined for others. */
  parseHolds(name: string): { readonly policy: string; readonly key: string } | undefined {
    const parts = HOLDS_NAME.exec(name);
    if (parts === null) return undefined;
    return {
      key: parts[1].replace(ESCAPED, unescapeCharacter),
      policy: parts[2].replace(ESCAPED, unescapeCharacter),
    };
  }

  #suffix(policy: Policy): string {
    let suffix = this.#suffixes.get(policy);
    if (suffix === undefined) {
      const { name, algorithm, windowMs, bucketMs } = policy;
      const { redisTag, option } = algorithms[algorithm];
      const buckets = option === 'buckets' ? `/${bucketMs}` : '';
      const text = name.replace(UNSAFE_NAME, escapeCharacter);
      suffix = `${text}${redisTag}${durationCode(windowMs)}${buckets}`;
      this.#suffixes.set(policy, suffix);
    }
    return suffix;
  }
}

/** Returns the channel on which releases are published for all keys with the prefix of `key`. */
export const releaseChannel = (key: string): string => `${key.slice(0, key.indexOf('{'))}released`;

/** CRC16 (XMODEM), which Redis Cluster uses for slots. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return crc & 0xffff;
}

const encoder = new TextEncoder();

/** Returns the Cluster slot of a name from `KeyNames`: a hash of the text between its braces. */
export function slotOf(key: string): number {
  const open = key.indexOf('{') + 1;
  return crc16(encoder.encode(key.slice(open, key.indexOf('}', open)))) % 16_384;
}

/**
 * Returns the failure domain of a slot: 128 adjacent slots, which are usually on one node. A domain
 * at the end of a node's range can also contain slots of the next node. With three masters of equal
 * size, the failure of one master affects less than 2 % of the slots of the other two. Smaller
 * domains would get too few calls to detect a failure soon.
 */
export const domainOfSlot = (slot: number): number => slot >> 7;
