/**
 * The names of keys in Redis: `s:{user:42}perMinuteC1m`, short because every key pays for its name.
 *
 * What stands in braces decides the slot in a Cluster, so all policies of one key lie together and
 * are decided in one step. Braces inside the caller's key are escaped, so that nobody can choose
 * another key's slot, and so is what UTF-8 cannot hold, so that no two keys become one. The end, a
 * letter and a duration, tells what the value means: a policy that changes its algorithm or its
 * window counts anew, beside processes that still run the old one. Read from the end it is
 * unmistakable, whatever the name before it ends with.
 */
import { algorithms } from '../../algorithms/index.ts';
import type { Policy } from '../../policy.ts';

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
];

/** Tells quickly that there is nothing to escape, as there almost never is. */
const SUSPECT = /[{}%\ud800-\udfff]/;
/** With the `u` flag a surrogate is one that stands alone. */
const UNSAFE = /[{}%\p{Surrogate}]/gu;
/** An equals sign stands only at the end of the key for records. */
const UNSAFE_NAME = /[=%\p{Surrogate}]/gu;
const UNSAFE_ID = /[%\p{Surrogate}]/gu;

/** An id as UTF-8 can hold it, so that no two ids become one. */
export const idText = (id: string): string => id.replace(UNSAFE_ID, escapeOne);

const escapeOne = (character: string): string =>
  `%${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** The length of a window in its largest whole unit: 90,000 is `90s`. */
function durationText(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, each]) => ms % each === 0)!;
  return ms / unitMs + unit;
}

export class KeyNames {
  readonly #prefix: string;
  readonly #ends = new WeakMap<Policy, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  of(policy: Policy, key: string): string {
    const text = SUSPECT.test(key) ? key.replace(UNSAFE, escapeOne) : key;
    return `${this.#prefix}{${text}}${this.#end(policy)}`;
  }

  /** The key of the ids and used receipts of a limit: beside its own. */
  ofRecords(limitKey: string): string {
    return `${limitKey}=`;
  }

  #end(policy: Policy): string {
    let end = this.#ends.get(policy);
    if (end === undefined) {
      const { name, algorithm, windowMs, bucketMs } = policy;
      const { redisTag, option } = algorithms[algorithm];
      const buckets = option === 'buckets' ? `/${bucketMs}` : '';
      const text = name.replace(UNSAFE_NAME, escapeOne);
      end = `${text}${redisTag}${durationText(windowMs)}${buckets}`;
      this.#ends.set(policy, end);
    }
    return end;
  }
}

/** CRC16 (XMODEM), as Cluster counts slots. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return crc & 0xffff;
}

const encoder = new TextEncoder();

/** The slot of a key made by `KeyNames`: that of the text between its braces. */
export function slotOf(key: string): number {
  const open = key.indexOf('{') + 1;
  return crc16(encoder.encode(key.slice(open, key.indexOf('}', open)))) % 16_384;
}

/**
 * The failure domain of a slot: 128 slots in a row, which a Cluster usually has on one node. Only
 * at the two ends of a node's range a domain has slots of a neighbour: of three masters, one that
 * is dead takes at most 1 % of the others' slots with it. Smaller domains would get too few calls
 * to detect a failure soon.
 */
export const domainOfSlot = (slot: number): number => slot >> 7;
