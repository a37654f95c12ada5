import { readFileSync } from 'node:fs';
import { windowAlgorithmNames } from 'sluice/engine';
import { parseVectors } from 'sluice/testing';
import { Comparison } from 'sluice-traffic';
import { describe, expect, test } from 'vitest';
import { parseLabQuery } from '../../src/lab/lab-query.ts';
import { type LabResult, type Lane, runLab } from '../../src/lab/run.ts';
import { DEFAULTS, type LabSettings, MAX_CALLS } from '../../src/lab/settings.ts';
import { buildTraffic, callsPerSlot } from '../../src/lab/traffic.ts';

const run = (changes: Partial<LabSettings> = {}): LabResult => {
  const settings = { ...DEFAULTS, ...changes };
  return runLab(settings, buildTraffic(settings));
};

const laneOf = ({ lanes }: LabResult, algorithm: string): Lane =>
  lanes.find((lane) => lane.algorithm === algorithm)!;

describe('the default settings', () => {
  const result = run();

  test('the default traffic is 50 calls right before a boundary and 50 right after', () => {
    const boundaryMs = DEFAULTS.startMs + DEFAULTS.windowMs;
    const { calls } = result.traffic;
    expect(calls).toHaveLength(100);
    expect(calls.filter(({ atMs }) => atMs < boundaryMs)).toHaveLength(50);
    for (const { atMs } of calls) {
      expect(Math.abs(atMs - boundaryMs)).toBeLessThanOrEqual(DEFAULTS.windowMs / 60);
    }
  });

  test('of the default traffic, a fixed window admits twice the limit, a sliding log once', () => {
    const fixed = laneOf(result, 'fixed-window');
    expect([fixed.admitted, fixed.denied, fixed.fullest]).toMatchObject([
      ...[100, 0],
      { count: 100, multiple: 2 },
    ]);
    const log = laneOf(result, 'sliding-log');
    expect([log.admitted, log.denied, log.fullest]).toMatchObject([
      ...[50, 50],
      { count: 50, multiple: 1 },
    ]);
    expect(log.firstDenial).toBe(50);
    expect([fixed.falseAdmits, fixed.falseDenials]).toEqual([50, 0]);
    expect([log.falseAdmits, log.falseDenials]).toEqual([0, 0]);
  });
});

describe('a lab run', () => {
  const file = new URL('../../../sluice/test/vectors/decisions.json', import.meta.url);
  const plain = parseVectors(readFileSync(file, 'utf8')).cases.filter(
    ({ policies, steps }) => policies.length === 1 && steps.every(({ op }) => op === 'check'),
  );

  test.each(plain)(
    'a lab run makes the decisions of the vector $name',
    ({ policies: [policy], steps }) => {
      if ('leaseMs' in policy) throw new TypeError('Expected a policy with a window');
      const times = steps.map(({ at, cost }, step) => {
        const sinceMs = step === 0 ? 0 : at - steps[step - 1].at;
        return `${sinceMs}.${cost}`;
      });
      const { settings, notices } = parseLabQuery({
        ...{ traffic: 'typed', start: String(steps[0].at), times: times.join('_') },
        ...{ limit: String(policy.limit), window: `${policy.windowMs}ms` },
      });
      expect(notices).toEqual([]);
      const { decisions } = laneOf(run(settings), policy.algorithm!);
      const expected = steps.map(({ expect: result }) => {
        const { allowed, remaining, retryAfterMs } = result!;
        return { allowed, remaining, retryAfterMs };
      });
      expect(decisions).toEqual(expected);
    },
  );

  test.each(['steady', 'bursts', 'flash-crowd', 'abuser', 'adversary'] as const)(
    'a lab run of %s traffic has the numbers of `sluice compare`',
    (traffic) => {
      const changes = { traffic, calls: 600, windows: 5, limit: 20, seed: 7 } as const;
      const result = run(changes);
      const comparison = new Comparison({
        ...{ limit: 20, windowMs: DEFAULTS.windowMs },
        keyOf: ({ client }) => client,
      });
      const entries = result.traffic.calls.map(({ atMs, key }) => ({ timeMs: atMs, client: key }));
      comparison.add(entries as never);
      for (const report of comparison.result().algorithms) {
        const lane = laneOf(result, report.algorithm);
        const { admitted, denied, falseAdmits, falseDenials } = report;
        expect(lane).toMatchObject({ admitted, denied, falseAdmits, falseDenials });
        expect(lane.fullest?.count).toBe(report.worst?.count);
      }
    },
  );

  test('the sampled usage of a lab run stays within capacity and matches the decisions', () => {
    const { lanes, traffic } = run({ traffic: 'steady', windows: 3 });
    for (const { used, capacity, decisions } of lanes) {
      const times = used.map(({ atMs }) => atMs);
      expect(times).toEqual([...times].sort((a, b) => a - b));
      expect([times[0], times.at(-1)]).toEqual([traffic.startMs, traffic.endMs]);
      expect(Math.max(...used.map(({ cost }) => cost))).toBeLessThanOrEqual(capacity);
      const last = traffic.calls.length - 1;
      const after = used.findLast(({ atMs }) => atMs === traffic.calls[last].atMs)!;
      expect(after.cost).toBe(capacity - decisions[last].remaining);
    }
  });

  test('a lab run denies a cost above the capacity with an infinite wait', () => {
    const typed = [{ atMs: DEFAULTS.startMs, cost: 51 }];
    const { lanes } = run({ traffic: 'typed', typed, burst: 60 });
    const first = Object.fromEntries(lanes.map((lane) => [lane.algorithm, lane.decisions[0]]));
    expect(first['sliding-log']).toEqual({
      ...{ allowed: false, remaining: 50, retryAfterMs: Number.POSITIVE_INFINITY },
    });
    expect(first['token-bucket']).toEqual({ allowed: true, remaining: 9, retryAfterMs: 0 });
  });

  test('a lab run without calls has no decisions', () => {
    for (const { decisions, fullest, admitted } of run({ traffic: 'typed' }).lanes) {
      expect([decisions, fullest, admitted]).toEqual([[], undefined, 0]);
    }
  });

  test('a lab run compares with the exact log even if sliding-log is not selected', () => {
    const { lanes } = run({ algorithms: ['fixed-window'] });
    expect(lanes.map(({ algorithm, falseAdmits }) => [algorithm, falseAdmits])).toEqual([
      ['fixed-window', 50],
    ]);
    expect(run({ algorithms: [] }).lanes).toEqual([]);
  });
});

