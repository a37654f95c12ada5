import { describe, expect, test } from 'vitest';
import { decisionText, multipleText, sinceText } from '../../src/lab/lab-text.ts';
import {
  admittedSteps,
  areaPath,
  axisSteps,
  CALLS_BASELINE,
  callColumns,
  costAt,
  nearestCall,
  timeScale,
} from '../../src/lab/lane-shapes.ts';
import { runLab } from '../../src/lab/run.ts';
import { DEFAULTS } from '../../src/lab/settings.ts';
import { stripTop, withLine } from '../../src/lab/slots.ts';
import { buildTraffic } from '../../src/lab/traffic.ts';

const call = (atMs: number, cost = 1, key = 'a') => ({ atMs, cost, key });
const decided = (...allowed: readonly boolean[]) => ({
  decisions: allowed.map((each) => ({ allowed: each, remaining: 0, retryAfterMs: each ? 0 : 5 })),
});
const scale = timeScale({ calls: [], startMs: 0, endMs: 100, omitted: 0 }, 300);

describe('the admitted cost per window', () => {
  test('the admitted cost per window includes each call until the window has passed', () => {
    const calls = [call(0, 2), call(10), call(10, 5), call(50, 3)];
    const steps = admittedSteps(calls, decided(true, true, false, true), 'a', 50);
    expect(steps).toEqual([
      { atMs: 0, cost: 2 },
      { atMs: 10, cost: 3 },
      { atMs: 50, cost: 4 },
      { atMs: 60, cost: 3 },
      { atMs: 100, cost: 0 },
    ]);
    expect([-1, 0, 9, 10, 49, 50, 60, 1000].map((at) => costAt(steps, at))).toEqual([
      ...[0, 2, 2, 3, 3, 4, 3, 0],
    ]);
  });

  test('the admitted cost per window counts only the calls of one client', () => {
    const calls = [call(0, 2, 'a'), call(0, 7, 'b')];
    expect(admittedSteps(calls, decided(true, true), 'b', 50)[0]).toEqual({ atMs: 0, cost: 7 });
  });

  test('the maximum admitted cost per window is the one that the lab run reports', () => {
    for (const traffic of ['boundary', 'steady', 'bursts', 'adversary'] as const) {
      const settings = { ...DEFAULTS, traffic, calls: 400, windows: 4 };
      const result = runLab(settings, buildTraffic(settings));
      for (const lane of result.lanes) {
        const { calls } = result.traffic;
        const steps = admittedSteps(calls, lane, result.busiestKey, settings.windowMs);
        expect(Math.max(...steps.map(({ cost }) => cost))).toBe(lane.fullest!.count);
        expect(costAt(steps, lane.fullest!.atMs)).toBe(lane.fullest!.count);
      }
    }
  });

  test('the admitted cost per window is drawn as a closed area', () => {
    expect(areaPath([{ atMs: 50, cost: 10 }], 10, scale)).toBe('M0 66H150V8H300V66Z');
    expect(areaPath([], 10, scale)).toBe('');
  });
});

describe('columns of calls', () => {
  test('admitted calls are drawn as columns above the baseline, denied calls below it', () => {
    const calls = [call(0), call(50, 4)];
    const { admitted, denied } = callColumns(calls, decided(true, false).decisions, 4, scale);
    expect(admitted).toBe(`M1 ${CALLS_BASELINE}v-5`);
    expect(denied).toBe(`M151 ${CALLS_BASELINE}v14`);
  });

  test('calls within three pixels are drawn as one column', () => {
    const calls = Array.from({ length: 10 }, () => call(20));
    const { admitted } = callColumns(
      calls,
      decided(...new Array(10).fill(true)).decisions,
      10,
      scale,
    );
    expect(admitted).toBe(`M61 ${CALLS_BASELINE}v-20`);
  });

  test('nearestCall returns the call nearest to a position, or undefined without calls', () => {
    const calls = [call(10), call(20), call(20), call(90)];
    expect([0, 44, 46, 299].map((at) => nearestCall(calls, at, scale))).toEqual([0, 0, 1, 3]);
    expect(nearestCall([], 5, scale)).toBeUndefined();
  });
});

test('the time axis of the lab has round times at least 70 pixels apart', () => {
  const steps = (endMs: number) =>
    axisSteps(timeScale({ calls: [], startMs: 0, endMs, omitted: 0 }, 700), 70);
  expect(steps(20_000)).toEqual([
    0, 2000, 4000, 6000, 8000, 10_000, 12_000, 14_000, 16_000, 18_000, 20_000,
  ]);
  expect(steps(86_400_000)[1]).toBe(3 * 3_600_000);
  expect(steps(2 * 365 * 86_400_000).length).toBeGreaterThan(2);
  expect(steps(1)).toEqual([0, 1]);
});

describe('drawing in the strip', () => {
  test('drawing a line sets all slots between its two ends', () => {
    const drawn = withLine([9, 9, 9, 9, 9, 9], { slot: 4, count: 0 }, { slot: 1, count: 6 });
    expect(drawn).toEqual([9, 6, 4, 2, 0, 9]);
    expect(withLine([1, 2], { slot: 1, count: 5 }, { slot: 1, count: 7 })).toEqual([1, 7]);
  });

  test('the strip for drawing reaches the limit or the highest slot, from 10 to 500', () => {
    expect([stripTop([0], 3), stripTop([0, 70], 50), stripTop([0], 9999)]).toEqual([10, 70, 500]);
  });
});

test('times, multiples of the limit and decisions are formatted as text', () => {
  expect([0, 9912, 60_000, 3_723_004].map(sinceText)).toEqual([
    ...['+0.000 s', '+9.912 s', '+1:00.000', '+1:02:03.004'],
  ]);
  expect([2, 1, 1.001, 0.5].map(multipleText)).toEqual(['2.00 ×', '1.00 ×', '1.01 ×', '0.50 ×']);
  expect(decisionText({ allowed: true, remaining: 7, retryAfterMs: 0 })).toBe(
    'allowed, 7 remaining',
  );
  expect(decisionText({ allowed: false, remaining: 0, retryAfterMs: 9670 })).toBe(
    'denied, retry in 9.7 s',
  );
});
