/**
 * Parses the rate-limit headers of a response: every form that `headers.ts` writes, and the similar
 * headers of GitHub, OpenAI and other APIs.
 *
 * Headers are untrusted. A malformed header is ignored as a whole, as the IETF draft requires. The
 * other headers still apply. Parsing never throws and takes linear time.
 */
import { isInteger, isRecord } from '../errors.ts';
import type { HeaderForm } from './headers.ts';
import { encodeName } from './structured-fields.ts';

export interface ParsedPolicy {
  readonly name?: string;
  readonly limit?: number;
  readonly windowMs?: number;
}

export interface ParsedLimit {
  readonly name?: string;
  readonly limit?: number;
  readonly remaining: number;
  /**
   * Time until more is available. Missing if the response does not contain it. Also missing if the
   * response contains a point in time but the option `nowMs` is not set.
   */
  readonly resetAfterMs?: number;
}

export interface ParsedRateLimit {
  readonly policies: readonly ParsedPolicy[];
  readonly limits: readonly ParsedLimit[];
  /** Takes precedence over the limits' `resetAfterMs`. */
  readonly retryAfterMs?: number;
  /** The form of the limits, or of the policies if there are no limits. */
  readonly form: HeaderForm;
}

type Value = string | readonly string[] | null | undefined;

/** `Headers`, an object of headers with names in any case, or a function that returns a header. */
export type HeaderSource =
  | { get(name: string): string | null | undefined }
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | ((name: string) => Value);

export interface ParseOptions {
  /** The current time in ms since the epoch, to convert times to durations. */
  readonly nowMs?: number | undefined;
}

type Reader = (name: string) => string | undefined;

/** Longer headers are ignored. Servers and proxies reject them too. */
const MAX_VALUE_LENGTH = 8192;
/** `X-RateLimit-Reset` is seconds from now if below this number, else seconds since the epoch. */
const FIRST_EPOCH_S = 1e8;
/** From this number on, `X-RateLimit-Reset` is milliseconds since the epoch. */
const FIRST_EPOCH_MS = 1e11;

/**
 * Converts seconds to a safe integer of ms, rounded up. Rounds to microseconds first. Otherwise a
 * tiny floating-point error would add a whole millisecond.
 */
function inMs(seconds: number): number {
  const ms = Number.isInteger(seconds) ? seconds * 1000 : Math.round(seconds * 1e6) / 1000;
  return Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER);
}

/** Returns an object with the property, or without it if the value is undefined. */
const field = <N extends string, T>(name: N, value: T | undefined) =>
  (value === undefined ? {} : { [name]: value }) as { [K in N]?: T };

// --- Structured fields (RFC 9651): lists and dictionaries of items ---

/** A string, an integer, or null for an item of another type. */
type BareItem = string | number | null;

interface Member {
  /** The key in a dictionary; empty in a list. */
  readonly key: string;
  readonly value: BareItem;
  readonly parameters: ReadonlyMap<string, BareItem>;
}

interface Cursor {
  readonly text: string;
  at: number;
}

