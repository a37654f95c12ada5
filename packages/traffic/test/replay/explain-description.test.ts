/** The description of an explanation agrees with the decision of the engine. */
import { describe, expect, test } from 'vitest';
import { COMPARED, describeExplanation, type Explanation } from '../../src/index.ts';
import { explainResult, liveResult } from '../report/results.ts';

const NOON_MS = Date.UTC(2026, 9, 10, 12);

/** Parses `29 + 1 = 30 <= 30`. */
function parse(sum: string): { left: number; relation: string; right: number } {
  const [, left, relation, right] = /([\d.]+) (<=|>=|<|>) (\d+)$/.exec(sum)!;
  return { left: Number(left), relation, right: Number(right) };
}

const HOLDS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '<': (a, b) => a < b,
};

describe.each(COMPARED)('the description of %s', (algorithm) => {
  test(`the description of ${algorithm} has a true comparison that fits the decision`, () => {
    const decisions = new Set<boolean>();
    for (let step = 0; step < 400; step++) {
      const atMs = NOON_MS + 20_000 + step * 301;
      const explained = explainResult(algorithm, { everyMs: 701, calls: 300, atMs });
      const { sumText: sum, freesText } = describeExplanation(explained);
      const { left, relation, right } = parse(sum);
      expect(HOLDS[relation](left, right), sum).toBe(true);
      expect(relation === '<=' || relation === '>=', sum).toBe(explained.allowed);
      if (!explained.allowed) expect(freesText).not.toBe('');
      decisions.add(explained.allowed);
    }
    expect(decisions).toEqual(new Set([true, false]));
  });

  test(`the description of ${algorithm} is the same for a service and a log`, () => {
    const explained = liveResult(algorithm);
    const actual = { ...explained, inLog: true };
    expect(describeExplanation(explained)).toEqual(describeExplanation(actual));
  });
});

describe('rounding in a description of a denial', () => {
  const base: Explanation = { ...liveResult('sliding-counter'), atMs: NOON_MS + 59_999 };
  const horizonMs = NOON_MS + 120_000;

  test('rounding never shows a denied sliding-counter sum as within the limit', () => {
    const cells = [horizonMs, 29, 1];
    const explained = { ...base, cells, limit: 30, cost: 1, allowed: false };
    expect(describeExplanation(explained).sumText).toBe('1 x 1 / 60000 + 29 + 1 = 30.001 > 30');
  });

  test('rounding never shows a denied token-bucket level as sufficient', () => {
    const cells = [horizonMs, 59_999, base.atMs];
    const explained = { ...base, algorithm: 'token-bucket' as const, cells, allowed: false };
    expect(describeExplanation(explained)).toMatchObject({
      sumText: '0.999 < 1',
      freesText: '0.001 missing tokens refill in 1 ms',
    });
  });
});