describe('lab traffic', () => {
  test('lab traffic is equal for equal seeds and differs for other seeds', () => {
    const timesOf = (seed: number) => buildTraffic({ ...DEFAULTS, traffic: 'steady', seed }).calls;
    expect(timesOf(3)).toEqual(timesOf(3));
    expect(timesOf(3)).not.toEqual(timesOf(4));
  });

  test('lab traffic of every shape is in order and within the time range', () => {
    for (const traffic of ['boundary', 'steady', 'bursts', 'flash-crowd', 'abuser'] as const) {
      for (const windowMs of [7, 997, 10_000, 86_400_000]) {
        for (const windows of [1, 4]) {
          const made = buildTraffic({ ...DEFAULTS, traffic, windowMs, windows });
          const times = made.calls.map(({ atMs }) => atMs);
          expect(times).toHaveLength(DEFAULTS.calls);
          expect(times).toEqual([...times].sort((a, b) => a - b));
          expect(times[0]).toBeGreaterThanOrEqual(made.startMs);
          expect(times.at(-1)).toBeLessThan(made.endMs);
        }
      }
    }
  });

  test('an adversary gets 99 calls in a window through a sliding counter of limit 50', () => {
    const counter = laneOf(run({ traffic: 'adversary' }), 'sliding-counter');
    expect(counter.fullest?.count).toBe(99);
    expect(counter.denied).toBe(0);
  });

  test('drawn traffic has the drawn number of calls in each slot', () => {
    const slots = Array.from({ length: 60 }, (_, at) => (at % 7 === 0 ? at : 0));
    const traffic = buildTraffic({ ...DEFAULTS, traffic: 'drawn', slots });
    expect(callsPerSlot(traffic, 500)).toEqual(slots);
  });

  test('lab traffic is cut to 2000 calls, and the number of omitted calls is reported', () => {
    const slots = new Array<number>(60).fill(100);
    const { calls, omitted } = buildTraffic({ ...DEFAULTS, traffic: 'drawn', slots });
    expect([calls.length, omitted]).toEqual([MAX_CALLS, 6000 - MAX_CALLS]);
    const many = { ...DEFAULTS, traffic: 'adversary', limit: 1_000_000 } as const;
    expect(buildTraffic(many).calls).toHaveLength(MAX_CALLS);
  });

  test('the lab runs all algorithms at the bounds of all settings', () => {
    for (const windowMs of [1, 30 * 86_400_000]) {
      const settings = { limit: 1_000_000, windowMs, burst: 1_000_000, buckets: 10_000 };
      const { lanes } = run({ ...settings, traffic: 'steady', calls: 20, cost: 1_000_000 });
      expect(lanes.map(({ algorithm }) => algorithm)).toEqual(windowAlgorithmNames);
    }
  });
});
