/**
 * `sluice-traffic/format`: formats numbers, durations, times and untrusted text. Imports no Node.js
 * module, so that it also runs in browsers.
 */
import { countText, windowText } from 'sluice/engine';
import { clockText, dateText, MONTHS, utcTimeOf } from './calendar.ts';

export { countText, durationText, windowText } from 'sluice/engine';

const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** Returns a text such as `950`, `1.2K` or `3M`. */
export const shortCount = (value: number): string => SHORT.format(value);

/** Returns a text such as `1 client`, `2,000 clients`, `2 policies` or `2 keys`. */
export function counted(value: number, noun: string): string {
  const plural = /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${countText(value)} ${value === 1 ? noun : plural}`;
}

/**
 * Returns a text such as `12.3%` or `0.34%`. Returns `0%` and `100%` only for exactly these shares:
 * other shares near them are `<0.001%` and `>99.9%`.
 */
export function percentText(part: number, whole = 1): string {
  if (part === 0 || whole === 0) return '0%';
  const percent = (100 * part) / whole;
  if (percent < 0.001) return '<0.001%';
  if (percent < 10) return `${Number(percent.toPrecision(2))}%`;
  return percent < 100 && percent >= 99.95 ? '>99.9%' : `${Number(percent.toFixed(1))}%`;
}

/** Returns events per second, such as `0`, `<0.1`, `4.0`, `12` or `1.2K`. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return '0';
  if (perSecond < 0.1) return '<0.1';
  return perSecond < 9.95 ? perSecond.toFixed(1) : shortCount(Math.round(perSecond));
}

/** Returns a text such as `2×` or `1.96×`. */
export const multipleText = (multiple: number): string => `${Number(multiple.toFixed(2))}×`;

/** Returns a text such as `100 in 1 min`. */
export const limitText = ({ limit, windowMs }: { limit: number; windowMs: number }): string =>
  `${countText(limit)} in ${windowText(windowMs)}`;

/** Returns a time such as `2026-10-10 13:55:36`, in UTC. */
export const dateTimeText = (timeMs: number): string => `${dateText(timeMs)} ${clockText(timeMs)}`;

/**
 * Returns a time such as `2026-10-10 13:55:36.250`, in UTC. Omits the milliseconds if they are 0.
 */
export function exactTimeText(timeMs: number): string {
  const ms = Math.floor(timeMs) % 1000;
  return ms === 0 ? dateTimeText(timeMs) : `${dateTimeText(timeMs)}.${String(ms).padStart(3, '0')}`;
}

/** Like `exactTimeText`, but without the date if `otherMs` is on the same day. */
export function timeTextBeside(timeMs: number, otherMs: number): string {
  const text = exactTimeText(timeMs);
  const date = `${dateText(otherMs)} `;
  return text.startsWith(date) ? text.slice(date.length) : text;
}

/** Control, formatting and other invisible characters, such as marks that reverse text. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Splits untrusted text, such as a key, into visible parts and escapes such as `\u{202e}`. */
export function visibleParts(
  text: string,
): readonly { readonly text: string; readonly isEscape: boolean }[] {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(INVISIBLE)) {
    if (index > end) parts.push({ text: text.slice(end, index), isEscape: false });
    parts.push({ text: `\\u{${found.codePointAt(0)!.toString(16)}}`, isEscape: true });
    end = index + found.length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), isEscape: false });
  return parts;
}

/** Escapes invisible characters: `a\u{202e}b`. For untrusted text such as keys. */
export const visible = (text: string): string =>
  visibleParts(text)
    .map((part) => part.text)
    .join('');

const DAY_MS = 86_400_000;

/**
 * Returns the label of a time on an axis of length `axisMs`: `13:55:36.250` up to 1 s, `13:55:36.2`
 * up to 10 s, `13:55:36` up to a day, `10 Oct 13:55` up to four days, otherwise `10 Oct`.
 */
export function axisTimeText(timeMs: number, axisMs: number): string {
  const { day, month, ms } = utcTimeOf(timeMs);
  const clock = clockText(timeMs);
  if (axisMs <= 1000) return `${clock}.${String(ms).padStart(3, '0')}`;
  if (axisMs <= 10_000) return `${clock}.${Math.floor(ms / 100)}`;
  if (axisMs <= DAY_MS) return clock;
  const date = `${day} ${MONTHS[month - 1]}`;
  return axisMs <= 4 * DAY_MS ? `${date} ${clock.slice(0, 5)}` : date;
}
