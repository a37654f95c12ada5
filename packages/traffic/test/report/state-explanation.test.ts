/** The words of an explanation are what the engine has decided, whatever the numbers. */
import { describe, expect, test } from 'vitest';
import { COMPARED, type Explanation, explainState } from '../../src/index.ts';
import { explainResult, liveResult } from './results.ts';

const NOON_MS = Date.UTC(2026, 9, 10, 12);

/** What a sum says: the left side, how they compare, the right side. */
function read(sum: string): { left: number; relation: string; right: number } {
  const [, left, relation, right] = /([\d.]+) (<=|>=|<|>) (\d+)$/.exec(sum)!;
  return { left: Number(left), relation, right: Number(right) };
}

const HOLDS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '<': (a, b) => a < b,
};

describe.each(COMPARED)('%s', (algorithm) => {
  test('has a sum that is true, and says the answer, at any time', () => {
    const answers = new Set<boolean>();
    for (let step = 0; step < 400; step++) {
      const atMs = NOON_MS + 20_000 + step * 301;
      const explained = explainResult(algorithm, { everyMs: 701, calls: 300, atMs });
      const { sum, frees } = explainState(explained);
      const { left, relation, right } = read(sum);
      expect(HOLDS[relation](left, right), sum).toBe(true);
      expect(relation === '<=' || relation === '>=', sum).toBe(explained.allowed);
      if (!explained.allowed) expect(frees).not.toBe('');
      answers.add(explained.allowed);
    }
    expect(answers).toEqual(new Set([true, false]));
  });

  test('does the same for a key of a service', () => {
    const explained = liveResult(algorithm);
    expect(explainState(explained)).toEqual(explainState({ ...explained, wasAsked: true }));
  });
});

describe('what is a little too much never looks like enough', () => {
  const base: Explanation = { ...liveResult('sliding-counter'), atMs: NOON_MS + 59_999 };
  const horizonMs = NOON_MS + 120_000;

  test('of a counter', () => {
    const cells = [horizonMs, 29, 1];
    const { sum } = explainState({ ...base, cells, limit: 30, cost: 1, allowed: false });
    expect(sum).toBe('1 x 1 / 60000 + 29 + 1 = 30.001 > 30');
  });

  test('of a token bucket', () => {
    const cells = [horizonMs, 59_999, base.atMs];
    const explained = { ...base, algorithm: 'token-bucket' as const, cells, allowed: false };
    expect(explainState(explained)).toMatchObject({
      sum: '0.999 < 1',
      frees: '0.001 tokens have to come back',
    });
  });
});
