/** Parsers of option values. */
import { InvalidArgumentError } from 'commander';
import { durationMs, MAX_WINDOW_MS } from 'sluice/engine';

export const integerValue =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `${least} to ${most}`;
    throw new InvalidArgumentError(`Expected an integer ${range}.`);
  };

/** Parses `250ms`, `10s`, `5min`, `1h`, `1d` or `2week` to milliseconds. */
export function durationValue(text: string): number {
  const ms = durationMs(text);
  if (ms >= 1 && ms <= MAX_WINDOW_MS) return ms;
  throw new InvalidArgumentError('Expected a duration such as 500ms, 10s or 5m.');
}
