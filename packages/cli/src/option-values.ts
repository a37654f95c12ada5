/** Parsers of option values. */
import { InvalidArgumentError } from 'commander';

export const integerValue =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `${least} to ${most}`;
    throw new InvalidArgumentError(`Expected an integer ${range}.`);
  };

const UNIT_MS: Readonly<Record<string, number>> = {
  ...{ ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 },
};

/** Parses `250ms`, `10s`, `1m`, `1h`, `1d` or `2w` to milliseconds. */
export function durationValue(text: string): number {
  const [, amount, unit] = /^(\d{1,9})(ms|s|m|h|d|w)$/.exec(text) ?? [];
  const ms = Number(amount) * UNIT_MS[unit];
  if (ms >= 1) return ms;
  throw new InvalidArgumentError('Expected a duration such as 500ms, 10s or 5m.');
}
