import { describe, expect, test } from 'vitest';
import { Observations, quantileOf } from '../../src/observe/histogram.ts';
import { History, MINUTE_MS } from '../../src/observe/history.ts';
import {
  MAX_REPORTED_POLICIES,
  outlineOf,
  type SeriesSource,
  seriesReport,
} from '../../src/observe/series.ts';
import { policy } from '../running.ts';
import { START_MS, setUp } from './history-set-up.ts';

describe('seriesReport', () => {
  const sourceOf = (...histories: readonly History[]): SeriesSource => ({
    outlines: async (span) => histories.map((each) => outlineOf(each, span)),
    policies: async (span, names) => histories.map((each) => each.policies(span, names)),
  });

  test('a series sums all processes and keeps the fullest key', async () => {
    const processes = [setUp(), setUp()];
    processes[0].call('many', 2, 30);
    processes[1].call('many', 3, 60);
    processes[1].call('few', 1);
    for (const { clock } of processes) clock.set(START_MS + 1000);
    const source = sourceOf(...processes.map(({ history }) => history));
    const span = { startMs: START_MS - 1000, seconds: 2 };
    // Data of another process comes as JSON.
    const report = JSON.parse(JSON.stringify(await seriesReport(source, span, undefined)));
    expect(report).toMatchObject({
      ...{ stepMs: 1000, startMs: START_MS - 1000, sinceMs: START_MS, omitted: 0 },
      total: { allowed: [0, 6], fullest: [null, 0.6] },
      policies: [
        { name: 'many', allowed: [0, 5], fullest: [null, 0.6] },
        { name: 'few', allowed: [0, 1], fullest: [null, 0.25] },
      ],
    });
  });

  test('a series lists the busiest policies, the number of others and the total', async () => {
    const names = Array.from({ length: MAX_REPORTED_POLICIES + 50 }, (_, at) => `p${at}`);
    const { clock, call, history } = setUp(names.map((name) => policy(name, 500, '1h')));
    for (const [at, name] of names.entries()) call(name, at + 1);
    clock.set(START_MS + 1000);
    const span = { startMs: START_MS, seconds: 1 };
    const report = await seriesReport(sourceOf(history), span, undefined);
    expect(report.policies).toHaveLength(MAX_REPORTED_POLICIES);
    expect(report.policies[0]).toMatchObject({
      name: `p${MAX_REPORTED_POLICIES + 49}`,
      allowed: [150],
    });
    expect(report.omitted).toBe(50);
    expect(report.total.allowed).toEqual([(150 * 151) / 2]);
    const one = await seriesReport(sourceOf(history), span, 'p3');
    expect(one.policies).toMatchObject([{ name: 'p3', allowed: [4] }]);
    expect([one.omitted, one.total]).toEqual([0, report.total]);
  });

  test('a series has the start of the oldest process, and at most `count` policies', async () => {
    const [old, young] = [setUp(), setUp()];
    young.clock.set(START_MS + 90_000);
    const later = new History({ counters: young.counters, durations: new Map() }, young.clock);
    old.call('many', 2);
    old.call('few', 1);
    old.clock.set(START_MS + 90_000);
    const span = { startMs: START_MS, seconds: 120, stepMs: MINUTE_MS };
    const report = await seriesReport(sourceOf(later, old.history), span, undefined, 1);
    expect(report).toMatchObject({ stepMs: MINUTE_MS, sinceMs: START_MS, omitted: 1 });
    expect(report.policies).toMatchObject([{ name: 'many' }]);
    const none = await seriesReport(sourceOf(later), span, undefined, 0);
    expect(none).toMatchObject({ sinceMs: START_MS + 90_000, policies: [] });
  });

  test('a series of a named policy exists without traffic', async () => {
    const { history } = setUp();
    const span = { startMs: START_MS - 2000, seconds: 2 };
    expect((await seriesReport(sourceOf(history), span, 'few')).policies).toEqual([
      {
        ...{ name: 'few', allowed: [0, 0], denied: [0, 0], shadowDenied: [0, 0] },
        shadowAllowed: [0, 0],
        ...{ degraded: [0, 0], fullest: [null, null] },
      },
    ]);
  });
});

describe('quantileOf', () => {
  const bucketsOf = (...seconds: readonly number[]) => {
    const all = new Observations();
    for (const each of seconds) all.add(each);
    return [...all.buckets];
  };

  test('a quantile without observations is undefined', () => {
    expect(quantileOf(bucketsOf(), 0.5)).toBeUndefined();
  });

  test('a quantile is interpolated within its bucket', () => {
    // Between 0.5 ms and 1 ms.
    expect(quantileOf(bucketsOf(0.0006, 0.0007, 0.0008, 0.0009), 0.5)).toBeCloseTo(0.00075, 10);
    expect(quantileOf(bucketsOf(0.00005), 1)).toBeCloseTo(0.0001, 10);
    const waits = [...Array(99).fill(0.002), 0.3];
    expect(quantileOf(bucketsOf(...waits), 0.99)).toBeCloseTo(0.0025, 10);
    expect(quantileOf(bucketsOf(...waits), 0.995)).toBeGreaterThan(0.25);
  });

  test('a quantile in the last bucket is the lower bound of the bucket', () => {
    expect(quantileOf(bucketsOf(60, 70), 0.5)).toBe(2.5);
  });
});
