/**
 * The addresses in X-Forwarded-For and Forwarded (RFC 7239), read from the right.
 *
 * The right end is what the nearest proxy wrote; further left it is the client's own text sooner or
 * later, with quotes that never end. From the right, that text cannot change how the rest is read.
 */
import { type Address, readAddress } from './address-bits.ts';

export type ForwardedHeader = 'x-forwarded-for' | 'forwarded';

/** More is not looked at: nobody has so many proxies. */
const MAX_ENTRIES = 64;
const MAX_CHARACTERS = 8192;

const [TAB, SPACE, QUOTE, BACKSLASH] = [9, 32, 34, 92];

/** A port after an address, or one of RFC 7239 that tells nothing. */
const PORT = '(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?';
const BRACKETED = new RegExp(`^\\[([^\\]]*:[^\\]]*)\\]${PORT}$`);
const QUAD = new RegExp(`^([0-9.]+)${PORT}$`);
/** A value without quotes may have only letters and digits, but many write colons and brackets. */
const PAIR = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))$/;

/**
 * Where the last separator before `end` is, or -1. In Forwarded those in quotes do not count. From
 * the right, the first quote ends quoted text. The next one begins it, after a `=`, or is itself
 * part of the text, after a backslash.
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

/** The part without the blanks around it. `trim` would take more for blank than HTTP does. */
function part(text: string, start: number, end: number): string {
  const isBlank = (at: number) => text.charCodeAt(at) === SPACE || text.charCodeAt(at) === TAB;
  while (start < end && isBlank(start)) start++;
  while (start < end && isBlank(end - 1)) end--;
  return text.slice(start, end);
}

/** An address of X-Forwarded-For: alone, in brackets, or with a port if that is unmistakable. */
function readEntry(text: string): Address | undefined {
  const address = readAddress(text);
  if (address) return address;
  const inside = BRACKETED.exec(text) ?? QUAD.exec(text);
  return inside ? readAddress(inside[1]) : undefined;
}

/** A node of Forwarded, where an IPv6 address is always in brackets. */
function readNode(text: string): Address | undefined {
  const inside = BRACKETED.exec(text) ?? QUAD.exec(text);
  return inside ? readAddress(inside[1]) : undefined;
}

/** The address in one element of Forwarded. One that has a fault anywhere has no address. */
function readElement(text: string): Address | undefined {
  let address: Address | undefined;
  let hasNode = false;
  for (let end = text.length; end >= 0; ) {
    const at = separatorBefore(text, end, 0, ';', true);
    const words = part(text, at + 1, end);
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

/** The addresses of a header, the last one first; undefined where an entry is no address. */
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
    // What reaches to the cut may go on beyond it, so what is left of it means nothing.
    const isCut = comma < 0 && floor > 0;
    yield isCut ? undefined : read(part(list, comma + 1, end));
    end = comma;
  }
}
