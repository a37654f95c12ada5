/** Durations as text: a whole number and a unit, such as `250ms`, `10s` or `5min`. */

const UNITS = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };
export const MAX_WINDOW_MS = 36_500 * UNITS.d;

/** Matches a duration. A unit without a number means 1: `min` is `1m`. */
export const DURATION = /^(\d{1,15})?(ms|[smhdw]|sec(ond)?|min(ute)?|hour|day|week)$/;

/** Returns the milliseconds of a duration; NaN for any other text. */
export function durationMs(text: string): number {
  const [, amount = '1', unit = ''] = DURATION.exec(text) ?? [];
  return Number(amount) * UNITS[(unit === 'ms' ? unit : unit[0]) as keyof typeof UNITS];
}

/** Returns a duration in its largest whole unit up to days: 90,000 is `90s`. */
export function durationCode(ms: number): string {
  const unit = (['d', 'h', 'm', 's'] as const).find((each) => ms % UNITS[each] === 0) ?? 'ms';
  return ms / UNITS[unit] + unit;
}
