/**
 * The addresses in X-Forwarded-For and Forwarded (RFC 7239), parsed from the right.
 *
 * The nearest proxy appends its entry at the right end. Text further left may come from the client,
 * for example with an unclosed quote. Because the header is parsed from the right, such text cannot
 * change how the entries of the proxies are parsed.
 */
import { type Address, readAddress } from './address-bits.ts';

export type ForwardedHeader = 'x-forwarded-for' | 'forwarded';

/** Limits on the part of a header that is parsed. */
const MAX_ENTRIES = 64;
const MAX_CHARACTERS = 8192;

const [TAB, SPACE, QUOTE, BACKSLASH] = [9, 32, 34, 92];

/** A port, or an obfuscated port of RFC 7239. */
const PORT = '(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?';
const BRACKETED = new RegExp(`^\\[([^\\]]*:[^\\]]*)\\]${PORT}$`);
const QUAD = new RegExp(`^([0-9.]+)${PORT}$`);
/** Accepts colons and brackets without quotes, which RFC 7239 forbids but many proxies write. */
const PAIR = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))$/;

/**
 * Returns the index of the last separator between `floor` and `end`, or -1. In Forwarded,
 * separators in quotes do not count. Read from the right, the first quote closes quoted text, and
 * the next quote without a backslash before it opens that text.
 */
function separatorBefore(
  text: string,
  end: number,
  floor: number,
  separator: string,
  hasQuotes: boolean,
): number {
  let isQuoted = false;
  for (let at = end - 1; at >= floor; at--) {
    if (hasQuotes && text.charCodeAt(at) === QUOTE) {
      isQuoted = !isQuoted || text.charCodeAt(at - 1) === BACKSLASH;
    } else if (!isQuoted && text[at] === separator) return at;
  }
  return -1;
}

/** Returns a part of the text without spaces and tabs around it. `trim` would remove more. */
function trimmedPart(text: string, start: number, end: number): string {
  const isBlank = (at: number) => text.charCodeAt(at) === SPACE || text.charCodeAt(at) === TAB;
  while (start < end && isBlank(start)) start++;
  while (start < end && isBlank(end - 1)) end--;
  return text.slice(start, end);
}

/** Parses an entry of X-Forwarded-For: plain, in brackets, or with a port if unambiguous. */
function readEntry(text: string): Address | undefined {
  return readAddress(text) ?? readNode(text);
}

/** Parses a node of Forwarded, where an IPv6 address is always in brackets. */
function readNode(text: string): Address | undefined {
  const inside = BRACKETED.exec(text) ?? QUAD.exec(text);
  return inside ? readAddress(inside[1]) : undefined;
}

/** Returns the `for` address of an element of Forwarded, or undefined if any part is invalid. */
function readElement(text: string): Address | undefined {
  let address: Address | undefined;
  let hasNode = false;
  for (let end = text.length; end >= 0; ) {
    const at = separatorBefore(text, end, 0, ';', true);
    const words = trimmedPart(text, at + 1, end);
    end = at;
    if (words === '') continue;
    const pair = PAIR.exec(words);
    if (!pair) return undefined;
    if (pair[1].toLowerCase() !== 'for') continue;
    if (hasNode) return undefined;
    hasNode = true;
    address = readNode(pair[3] ?? pair[2].replace(/\\(.)/g, '$1'));
  }
  return address;
}

/** Yields the addresses of a header from the right; undefined for an invalid entry. */
export function* addressesFromRight(
  list: string,
  header: ForwardedHeader,
): Generator<Address | undefined, void> {
  const hasQuotes = header === 'forwarded';
  const read = hasQuotes ? readElement : readEntry;
  const floor = Math.max(0, list.length - MAX_CHARACTERS);
  let end = list.length;
  for (let count = 0; count < MAX_ENTRIES && end >= 0; count++) {
    const comma = separatorBefore(list, end, floor, ',', hasQuotes);
    // The header was cut at `floor`, so the leftmost entry may be incomplete.
    const isCut = comma < 0 && floor > 0;
    yield isCut ? undefined : read(trimmedPart(list, comma + 1, end));
    end = comma;
  }
}
