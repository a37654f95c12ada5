/**
 * Keys: whom a limit counts. One string, or parts that are joined so that no two lists of parts
 * make the same string.
 */
import { expected } from './errors.ts';

/** Parts are joined by `joinKey`; a string is taken as it is. */
export type Key = string | readonly (string | number)[];

/** Long enough for any identifier, short enough that nobody fills the memory with one key. */
export const MAX_KEY_LENGTH = 1024;

/**
 * Joins parts into one key: `joinKey('a:b', 'c')` is `a\:b:c`, `joinKey('a', 'b:c')` is `a:b\:c`.
 * The separator inside a part is escaped, so different parts never meet in one key.
 */
export function joinKey(...parts: readonly (string | number)[]): string {
  return parts.map(escapePart).join(':');
}

function escapePart(part: unknown): string {
  if (typeof part === 'number' && Number.isFinite(part)) return String(part);
  if (typeof part === 'string') return part.replace(/[\\:]/g, '\\$&');
  throw expected('ERR_INVALID_KEY', 'the parts of the key to be strings or numbers', part);
}

/** A copy that shares no memory: a piece of a long string would keep all of that in memory. */
export const copyOf = (text: string): string => JSON.parse(JSON.stringify(text));

/**
 * The key as one string, or an error that says what is wrong with it. With `what`, the name of
 * something else than a key, only a string is accepted.
 */
export function keyText(key: Key, what?: string): string {
  const isText = typeof key === 'string' && key !== '' && key.length <= MAX_KEY_LENGTH;
  return isText ? key : joinedText(key, what);
}

function joinedText(key: unknown, what?: string): string {
  // More parts than characters cannot fit, so they need not be joined to know it.
  const isList = !what && Array.isArray(key) && key.length <= MAX_KEY_LENGTH;
  const text = isList ? joinKey(...key) : '';
  if (text !== '' && text.length <= MAX_KEY_LENGTH) return text;
  throw expected(
    'ERR_INVALID_KEY',
    `${what ?? 'the key'} to be a string of 1 to ${MAX_KEY_LENGTH} characters`,
    key,
  );
}
