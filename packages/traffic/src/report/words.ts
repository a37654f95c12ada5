/** Numbers, parts, times and windows, as a page tells them. */
import { civilOf, clockText, dateText } from '../calendar.ts';

const WHOLE = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** `1,234,567` */
export const count = (value: number): string => WHOLE.format(value);

/** `1.2M`, where there is little room. */
export const shortCount = (value: number): string => SHORT.format(value);

/** `1 client`, `2 clients` */
export const counted = (value: number, word: string): string =>
  `${count(value)} ${word}${value === 1 ? '' : 's'}`;

/** `12.3%`, `0.34%`, `<0.001%`: digits that mean something. */
export function percent(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0%';
  const value = (100 * part) / whole;
  if (value < 0.001) return '<0.001%';
  return `${value >= 10 ? Number(value.toFixed(1)) : Number(value.toPrecision(2))}%`;
}

const UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
];

/** `1 min`, `36 h`, `1,500 ms` */
export function span(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, each]) => ms % each === 0) ?? ['ms', 1];
  return `${count(ms / unitMs)} ${unit}`;
}

/** `2026-10-10 13:55:36` */
export const when = (timeMs: number): string => `${dateText(timeMs)} ${clockText(timeMs)}`;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DAY_MS = 86_400_000;

/** A place on a line of time, as short as the line allows: `13:55:36`, `13:55`, `10 Oct 13:55`. */
export function mark(timeMs: number, lineMs: number): string {
  const { day, month } = civilOf(timeMs);
  const clock = clockText(timeMs);
  if (lineMs <= 5 * 60_000) return clock;
  if (lineMs <= DAY_MS) return clock.slice(0, 5);
  const date = `${day} ${MONTHS[month - 1]}`;
  return lineMs <= 4 * DAY_MS ? `${date} ${clock.slice(0, 5)}` : date;
}

/** `2x`, `1.96x` */
export const times = (multiple: number): string => `${Number(multiple.toFixed(2))}×`;

export const limitText = ({ limit, windowMs }: { limit: number; windowMs: number }): string =>
  `${count(limit)} in ${span(windowMs)}`;