const KEY = /[a-z*][a-z0-9_.*-]*/y;
const STRING = /"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"/y;
const INTEGER = /-?\d{1,15}(?![\d.])/y;
const DECIMAL = /-?\d{1,12}\.\d{1,3}(?!\d)/y;
const TOKEN = /[A-Za-z*][\w!#$%&'*+.^`|~:/-]*/y;
const BYTES = /:[A-Za-z0-9+/]*={0,2}:/y;
const BOOLEAN = /\?[01]/y;
const DATE = /@-?\d{1,15}(?![\d.])/y;
const DISPLAY = /%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*"/y;
const OTHERS = [DECIMAL, TOKEN, BYTES, BOOLEAN, DATE];
const EQUALS = /=/y;
const SEMICOLON = /; */y;
const COMMA = /[ \t]*,[ \t]*/y;
const SPACES = / */y;
const END = /[ \t]*$/y;

/** Consumes and returns the match at the cursor, or returns undefined. */
function take(cursor: Cursor, pattern: RegExp): string | undefined {
  pattern.lastIndex = cursor.at;
  const found = pattern.exec(cursor.text)?.[0];
  if (found !== undefined) cursor.at += found.length;
  return found;
}

function percentDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function takeBareItem(cursor: Cursor): BareItem | undefined {
  const text = take(cursor, STRING);
  if (text !== undefined) return text.slice(1, -1).replace(/\\(.)/g, '$1');
  const integer = take(cursor, INTEGER);
  // Adding 0 converts -0 to 0.
  if (integer !== undefined) return Number(integer) + 0;
  const display = take(cursor, DISPLAY);
  if (display !== undefined) {
    return percentDecode(display.slice(2, -1)) === undefined ? undefined : null;
  }
  return OTHERS.some((pattern) => take(cursor, pattern) !== undefined) ? null : undefined;
}

function takeParameters(cursor: Cursor): Map<string, BareItem> | undefined {
  const parameters = new Map<string, BareItem>();
  while (take(cursor, SEMICOLON) !== undefined) {
    const key = take(cursor, KEY);
    const value = take(cursor, EQUALS) === undefined ? null : takeBareItem(cursor);
    if (key === undefined || value === undefined) return undefined;
    parameters.set(key, value);
  }
  return parameters;
}

/** Returns the members, or undefined if any character is invalid, as the standard requires. */
function membersOf(text: string | undefined, kind: 'list' | 'dictionary'): Member[] | undefined {
  if (text === undefined) return undefined;
  const cursor = { text, at: 0 };
  const members: Member[] = [];
  take(cursor, SPACES);
  do {
    const key = kind === 'list' ? '' : take(cursor, KEY);
    const isFlag = kind === 'dictionary' && take(cursor, EQUALS) === undefined;
    const value = isFlag ? null : takeBareItem(cursor);
    if (key === undefined || value === undefined) return undefined;
    const parameters = takeParameters(cursor);
    if (parameters === undefined) return undefined;
    members.push({ key, value, parameters });
  } while (take(cursor, COMMA) !== undefined);
  return take(cursor, END) === undefined ? undefined : members;
}

// --- The forms. Each function returns undefined if the header is missing or malformed. ---

/** Maps all members. Returns undefined if any member is mapped to undefined. */
function mapEvery<T>(
  members: readonly Member[] | undefined,
  map: (member: Member) => T | undefined,
): T[] | undefined {
  const mapped = members?.map(map);
  return mapped?.some((each) => each === undefined) ? undefined : (mapped as T[] | undefined);
}

/** Returns an optional parameter, or false if it is not an integer of at least `least`. */
function optionalInteger(value: BareItem | undefined, least: number): number | undefined | false {
  return value === undefined || isInteger(value, least) ? value : false;
}

/** Reverses `encodeName`. A name that `encodeName` cannot have produced is returned unchanged. */
function nameOf(wire: string): string {
  const name = percentDecode(wire);
  return name !== undefined && encodeName(name) === wire ? name : wire;
}

/** Parses a policy: `"burst";q=100;w=60` from draft 8 on, `100;w=60` in earlier drafts. */
function policyOf({ value, parameters }: Member): ParsedPolicy | undefined {
  const named = typeof value === 'string';
  const limit = named ? parameters.get('q') : value;
  const windowS = optionalInteger(parameters.get('w'), 1);
  if (!isInteger(limit, 0) || windowS === false) return undefined;
  const windowMs = windowS === undefined ? undefined : inMs(windowS);
  return {
    ...field('name', named ? nameOf(value) : undefined),
    limit,
    ...field('windowMs', windowMs),
  };
}

/** Parses a limit of the current draft: `"burst";r=50;t=30`. */
function draftLimitOf({ value, parameters }: Member): ParsedLimit | undefined {
  const remaining = parameters.get('r');
  const untilS = optionalInteger(parameters.get('t'), 0);
  if (typeof value !== 'string' || !isInteger(remaining, 0) || untilS === false) return undefined;
  const resetAfterMs = untilS === undefined ? undefined : inMs(untilS);
  return { name: nameOf(value), remaining, ...field('resetAfterMs', resetAfterMs) };
}

/** Parses draft 7: `limit=100, remaining=50, reset=30`, where `remaining` is optional. */
function draft7Limits(text: string | undefined): ParsedLimit[] | undefined {
  const members = membersOf(text, 'dictionary');
  if (members === undefined) return undefined;
  const values = new Map(members.map(({ key, value }) => [key, value]));
  const limit = values.get('limit');
  const resetS = values.get('reset');
  const remaining = optionalInteger(values.get('remaining'), 0);
  if (!isInteger(limit, 0) || !isInteger(resetS, 0) || remaining === false) return undefined;
  return remaining === undefined ? [] : [{ limit, remaining, resetAfterMs: inMs(resetS) }];
}

function draft6Limits(read: Reader): ParsedLimit[] | undefined {
  const integers = (name: string): number[] =>
    mapEvery(membersOf(read(name), 'list'), ({ value }) =>
      isInteger(value, 0) ? value : undefined,
    ) ?? [];
  // Two servers may have added the header. It then has two values, and neither is used.
  const only = (name: string): number | undefined => {
    const [first, second] = integers(name);
    return second === undefined ? first : undefined;
  };
  const remaining = only('ratelimit-remaining');
  if (remaining === undefined) return undefined;
  // Older drafts list the policies after the limit: `100, 100;w=60`.
  const [limit] = integers('ratelimit-limit');
  const resetS = only('ratelimit-reset');
  const resetAfterMs = resetS === undefined ? undefined : inMs(resetS);
  return [{ ...field('limit', limit), remaining, ...field('resetAfterMs', resetAfterMs) }];
}

/** Parses a non-standard number, which may have a fraction. */
function plainNumber(text: string | undefined): number | undefined {
  return /^\d{1,15}(?:\.\d{1,9})?$/.test(text ?? '') ? Number(text) : undefined;
}

const UNIT_S = { d: 86_400, h: 3600, m: 60, s: 1, ms: 0.001 };

/** Parses a duration such as `1s`, `6m0s`, `2m59.56s` or `12ms`. */
function durationMs(text: string): number | undefined {
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[dhms])){1,5}$/.test(text)) return undefined;
  let seconds = 0;
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|[dhms])/g)) {
    seconds += Number(count) * UNIT_S[unit as keyof typeof UNIT_S];
  }
  return inMs(seconds);
}

