/**
 * Fast path of `KeyTable.find`: a direct-mapped cache of hot keys, compared by their text.
 *
 * Avoids hashing the key: V8 compares two flat strings faster than the hash loop reads one. CPU
 * time per `checkSync`, median of 3 alternating runs, with the cache and without:
 *
 *     one key                        142 and 172 ns
 *     100 keys                       129 and 169 ns
 *     1,000 keys in random order     160 and 204 ns
 *     10,000 keys                    403 and 384 ns
 *     1,000,000 keys                 456 and 389 ns
 *
 * To compare: `npm run bench -- memory` with `USE_HOT_KEYS` on and off. The code that uses the
 * cache stays in `KeyTable.find`: in a method of its own, a check took 10 % longer.
 *
 * A cached key is used only if its row still has the hash of the key.
 */

/** Whether the cache is used. It does not change any result. */
export const USE_HOT_KEYS = true;

/** Words per slot: the two halves of the hash, and the row. */
export const SLOT_WORDS = 3;
/** See `KeyedHash`. A copy in this module, because an imported one is slower. */
const codeAt = ''.charCodeAt;

/**
 * Returns a number whose low bits are the slot of a key. The number depends on the last three
 * characters, so that keys with consecutive numbers at the end have different slots.
 */
export function slotOf(key: string): number {
  const last = key.length - 1;
  const slot = codeAt.call(key, last);
  if (last < 2) return slot;
  return slot + codeAt.call(key, last - 1) * 10 + codeAt.call(key, last - 2) * 100;
}

/**
 * Returns the number of slots for a table. A small table has few slots, so that a policy with few
 * keys takes little memory. There are only two sizes: with more, access to the arrays was slower,
 * 220 ns instead of 155 ns per check at 1,000 keys.
 */
export const slotsFor = (capacity: number): number => (capacity > 64 ? 1024 : 16);

/** Whether to cache a key that was found by its hash: 1 in 100, so that hot keys stay cached. */
export const shouldCache = (): boolean => USE_HOT_KEYS && Math.random() < 0.01;
