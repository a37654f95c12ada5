/** Formats numbers and times. */
import { localTime } from '../clock.ts';

const whole = new Intl.NumberFormat('en-US');

/** `12,345` */
export const countText = (count: number): string => whole.format(count);

/** `1 client`, `2 clients` */
export const counted = (count: number, what: string): string =>
  `${countText(count)} ${what}${count === 1 ? '' : 's'}`;

/** For axes: `950`, `1.2k`, `3M`. */
export function shortCount(count: number): string {
  if (count < 1000) return String(Math.round(count * 10) / 10);
  const [value, unit] = count < 1e6 ? [count / 1000, 'k'] : [count / 1e6, 'M'];
  return `${value.toFixed(value < 10 ? 1 : 0).replace(/\.0$/, '')}${unit}`;
}

/** `42 %`; `0 %` and `100 %` only for exactly none and all. */
export function percentText(share: number): string {
  if (share > 0 && share < 0.01) return '< 1 %';
  if (share < 1 && share > 0.99) return '> 99 %';
  return `${Math.round(share * 100)} %`;
}

/** A rate per second: `0`, `0.4`, `4.0`, `12`, `1.2k`. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return '0';
  if (perSecond < 0.1) return '< 0.1';
  return perSecond < 9.95 ? perSecond.toFixed(1) : shortCount(Math.round(perSecond));
}

const UNITS: readonly [number, string][] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
];

/** `3.2 s`, `12 ms`, `1 h 5 min`: short waits to a tenth, long ones in two units. */
export function durationText(timeMs: number): string {
  if (timeMs < 1000) return `${timeMs < 10 ? Number(timeMs.toPrecision(2)) : Math.ceil(timeMs)} ms`;
  if (timeMs < 60_000) return `${(Math.ceil(timeMs / 100) / 10).toFixed(1)} s`;
  const at = UNITS.findIndex(([size]) => timeMs >= size);
  const [size, unit] = UNITS[at];
  const [smallSize, smallUnit] = UNITS[at + 1];
  const big = Math.floor(timeMs / size);
  const small = Math.floor((timeMs - big * size) / smallSize);
  return small === 0 ? `${big} ${unit}` : `${big} ${unit} ${small} ${smallUnit}`;
}

/** A window in its largest whole unit: `1 min`, `90 s`, `1 d`. */
export function windowText(windowMs: number): string {
  const found = UNITS.find(([size]) => windowMs % size === 0);
  return found === undefined ? `${windowMs} ms` : `${windowMs / found[0]} ${found[1]}`;
}

/** `13:05:59` in the browser's time zone. */
export const clockText = (timeMs: number): string => localTime(timeMs).slice(11);

/** `2026-10-10 13:05` in the browser's time zone. */
export const dateText = (timeMs: number): string => localTime(timeMs).slice(0, 16);
