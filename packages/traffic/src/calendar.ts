/** Formats ms since the epoch as dates and times in UTC. */

export const MONTHS = [
  ...['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun'],
  ...['Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
];
const DAY_MS = 86_400_000;

export interface UtcTime {
  readonly year: number;
  /** From 1 to 12. */
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly ms: number;
}

export function utcTimeOf(timeMs: number): UtcTime {
  const days = Math.floor(timeMs / DAY_MS);
  const rest = timeMs - days * DAY_MS;
  // Count days and years from 1 March of the year 0, so that a leap day is the last day of its
  // year. An era is 400 years, after which the calendar repeats.
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const ofEra = shifted - era * 146_097;
  const leaps = Math.floor(ofEra / 1460) - Math.floor(ofEra / 36_524);
  const yearOfEra = Math.floor((ofEra - leaps - Math.floor(ofEra / 146_096)) / 365);
  const fullLeaps = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  const dayOfYear = ofEra - (365 * yearOfEra + fullLeaps);
  const fromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: dayOfYear - Math.floor((153 * fromMarch + 2) / 5) + 1,
    hour: Math.floor(rest / 3_600_000),
    minute: Math.floor(rest / 60_000) % 60,
    second: Math.floor(rest / 1000) % 60,
    ms: Math.floor(rest) % 1000,
  };
}

const digits = (value: number, count = 2): string => String(value).padStart(count, '0');

/** Returns a date such as `2026-10-10`. */
export function dateText(timeMs: number): string {
  const { year, month, day } = utcTimeOf(timeMs);
  return `${digits(year, 4)}-${digits(month)}-${digits(day)}`;
}

/** Returns a time such as `13:55:36`. */
export function clockText(timeMs: number): string {
  const { hour, minute, second } = utcTimeOf(timeMs);
  return `${digits(hour)}:${digits(minute)}:${digits(second)}`;
}

/** Returns a time such as `2026-10-10T13:55:36.123Z`. */
export const isoText = (timeMs: number): string =>
  `${dateText(timeMs)}T${clockText(timeMs)}.${digits(utcTimeOf(timeMs).ms, 3)}Z`;

/** Returns a time such as `10/Oct/2026:13:55:36 +0000`, the format of nginx and Apache. */
export function clfText(timeMs: number): string {
  const { year, month, day } = utcTimeOf(timeMs);
  return `${digits(day)}/${MONTHS[month - 1]}/${digits(year, 4)}:${clockText(timeMs)} +0000`;
}
