/**
 * Keys: a limit counts separately for each key, such as a user or an address. A key is a string or
 * a list of parts. Joining two different lists of parts never makes the same string.
 */
import { expected } from './errors.ts';

/** A string is used unchanged. Parts are joined by `joinKey`. */
export type Key = string | readonly (string | number)[];

/** The longest key, in characters: enough for any identifier, and a bound for the memory. */
export const MAX_KEY_LENGTH = 1024;

/**
 * Joins parts into one key: `joinKey('a:b', 'c')` is `a\:b:c`, `joinKey('a', 'b:c')` is `a:b\:c`.
 * The separator inside a part is escaped, so different lists of parts make different keys.
 */
export function joinKey(...parts: readonly (string | number)[]): string {
  return parts.map(escapePart).join(':');
}

function escapePart(part: unknown): string {
  if (typeof part === 'number' && Number.isFinite(part)) return String(part);
  if (typeof part === 'string') return part.replace(/[\\:]/g, '\\$&');
  throw expected('ERR_INVALID_KEY', 'the parts of the key to be strings or numbers', part);
}

/**
 * Returns a copy that shares no memory with `text`. In V8, a slice of a string keeps the whole
 * string in memory.
 */
export const copyOf = (text: string): string => JSON.parse(JSON.stringify(text));

/**
 * Returns the key as one string. Throws if the key is invalid. Pass `what`, a name for the error
 * message, to validate another value by the same rules; then only a string is accepted.
 */
export function keyText(key: Key, what?: string): string {
  const isText = typeof key === 'string' && key !== '' && key.length <= MAX_KEY_LENGTH;
  return isText ? key : joinedText(key, what);
}

function joinedText(key: unknown, what?: string): string {
  // A list with too many parts is rejected without joining them.
  const isList = !what && Array.isArray(key) && key.length <= MAX_KEY_LENGTH;
  const text = isList ? joinKey(...key) : '';
  if (text !== '' && text.length <= MAX_KEY_LENGTH) return text;
  throw expected(
    'ERR_INVALID_KEY',
    `${what ?? 'the key'} to be a string of 1 to ${MAX_KEY_LENGTH} characters`,
    key,
  );
}
