/** Formats values of structured fields (RFC 9651), the syntax of the IETF rate-limit headers. */

/** The largest integer of a structured field: 15 digits. */
const MAX_INTEGER = 999_999_999_999_999;

/** Rounds down to an integer that a structured field can hold. NaN becomes 0. */
export function toInteger(value: number): number {
  return value > 0 ? Math.min(Math.floor(value), MAX_INTEGER) : 0;
}

/** Converts ms to whole seconds, rounded up. Exact for every safe integer. */
export function toSeconds(ms: number): number {
  return ms > 0 ? Math.min(Math.ceil(ms / 1000), MAX_INTEGER) : 0;
}

/** Converts a window to whole seconds, rounded up. At least 1, because the draft forbids 0. */
export function toWindowSeconds(windowMs: number): number {
  return Math.max(toSeconds(windowMs), 1);
}

/**
 * Percent-encodes a character. Also encodes a lone surrogate, although UTF-8 does not allow it:
 * otherwise two names could have the same code.
 */
function percentEncode(character: string): string {
  const unit = character.charCodeAt(0);
  if (character.length > 1 || unit < 0xd800 || unit > 0xdfff) return encodeURIComponent(character);
  const bytes = [0xed, 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase()}`).join('');
}

/**
 * Percent-encodes a policy's name to printable ASCII, as strings of structured fields require.
 * Encodes `%` too, because otherwise two names could have the same code.
 */
export function encodeName(name: string): string {
  return name.replace(/[^\x20-\x24\x26-\x7e]/gu, percentEncode);
}

const quotedNames = new Map<string, string>();
const MAX_CACHED_NAMES = 1024;

/** Returns a policy's name as a quoted string. Cached, because every response contains it. */
export function quoteName(name: string): string {
  let text = quotedNames.get(name);
  if (text === undefined) {
    text = `"${encodeName(name).replace(/["\\]/g, '\\$&')}"`;
    if (quotedNames.size >= MAX_CACHED_NAMES) quotedNames.clear();
    quotedNames.set(name, text);
  }
  return text;
}

/**
 * Appends `value` to the header's current value if both are lists of policies, which happens if a
 * request passes several limiters. Otherwise returns `value`.
 */
export function appendToList(current: unknown, value: string): string {
  const isList = typeof current === 'string' && current.startsWith('"') && value.startsWith('"');
  return isList ? `${current}, ${value}` : value;
}

/** Matches an item of a list of policies. Group 1 is the policy's quoted name. */
const ITEM = /("(?:[^"\\]|\\.)*")[^,]*/g;

/**
 * Prepends `value` to the header's current value if both are lists of policies. Removes current
 * items with the same names, because a handler may return one `Response` object several times.
 */
export function prependToList(value: string, current: string): string {
  if (!value.startsWith('"') || !current.startsWith('"')) return value;
  const names = Array.from(value.matchAll(ITEM), ([, name]) => name);
  const others = Array.from(current.matchAll(ITEM)).filter(([, name]) => !names.includes(name));
  return [value, ...others.map(([item]) => item)].join(', ');
}
