/**
 * Finds the readings of a path: the paths that different applications may derive from it. Proxies
 * and applications treat encoded slashes, backslashes, empty segments, dot segments and parameters
 * differently. So a path is read in all of these ways, and rules apply to each distinct reading.
 *
 *     /x/..%2flogin   ->   /x/..%2flogin, /x/../login, /login
 *
 * Each step adds variants to a set, until no step adds another one, so all combinations are
 * covered. A path without special characters has one reading and skips all steps.
 */
import { AmbiguousRequest } from '../ambiguous-request.ts';
import { casedPath, decodePlain, finishPath, withoutDots } from './request-path.ts';

/**
 * Maximum number of readings, because the rules are searched for each. Paths with more are
 * rejected.
 */
export const MAX_READINGS = 16;
/** Maximum length of a path with special characters, to bound the time for finding readings. */
export const MAX_UNUSUAL_PATH_LENGTH = 4096;

const UNUSUAL = /[%\\;]|\/\/|\.(?:\/|$)/;

const NOT_PLAIN = /[^!-~]|[%\\;?#A-Z]|\/\/|\/\.|\.(?:\/|$)|.\/$/;

/**
 * Fast path: whether a path is in its normal form and has no other reading. Most paths are like
 * this.
 */
export const isPlain = (path: string): boolean =>
  path.charCodeAt(0) === SLASH && !NOT_PLAIN.test(path);

const SLASH = 47;

/** Whether the only reading of a path is its normal form. */
export const hasOneReading = (path: string): boolean => !UNUSUAL.test(path);

/**
 * Returns the distinct readings in their normal form; throws an `AmbiguousRequest` if there are too
 * many.
 */
export const readingsOf = (path: string): readonly string[] => [
  ...new Set(casedReadingsOf(path).map((reading) => reading.toLowerCase())),
];

/** Returns the distinct readings with their case preserved. */
export function casedReadingsOf(path: string): readonly string[] {
  if (hasOneReading(path)) return [casedPath(path)];
  if (path.length > MAX_UNUSUAL_PATH_LENGTH) throw tooMany();
  const texts = new Set([decodePlain(path), decodePlain(decodeLegacy(path))]);
  // The iteration of a set includes elements added meanwhile, so steps apply in any order.
  for (const text of texts) {
    for (const step of STEPS) {
      for (const variant of step(text)) texts.add(variant);
      if (texts.size > MAX_READINGS) throw tooMany();
    }
  }
  return [...new Set([...texts].map(finishPath))];
}

const tooMany = (): AmbiguousRequest =>
  new AmbiguousRequest(
    `Expected a path with at most ${MAX_READINGS} readings` +
      ` and ${MAX_UNUSUAL_PATH_LENGTH} characters`,
  );

type Step = (text: string) => readonly string[];

const NONE: readonly string[] = [];

/** Returns a list with the variant `to`; an empty list if `to` equals the text. */
const variantIfChanged = (text: string, to: string): readonly string[] =>
  to === text ? NONE : [to];

const byte = (code: number): string => `%${code.toString(16).padStart(2, '0')}`;

/** Decodes `%u002f` of IIS and overlong UTF-8: `%c0%af` and `%e0%80%af` are `/`. */
function decodeLegacy(text: string): string {
  return text
    .replace(/%u00([\da-f]{2})/gi, '%$1')
    .replace(/(?:%c([01])|%e0%8([01]))%([89ab][\da-f])/gi, (_, two, three, last: string) =>
      byte(Number(two ?? three) * 0x40 + (Number.parseInt(last, 16) & 0x3f)),
    );
}

/** URL parsers decode `%2e` and nothing else. */
const encodedDots: Step = (text) => variantIfChanged(text, text.replace(/%2e/gi, '.'));

/** With `AllowEncodedSlashes NoDecode`, Apache decodes everything except slashes. */
const encodedNames: Step = (text) => variantIfChanged(text, decodeOnce(text, /%(?:5c|2e|3b|25)/gi));

/** Most servers decode everything. A proxy and its application may each decode once. */
const encodedSlashes: Step = (text) =>
  variantIfChanged(text, decodeOnce(text, /%(?:2f|5c|2e|3b|25)/gi));

const decodeOnce = (text: string, encoded: RegExp): string =>
  decodePlain(text.replace(encoded, decodeURIComponent));

/** If a decoded path is parsed again, it ends at `?` or `#`. In C, a string ends at NUL. */
const encodedEnds: Step = (text) => variantIfChanged(text, text.replace(/%(?:3f|23|00).*$/i, ''));

const backslashes: Step = (text) => variantIfChanged(text, text.replaceAll('\\', '/'));

/** To a URL parser, `//host/login` is the path `/login` on another host. */
const authority: Step = (text) => variantIfChanged(text, text.replace(/^\/{2,}[^/]*/, ''));

/** Java servers drop `;name=value` from each segment. */
const parameters: Step = (text) => variantIfChanged(text, text.replace(/;[^/]*/g, ''));

/** Windows ignores dots and spaces at the end of a name, and some frameworks trim spaces. */
const trailingDots: Step = (text) =>
  TAIL.test(text) ? variantIfChanged(text, text.split('/').map(withoutTail).join('/')) : NONE;

const TAIL = /(?:\.|%(?:20|09|0a|0d))(?:\/|$)/i;

const BLANK = /^%(?:20|09|0a|0d)$/i;

/**
 * Removes dots and blanks at the end of a segment. Uses a loop, because a regular expression would
 * take quadratic time for `%20%20...x`.
 */
function withoutTail(segment: string): string {
  let end = segment.length;
  for (;;) {
    if (segment[end - 1] === '.') end--;
    else if (BLANK.test(segment.slice(Math.max(0, end - 3), end))) end -= 3;
    else break;
  }
  // `..%20` becomes `..`, not an empty segment.
  return end > 0 ? segment.slice(0, end) : /^\.{0,2}/.exec(segment)![0];
}

/** nginx removes empty segments before it removes dot segments. URL parsers do not. */
function dotSegments(text: string): readonly string[] {
  if (!/\/\.\.?(?:\/|$)/.test(text)) return NONE;
  const segments = text.split('/').slice(1);
  return [segments, segments.filter(Boolean)].map((each) => `/${withoutDots(each).join('/')}`);
}

const STEPS: readonly Step[] = [
  ...[encodedDots, encodedNames, encodedSlashes, encodedEnds, backslashes, authority],
  ...[parameters, trailingDots, dotSegments],
];
