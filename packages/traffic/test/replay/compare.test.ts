import { definePolicy, type WindowAlgorithmName } from 'sluice';
import { describe, expect, test } from 'vitest';
import { adversaryOf } from '../../src/replay/adversary.ts';
import { COMPARED, type CompareResult, Comparison } from '../../src/replay/compare.ts';
import { type BrutePolicy, fits } from './brute-force.ts';
import { entriesOf, type MadeRequest, madeTraffic, randomFrom } from './traffic.ts';

const MINUTE_MS = 60_000;
const START_MS = Date.UTC(2026, 9, 10, 12, 0, 0);

function compared(
  traffic: readonly MadeRequest[],
  limit: number,
  windowMs = MINUTE_MS,
): CompareResult {
  const comparison = new Comparison({ limit, windowMs, keyOf: ({ client }) => client });
  comparison.add(entriesOf(traffic));
  return comparison.result();
}

const of = ({ algorithms }: CompareResult, name: WindowAlgorithmName) =>
  algorithms.find(({ algorithm }) => algorithm === name)!;

describe('a comparison of algorithms', () => {
  test('bursts at a boundary reach twice the limit with fixed-window only', () => {
    const bursts = [59_000, 61_000].flatMap((fromMs) =>
      Array.from({ length: 100 }, () => ({ client: 'a', timeMs: START_MS + fromMs })),
    );
    const result = compared(bursts, 100);
    expect(of(result, 'fixed-window').worst).toEqual({
      count: 200,
      multiple: 2,
      client: 'a',
      atMs: START_MS + 61_000,
    });
    expect(of(result, 'fixed-window')).toMatchObject({ admitted: 200, falseAdmits: 100 });
    expect(of(result, 'sliding-log').worst).toMatchObject({ count: 100, multiple: 1 });
    expect(of(result, 'sliding-log')).toMatchObject({ denied: 100, wrongShare: 0 });
    expect(of(result, 'sliding-buckets').worst!.multiple).toBeLessThanOrEqual(1);
  });

  test('a comparison reports the share of wrong decisions of sliding-counter', () => {
    const random = randomFrom(5);
    // About 90 a minute each: below the limit on average, and above it now and then.
    let timeMs = START_MS;
    const steady = Array.from({ length: 20_000 }, () => {
      timeMs += Math.floor(random() * 50);
      return { client: `c${Math.floor(random() * 27)}`, timeMs };
    });
    const counter = of(compared(steady, 100), 'sliding-counter');
    expect(counter.denied).toBeGreaterThan(0);
    expect(counter.wrongShare).toBe((counter.falseAdmits + counter.falseDenials) / 20_000);
    expect(counter.wrongShare).toBeGreaterThan(0);
    expect(counter.wrongShare).toBeLessThan(0.05);
  });

  test('the compared counts of all five algorithms equal those of brute force', () => {
    const traffic = madeTraffic(11, 4000, 600);
    const limit = 12;
    const result = compared(traffic, limit);
    const runs = COMPARED.map((algorithm) => {
      const policy: BrutePolicy = { name: algorithm, algorithm, limit, windowMs: MINUTE_MS };
      const admissions = new Map<string, number[]>();
      const passed = traffic.map(({ client, timeMs }) => {
        const admitted = admissions.get(client) ?? [];
        admissions.set(client, admitted);
        const isIn = fits(policy, admitted, timeMs);
        if (isIn) admitted.push(timeMs);
        return isIn;
      });
      return { algorithm, passed, admissions };
    });
    const exact = runs[0].passed;
    for (const { algorithm, passed, admissions } of runs) {
      const count = (is: (at: number) => boolean) => passed.filter((_, at) => is(at)).length;
      const fullest = Math.max(
        ...[...admissions.values()].flatMap((times) =>
          times.map((t) => times.filter((other) => other > t - MINUTE_MS && other <= t).length),
        ),
      );
      expect(of(result, algorithm)).toMatchObject({
        admitted: count((at) => passed[at]),
        falseAdmits: count((at) => passed[at] && !exact[at]),
        falseDenials: count((at) => !passed[at] && exact[at]),
        worst: { count: fullest, multiple: fullest / limit },
      });
    }
  });

  test('a comparison counts 43 bytes per key and 36 bytes per four log entries', () => {
    const traffic = [0, 1, 1, 2, 3, 4, 70].map((second) => ({
      ...{ client: 'a', timeMs: START_MS + 1000 * second },
    }));
    const result = compared([...traffic, { client: 'b', timeMs: START_MS + 71_000 }], 100);
    expect(of(result, 'fixed-window').memory).toEqual({ meanBytes: 43, mostBytes: 43 });
    // Five times in a minute, of which one was twice.
    expect(of(result, 'sliding-log').memory.mostBytes).toBe(43 + 2 * 36);
    expect(of(result, 'sliding-log').memory.meanBytes).toBe(43 + 1.5 * 36);
  });
});

describe('an attacker', () => {
  const worst = (algorithm: WindowAlgorithmName, limit = 100, window = '1m') =>
    adversaryOf(definePolicy('x', { limit, window, algorithm }));

  test('an attacker gets twice the limit through fixed-window within a millisecond', () => {
    expect(worst('fixed-window')).toEqual({
      count: 200,
      multiple: 2,
      schedule: [
        { afterMs: 59_999, admitted: 100 },
        { afterMs: 60_000, admitted: 100 },
      ],
    });
  });

  test('an attacker gets more than 1.9 times the limit through sliding-counter', () => {
    for (const limit of [20, 100, 5000]) {
      expect(worst('sliding-counter', limit).multiple).toBeGreaterThanOrEqual(1.9);
    }
    expect(worst('sliding-counter').multiple).toBeGreaterThan(1.9);
  });

  test('an attacker gets up to twice the limit through token-bucket', () => {
    expect(worst('token-bucket').multiple).toBeGreaterThan(1.9);
    expect(worst('token-bucket').multiple).toBeLessThanOrEqual(2);
  });

  test.each(['sliding-log', 'sliding-buckets'] as const)(
    'an attacker gets no more than the limit through %s',
    (name) => {
      for (const [limit, window] of [
        [1, '1s'],
        [100, '1m'],
        [7, '13ms'],
        [100_000, '1d'],
      ] as const) {
        expect(worst(name, limit, window)).toMatchObject({ count: limit, multiple: 1 });
      }
    },
  );
});
