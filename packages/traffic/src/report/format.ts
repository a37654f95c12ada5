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

/** `2026-10-10 13:55:36.250`, with ms only where there are any. */
export function whenExactly(timeMs: number): string {
  const ms = Math.floor(timeMs) % 1000;
  return ms === 0 ? when(timeMs) : `${when(timeMs)}.${String(ms).padStart(3, '0')}`;
}

/** The same without the date, where that is the date of another time beside it. */
export function near(timeMs: number, otherMs: number): string {
  const text = whenExactly(timeMs);
  const date = `${dateText(otherMs)} `;
  return text.startsWith(date) ? text.slice(date.length) : text;
}

/** A time to wait, rounded up, in at most two units: `250 ms`, `12.3 s`, `2 h 5 min`. */
export function wait(ms: number): string {
  if (ms < 1000) return `${count(ms)} ms`;
  if (ms <= 100_000) return `${Math.ceil(ms / 100) / 10} s`;
  const at = UNITS.findIndex(([, unitMs]) => ms >= unitMs);
  const [[unit, unitMs], [lesser, lesserMs]] = UNITS.slice(at);
  const all = Math.ceil(ms / lesserMs);
  const rest = all % (unitMs / lesserMs);
  const whole = `${count(Math.floor((all * lesserMs) / unitMs))} ${unit}`;
  return rest === 0 ? whole : `${whole} ${rest} ${lesser}`;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DAY_MS = 86_400_000;

/** Below these, seconds, or tenths of them, do not tell the places of a line apart. */
const FINE_MS = 10_000;
const FINEST_MS = 1000;

/**
 * A place on a line of time, as short as the line allows: `36.250`, `55:36.2`, `13:55:36`, `13:55`,
 * `10 Oct 13:55`.
 */
export function mark(timeMs: number, lineMs: number): string {
  const { day, month, ms } = civilOf(timeMs);
  const clock = clockText(timeMs);
  if (lineMs <= FINEST_MS) return `${clock.slice(6)}.${String(ms).padStart(3, '0')}`;
  if (lineMs <= FINE_MS) return `${clock.slice(3)}.${Math.floor(ms / 100)}`;
  if (lineMs <= 5 * 60_000) return clock;
  if (lineMs <= DAY_MS) return clock.slice(0, 5);
  const date = `${day} ${MONTHS[month - 1]}`;
  return lineMs <= 4 * DAY_MS ? `${date} ${clock.slice(0, 5)}` : date;
}

/** `2x`, `1.96x` */
export const times = (multiple: number): string => `${Number(multiple.toFixed(2))}×`;

export const limitText = ({ limit, windowMs }: { limit: number; windowMs: number }): string =>
  `${count(limit)} in ${span(windowMs)}`;
