/** Counts and durations as text, for descriptions, reports and the dashboard. */

const UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
];

/** Returns a count with thousands separators: `1,234,567`. */
export const countText = (count: number): string => count.toLocaleString('en');

/**
 * Returns a duration in at most two units: `0.6 ms`, `250 ms`, `12.3 s`, `2 h 5 min`. Durations of
 * 10 ms and more are rounded up.
 */
export function durationText(ms: number): string {
  if (ms < 1000) return `${ms < 10 ? Number(ms.toPrecision(2)) : Math.ceil(ms)} ms`;
  if (ms <= 100_000) return `${Math.ceil(ms / 100) / 10} s`;
  const at = UNITS.findIndex(([, unitMs]) => ms >= unitMs);
  const [[unit, unitMs], [smallerUnit, smallerMs]] = UNITS.slice(at);
  const total = Math.ceil(ms / smallerMs);
  const rest = total % (unitMs / smallerMs);
  const whole = `${countText(Math.floor((total * smallerMs) / unitMs))} ${unit}`;
  return rest === 0 ? whole : `${whole} ${rest} ${smallerUnit}`;
}

/** Returns the length of a window in its largest whole unit: `1 min`, `36 h`, `1,500 ms`. */
export function windowText(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, each]) => ms % each === 0) ?? ['ms', 1];
  return `${countText(ms / unitMs)} ${unit}`;
}
