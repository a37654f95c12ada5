/** Times as logs write them, to ms since the epoch; undefined for what is none. */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Days since the epoch of a date in the calendar that everybody uses. */
function daysOf(year: number, month: number, day: number): number {
  // Years begin in March here, so that a leap day is a year's last day.
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const leaps = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  return era * 146_097 + yearOfEra * 365 + leaps + dayOfYear - 719_468;
}

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

const CLF =
  /^(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))? ([+-])(\d{2})(\d{2})$/;

/** The last time that was read, because neighbouring lines mostly have the same. */
let lastText = '';
let lastMs: number | undefined;

/** `10/Oct/2026:13:55:36 +0200`, as nginx and Apache write it. */
export function readClfTime(text: string): number | undefined {
  if (text !== lastText) {
    lastText = text;
    lastMs = clfTime(text);
  }
  return lastMs;
}

function clfTime(text: string): number | undefined {
  const parts = CLF.exec(text);
  if (parts === null) return undefined;
  const month = MONTHS.indexOf(parts[2]) + 1;
  const [day, year, hour, minute, second] = [1, 3, 4, 5, 6].map((place) => Number(parts[place]));
  if (month === 0 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) {
    return undefined;
  }
  const fraction = parts[7] === undefined ? 0 : Math.floor(Number(`0.${parts[7]}`) * 1000);
  const offset = (Number(parts[9]) * 60 + Number(parts[10])) * MINUTE_MS;
  const local =
    daysOf(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + fraction;
  return local + (parts[8] === '+' ? -offset : offset);
}

const ISO = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?$/;

/** `2026-10-10T13:55:36.123456Z`; without a zone it is taken as UTC. */
export function readIsoTime(text: string): number | undefined {
  if (!ISO.test(text)) return undefined;
  const zoned = /(?:Z|[+-]\d{2}:?\d{2})$/.test(text) ? text : `${text}Z`;
  const timeMs = Date.parse(
    zoned
      .replace(' ', 'T')
      .replace(',', '.')
      .replace(/([+-]\d{2})(\d{2})$/, '$1:$2'),
  );
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

/** Since the epoch in seconds, ms, us or ns, told apart by size: all of them lie after 1973. */
export function readEpoch(value: number): number | undefined {
  if (!Number.isFinite(value) || value <= 0) return undefined;
  if (value < 1e11) return Math.floor(value * 1000);
  if (value < 1e14) return Math.floor(value);
  return Math.floor(value < 1e17 ? value / 1e3 : value / 1e6);
}

/** Whichever of these it is. */
export function readTime(value: unknown): number | undefined {
  if (typeof value === 'number') return readEpoch(value);
  if (typeof value !== 'string' || value === '') return undefined;
  if (/^\d+(?:\.\d+)?$/.test(value)) return readEpoch(Number(value));
  return readIsoTime(value) ?? readClfTime(value.replace(/^\[|\]$/g, ''));
}