/** Returns the time until the reset, from a duration, seconds from now, or a point in time. */
function legacyResetMs(text: string | undefined, nowMs: number | undefined): number | undefined {
  const value = plainNumber(text);
  if (value === undefined) return text === undefined ? undefined : durationMs(text);
  if (value < FIRST_EPOCH_S) return inMs(value);
  if (nowMs === undefined) return undefined;
  return Math.max(0, (value < FIRST_EPOCH_MS ? inMs(value) : Math.ceil(value)) - nowMs);
}

/** Parses `X-RateLimit-*`, and OpenAI's separate headers for requests and tokens. */
function legacyLimits(read: Reader, nowMs: number | undefined): ParsedLimit[] {
  return [undefined, 'requests', 'tokens'].flatMap((name) => {
    const of = (what: string) => read(`x-ratelimit-${what}${name === undefined ? '' : `-${name}`}`);
    const remaining = plainNumber(of('remaining'));
    if (remaining === undefined) return [];
    return {
      ...field('name', name),
      ...field('limit', plainNumber(of('limit'))),
      remaining: Math.floor(remaining),
      ...field('resetAfterMs', legacyResetMs(of('reset'), nowMs)),
    };
  });
}

// --- Retry-After (RFC 9110) ---

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
const CLOCK = '(?<h>[01]\\d|2[0-3]):(?<m>[0-5]\\d):(?<s>[0-5]\\d|60)';
const MONTH = `(?<month>${MONTHS.join('|')})`;
const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day';
/** The current form of a date, and the two obsolete forms that a recipient must accept. */
const HTTP_DATES = [
  `${DAY}, (?<day>\\d\\d) ${MONTH} (?<year>\\d{4}) ${CLOCK} GMT`,
  `${LONG_DAY}, (?<day>\\d\\d)-${MONTH}-(?<year>\\d\\d) ${CLOCK} GMT`,
  `${DAY} ${MONTH} (?<day>[ \\d]\\d) ${CLOCK} (?<year>\\d{4})`,
].map((pattern) => new RegExp(`^${pattern}$`));
const FIFTY_YEARS_MS = 50 * 365.25 * 86_400_000;

