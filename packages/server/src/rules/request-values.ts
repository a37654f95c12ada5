/**
 * Reads the normalized values of headers, cookies and query parameters that identify a client.
 * Applications read repeated names differently. So a request is rejected with 400 if a name occurs
 * twice, or in a spelling that only some applications accept.
 */
import { AmbiguousRequest } from '../ambiguous-request.ts';

type ValueReader = (text: string | undefined) => string | undefined;

/**
 * Returns the value of a header as applications compare it: trimmed, and with the scheme of
 * credentials in lower case.
 */
export function headerValue(value: string | undefined, name: string): string | undefined {
  if (value === undefined || !CREDENTIALS.has(name)) return value?.trim();
  return value.trim().replace(/^(\S+)\s+/, (_, scheme: string) => `${scheme.toLowerCase()} `);
}

const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization']);

/**
 * Returns a function that reads a cookie. The function decodes the value and removes quotes,
 * because some applications ignore quotes and encoding.
 */
export function cookieValue(name: string): ValueReader {
  const isSpelling = isSpellingOf(name);
  return (header) => {
    if (!header) return undefined;
    // Parsers that follow RFC 2109 also end a cookie at a comma.
    const found = pairsIn(header, /;/).filter(([each]) => isSpelling(each));
    const other = header.includes(',')
      ? pairsIn(header, /[;,]/).filter(([each]) => isSpelling(each))
      : found;
    const value = onlyValue(found, other, `cookie \`${name}\``, name);
    return value?.replace(/^"(.*)"$/, '$1').trim();
  };
}

/**
 * Returns a function that reads a query parameter. Some applications decode `+` to a space, and
 * some trim values. So `+` and space are treated as the same character, and are trimmed. Some
 * applications also end a parameter at `;`, so a request is rejected if the value differs with this
 * separator.
 */
export function queryValue(name: string): ValueReader {
  const isSpelling = isSpellingOf(name);
  const pairs = (search: string): Pairs =>
    [...new URLSearchParams(search)].filter(([each]) => isSpelling(each));
  return (search) => {
    if (!search) return undefined;
    const found = pairs(search);
    const other = search.includes(';') ? pairs(search.replaceAll(';', '&')) : found;
    const value = onlyValue(found, other, `query parameter \`${name}\``, name);
    return value?.replaceAll('+', ' ').trim().replaceAll(' ', '+');
  };
}

type Pairs = readonly (readonly [name: string, value: string])[];

function pairsIn(text: string, separator: RegExp): Pairs {
  return text.split(separator).map((pair) => {
    const at = pair.indexOf('=');
    const [name, value] = at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
    return [name.trim(), decodeIfValid(value.trim())];
  });
}

/** Returns the decoded text, or the text itself if its encoding is invalid. */
function decodeIfValid(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Returns a predicate for names: whether an application may read the other name as this one.
 * ASP.NET ignores case. PHP reads `api.key` and `api key` as `api_key`, and decodes names of
 * cookies. PHP, Rails and Express read `api_key[]` as `api_key`.
 */
function isSpellingOf(name: string): (other: string) => boolean {
  const hasBracket = name.includes('[');
  const normalName = (text: string): string => {
    const name = decodeIfValid(text);
    const base = hasBracket ? name : name.replace(/[[\0].*$/s, '');
    return base.trim().toLowerCase().replace(/[. ]/g, '_');
  };
  const wanted = normalName(name);
  return (other) => normalName(other) === wanted;
}

/**
 * Returns the value that all parsers find, or undefined if no parser finds one. Throws if there are
 * several values, or if the name is spelled differently.
 */
function onlyValue(found: Pairs, other: Pairs, what: string, name: string): string | undefined {
  const isSame = other.length === found.length && other[0]?.[1] === found[0]?.[1];
  if (!isSame || found.length > 1) throw new AmbiguousRequest(`Expected one ${what}, got several`);
  if (found.length === 0) return undefined;
  const [[given, value]] = found;
  if (given !== name)
    throw new AmbiguousRequest(`Expected the ${what}, got \`${given.slice(0, 60)}\``);
  return value;
}
