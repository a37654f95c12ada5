/** Parsers of option values. */
import { InvalidArgumentError } from 'commander';
import { definePolicy, SluiceError } from 'sluice';
import { durationMs, MAX_WINDOW_MS } from 'sluice/engine';
import { readTime } from 'sluice-traffic';
import { Failure, visible } from './output.ts';

export const integerValue =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `${least} to ${most}`;
    throw new InvalidArgumentError(`Expected an integer ${range}.`);
  };

/**
 * Parses a duration such as `250ms`, `10s`, `5min`, `1h`, `1d` or `2week`. Returns milliseconds.
 */
export function durationValue(text: string): number {
  const ms = durationMs(text);
  if (ms >= 1 && ms <= MAX_WINDOW_MS) return ms;
  throw new InvalidArgumentError('Expected a duration such as 500ms, 10s or 5m.');
}

/** Parses a time such as `2026-01-31T12:00:00Z`. Returns milliseconds since the epoch. */
export function timeValue(text: string): number {
  const timeMs = readTime(text);
  if (timeMs !== undefined) return timeMs;
  throw new InvalidArgumentError('Expected a time such as 2026-01-31T12:00:00Z.');
}

/** Parses a limit such as `100/1m`. The error message starts with `Expected` and `name`. */
export function limitValue(
  text: string,
  name = '--limit to be a limit',
): { readonly limit: number; readonly windowMs: number } {
  try {
    return definePolicy('limit', text).params!;
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw new Failure(`Expected ${name} such as 100/1m, got \`${visible(text)}\``);
  }
}
