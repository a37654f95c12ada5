import { describe, expect, test } from 'vitest';
import { HISTORY_SECONDS, History, Timeline } from '../src/api/history.ts';
import type { CountSeries, Counts, SeriesReport, Tick } from '../src/api/types.ts';

const START_MS = 1_763_200_000_000;

const counts = (allowed: number): Counts => ({
  ...{ allowed, denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 },
  fullest: allowed === 0 ? null : 0.5,
});

const tick = (second: number, allowed: number, names: readonly string[] = []): Tick => ({
  atMs: START_MS + second * 1000,
  total: counts(allowed),
  policies: names.map((name) => ({ name, ...counts(allowed) })),
  ...{ omitted: 0, store: { kind: 'memory', up: true }, decisions: {}, processes: 1 },
  ...{ denials: [], denialsOmitted: 0 },
});

const series = (allowed: readonly number[]): CountSeries => ({
  allowed,
  denied: allowed.map(() => 0),
  shadowAllowed: allowed.map(() => 0),
  shadowDenied: allowed.map(() => 0),
  degraded: allowed.map(() => 0),
  fullest: allowed.map(() => null),
});

const report = (second: number, allowed: readonly number[], since = 0): SeriesReport => ({
  ...{ stepMs: 1000, startMs: START_MS + second * 1000, sinceMs: START_MS + since * 1000 },
  total: series(allowed),
  ...{ policies: [{ name: 'a', ...series(allowed) }], omitted: 0 },
});

const newest = ({ allowed }: CountSeries, count: number): readonly (number | null)[] =>
  allowed.slice(-count);

describe('history', () => {
  test('a tick extends the series that the history has loaded', () => {
    const history = new History();
    history.fill(report(0, [1, 2, 3]));
    history.add(tick(3, 4));
    expect(newest(history.total, 5)).toEqual([null, 1, 2, 3, 4]);
    expect(history.lastMs).toBe(START_MS + 3000);
    expect(history.times()).toHaveLength(HISTORY_SECONDS);
    expect(history.times().at(-1)).toBe((START_MS + 3000) / 1000);
  });

  test('seconds without a tick are unknown in the history, and add returns their number', () => {
    const history = new History();
    history.fill(report(0, [1]));
    expect(history.add(tick(1, 2))).toBe(0);
    expect(history.add(tick(5, 6))).toBe(3);
    expect(newest(history.total, 6)).toEqual([1, 2, null, null, null, 6]);
  });

  test('in the history, time before the start of the service is unknown, not zero', () => {
    const history = new History();
    history.fill(report(-3, [0, 0, 0, 4, 5]));
    expect(newest(history.total, 6)).toEqual([null, null, null, null, 4, 5]);
    expect(newest(history.seriesOf('a'), 6)).toEqual([null, null, null, null, 4, 5]);
    history.add(tick(2, 6, ['b']));
    expect(newest(history.seriesOf('b'), 4)).toEqual([null, 0, 0, 6]);
    expect(history.sinceMs).toBe(START_MS);
  });

  test('before the series is loaded, the history has only the received seconds', () => {
    const history = new History();
    history.add(tick(7, 2));
    expect(newest(history.total, 2)).toEqual([null, 2]);
    expect(history.sinceMs).toBe(START_MS + 7000);
  });

  test('a timeline by minute is unknown before the minute in which the service started', () => {
    const minutes = Timeline.of({
      ...{ stepMs: 60_000, startMs: START_MS - 120_000, sinceMs: START_MS - 30_000 },
      ...{ total: series([0, 3, 4]), policies: [], omitted: 0 },
    });
    expect(minutes.total.allowed).toEqual([null, 3, 4]);
    expect(minutes.times()).toEqual([-120, -60, 0].map((each) => START_MS / 1000 + each));
    expect(minutes.lastMs).toBe(START_MS);
  });

  test('fill replaces a gap in the history', () => {
    const history = new History();
    history.fill(report(0, [1]));
    history.add(tick(4, 5));
    history.fill(report(0, [1, 2, 3, 4, 5]));
    expect(newest(history.total, 5)).toEqual([1, 2, 3, 4, 5]);
    expect(newest(history.seriesOf('a'), 5)).toEqual([1, 2, 3, 4, 5]);
  });

  test('a second that the history already has is not replaced', () => {
    const history = new History();
    history.fill(report(0, [1, 2]));
    expect(history.add(tick(1, 2))).toBe(0);
    expect(history.add(tick(0, 9))).toBe(0);
    expect(newest(history.total, 3)).toEqual([null, 1, 2]);
  });

  test('a gap longer than the history clears the history', () => {
    const history = new History();
    history.fill(report(0, [1, 2, 3]));
    history.add(tick(10 * HISTORY_SECONDS, 7));
    expect(history.total.allowed).toHaveLength(HISTORY_SECONDS);
    expect(newest(history.total, 2)).toEqual([null, 7]);
    expect(history.total.allowed.filter((each) => each !== null)).toEqual([7]);
  });

  test('a policy is in the history from its first decision on', () => {
    const history = new History();
    history.fill(report(0, [1]));
    expect(history.has('b')).toBe(false);
    history.add(tick(1, 2, ['b']));
    history.add(tick(2, 3, ['a']));
    expect(newest(history.seriesOf('b'), 3)).toEqual([0, 2, 0]);
    expect(newest(history.seriesOf('a'), 3)).toEqual([1, 0, 3]);
    expect(history.policies).toEqual(['a', 'b']);
  });

  test('a policy without decisions has a history of zeros since the start of the service', () => {
    const history = new History();
    history.fill(report(0, [1, 2]));
    const { allowed, fullest } = history.seriesOf('__proto__');
    expect(allowed).toHaveLength(HISTORY_SECONDS);
    expect(allowed.slice(-3)).toEqual([null, 0, 0]);
    expect(new Set(fullest)).toEqual(new Set([null]));
  });

  test('a report longer than the history is cut to the newest seconds', () => {
    const history = new History();
    const long = Array.from({ length: HISTORY_SECONDS + 5 }, (_, at) => at);
    history.fill(report(0, long));
    expect(history.total.allowed[0]).toBe(5);
    expect(history.lastMs).toBe(START_MS + (HISTORY_SECONDS + 4) * 1000);
  });
});