function httpDateMs(text: string, nowMs: number): number | undefined {
  const parts = HTTP_DATES.map((form) => form.exec(text)?.groups).find((each) => each);
  if (parts === undefined) return undefined;
  const [day, h, m, s] = [parts.day, parts.h, parts.m, parts.s].map(Number);
  const month = MONTHS.indexOf(parts.month);
  const timeIn = (year: number): number | undefined => {
    const ms = Date.UTC(year, month, day, h, m, s);
    // `Date.UTC` would move an invalid day into the next month.
    const isReal = day >= 1 && Date.UTC(year, month, day) < Date.UTC(year, month + 1, 1);
    return isReal ? ms : undefined;
  };
  if (parts.year.length === 4) return timeIn(Number(parts.year));
  // A two-digit year more than 50 years ahead is the most recent past year with those digits.
  const times = [2100, 2000, 1900].map((century) => timeIn(century + Number(parts.year)));
  return times.find((ms) => ms !== undefined && ms <= nowMs + FIFTY_YEARS_MS);
}

function retryAfterMs(text: string | undefined, nowMs: number | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return inMs(Number(text));
  const atMs = nowMs === undefined ? undefined : httpDateMs(text, nowMs);
  return atMs === undefined || nowMs === undefined ? undefined : Math.max(0, atMs - nowMs);
}

// --- All headers ---

/** Joins the lines of a header. Returns undefined if the header is missing or too long. */
function lineOf(value: unknown): string | undefined {
  const lines: unknown[] = Array.isArray(value) ? value : [value];
  let length = 0;
  for (const line of lines) {
    if (typeof line !== 'string') return undefined;
    length += line.length + 2;
    if (length > MAX_VALUE_LENGTH + 2) return undefined;
  }
  return lines.length === 0 ? undefined : lines.join(', ').trim();
}

function readerOf(headers: unknown): Reader {
  if (typeof headers === 'function') return (name) => lineOf(headers(name));
  if (!isRecord(headers)) return () => undefined;
  const { get } = headers;
  if (typeof get === 'function') return (name) => lineOf(get.call(headers, name));
  const byName = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return (name) => lineOf(byName.get(name));
}

/** Returns the limits of the newest form that the response has. */
function currentOf(
  read: Reader,
  nowMs: number | undefined,
): { form: HeaderForm; limits: readonly ParsedLimit[] } {
  const text = read('ratelimit');
  const draft = mapEvery(membersOf(text, 'list'), draftLimitOf);
  if (draft !== undefined) return { form: 'draft', limits: draft };
  const draft7 = draft7Limits(text);
  if (draft7 !== undefined) return { form: 'draft-7', limits: draft7 };
  const draft6 = draft6Limits(read);
  if (draft6 !== undefined) return { form: 'draft-6', limits: draft6 };
  const limits = legacyLimits(read, nowMs);
  return { form: limits.length > 0 ? 'legacy' : 'none', limits };
}

/**
 * Parses the rate-limit headers of a response. Missing or malformed headers result in empty lists
 * and the form `none`.
 */
export function parseRateLimit(
  headers: HeaderSource,
  { nowMs: time }: ParseOptions = {},
): ParsedRateLimit {
  const read = readerOf(headers);
  const nowMs = Number.isFinite(time) ? time : undefined;
  const { form, limits } = currentOf(read, nowMs);
  const policies = mapEvery(membersOf(read('ratelimit-policy'), 'list'), policyOf) ?? [];
  const formOfPolicies = policies[0]?.name === undefined ? 'draft-7' : 'draft';
  return {
    policies,
    limits,
    ...field('retryAfterMs', retryAfterMs(read('retry-after'), nowMs)),
    form: form === 'none' && policies.length > 0 ? formOfPolicies : form,
  };
}
