/**
 * Parses the times of log lines. The functions return ms, or undefined if the text is no valid
 * time.
 */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const isLeap = (year: number): boolean => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);

/** Returns the days since the epoch of a date in the Gregorian calendar. */
function daysOf(year: number, month: number, day: number): number {
  // Count days and years from 1 March of the year 0, so that a leap day is the last day of its
  // year. An era is 400 years, after which the calendar repeats.
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const leaps = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  return era * 146_097 + yearOfEra * 365 + leaps + dayOfYear - 719_468;
}

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/**
 * Parses exactly `count` digits. For other text, returns NaN, for which all comparisons of the
 * callers are false.
 */
function digits(text: string, start: number, count: number): number {
  let value = 0;
  for (let at = start; at < start + count; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (!(digit >= 0 && digit <= 9)) return Number.NaN;
    value = 10 * value + digit;
  }
  return value;
}

function dateMs(year: number, month: number, day: number): number | undefined {
  if (!(year >= 0 && month >= 1 && month <= 12 && day >= 1)) return undefined;
  if (day > MONTH_DAYS[month - 1] || (month === 2 && day === 29 && !isLeap(year))) return undefined;
  return daysOf(year, month, day) * DAY_MS;
}

/**
 * Parses a time such as `13:55:36.123456+02:00` from index `start`. Returns ms since midnight UTC.
 */
function clockMs(text: string, start: number): number | undefined {
  const hour = digits(text, start, 2);
  const minute = digits(text, start + 3, 2);
  let second = 0;
  let fraction = 0;
  let at = start + 5;
  if (text[start + 2] !== ':' || !(hour <= 23 && minute <= 59)) return undefined;
  if (text[at] === ':') {
    second = digits(text, at + 1, 2);
    // Second 60 is a leap second; it becomes the first second of the next minute.
    if (!(second <= 60)) return undefined;
    at += 3;
    if (text[at] === '.' || text[at] === ',') {
      const from = at + 1;
      for (at = from; text.charCodeAt(at) >= 48 && text.charCodeAt(at) <= 57; at++);
      if (at === from) return undefined;
      fraction = digits(text.slice(from, Math.min(at, from + 3)).padEnd(3, '0'), 0, 3);
    }
  }
  const offset = zoneMs(text, at);
  return offset === undefined
    ? undefined
    : ((hour * 60 + minute) * 60 + second) * 1000 + fraction - offset;
}

/**
 * Parses a time zone: `Z`, `UTC`, `+0200`, `+02:00` or `+02`, optionally after a space. Returns its
 * offset from UTC. A text without a zone is in UTC.
 */
function zoneMs(text: string, start: number): number | undefined {
  if (start === text.length) return 0;
  const rest = text.slice(text[start] === ' ' ? start + 1 : start);
  if (rest === 'Z' || rest === 'UTC') return 0;
  const sign = rest[0] === '+' ? 1 : rest[0] === '-' ? -1 : 0;
  const hours = digits(rest, 1, 2);
  const from = rest[3] === ':' ? 4 : 3;
  const minutes = rest.length === 3 ? 0 : digits(rest, from, 2);
  if (sign === 0 || !(hours <= 23 && minutes <= 59)) return undefined;
  if (rest.length !== 3 && rest.length !== from + 2) return undefined;
  return sign * (hours * 60 + minutes) * MINUTE_MS;
}

const sum = (date: number | undefined, clock: number | undefined): number | undefined =>
  date === undefined || clock === undefined ? undefined : date + clock;

/** Parses a time such as `10/Oct/2026:13:55:36 +0200`, the format of nginx and Apache. */
function readClfTime(text: string): number | undefined {
  if (text[2] !== '/' || text[6] !== '/' || text[11] !== ':') return undefined;
  const month = MONTHS.indexOf(text.slice(3, 6)) + 1;
  return sum(dateMs(digits(text, 7, 4), month, digits(text, 0, 2)), clockMs(text, 12));
}

/**
 * Parses a time such as `2026-10-10T13:55:36.123456Z`, also with a space instead of `T`, or with
 * slashes instead of dashes.
 */
function readIsoTime(text: string): number | undefined {
  const [between, middle] = [text[4], text[10]];
  if ((between !== '-' && between !== '/') || text[7] !== between) return undefined;
  if (middle !== 'T' && middle !== ' ') return undefined;
  const date = dateMs(digits(text, 0, 4), digits(text, 5, 2), digits(text, 8, 2));
  return sum(date, clockMs(text, 11));
}

/** The latest time that a JavaScript `Date` can hold. */
const LAST_MS = 8.64e15;

/**
 * Converts seconds, ms, us or ns since the epoch to ms. The size of the number determines the unit,
 * which is unambiguous for times after 1973. Adds half a microsecond before rounding down, because
 * the product may be slightly too small.
 */
export function readEpoch(value: number): number | undefined {
  if (!(value > 0)) return undefined;
  const scale = value < 1e11 ? 1e3 : value < 1e14 ? 1 : value < 1e17 ? 1e-3 : 1e-6;
  const timeMs = Math.floor(value * scale + 0.0005);
  return timeMs <= LAST_MS ? timeMs : undefined;
}

const EPOCH = /^\d{1,19}(?:\.\d{1,9})?$/;

/** Cache of the last parsed time: adjacent lines mostly have the same time. */
let lastText = '';
let lastMs: number | undefined;

export function readTime(text: string): number | undefined {
  if (text !== lastText) {
    lastMs = readClfTime(text) ?? readIsoTime(text);
    if (lastMs === undefined && EPOCH.test(text)) lastMs = readEpoch(Number(text));
    lastText = text;
  }
  return lastMs;
}
