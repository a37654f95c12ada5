import { describe, expect, test } from 'vitest';
import { clientsDeniedBy, curveOf, kneeOf, roundUp, sampleCurve } from '../../src/replay/knee.ts';
import { HEAD_ROOM, Suggester, type SuggestOptions } from '../../src/replay/suggest.ts';
import { bruteForce } from './brute-force.ts';
import { entriesOf, type MadeRequest, madeTraffic } from './traffic.ts';

const START_MS = Date.UTC(2026, 9, 10, 12, 0, 0);

function suggested(traffic: readonly MadeRequest[], options: Partial<SuggestOptions> = {}) {
  const suggester = new Suggester({ keyOf: ({ client }) => client, ...options });
  suggester.survey(entriesOf(traffic));
  if (!suggester.choose()) return undefined;
  suggester.tryLimits(entriesOf(traffic));
  return suggester.result();
}

describe('a suggestion', () => {
  const traffic = madeTraffic(21, 5000, 1500);
  const result = suggested(traffic)!;

  test('limits are suggested for the windows that are shorter than the log', () => {
    expect(result.windows.map(({ windowMs }) => windowMs / 1000)).toEqual([1, 10, 60, 300, 900]);
  });

  test('denied clients and requests of each suggested limit agree with brute force', () => {
    for (const { windowMs, limits } of result.windows) {
      for (const { limit, clients, deniedRequests, clientShare } of limits) {
        const policy = { name: 'x', algorithm: 'sliding-log', limit, windowMs };
        const brute = bruteForce(traffic, [policy]);
        const denied = [...brute.clients.values()].map((each) => each.denied);
        expect(deniedRequests).toBe(denied.reduce((sum, each) => sum + each, 0));
        expect(clients).toBe(denied.filter((each) => each > 0).length);
        expect(clientShare).toBe(clients / brute.clients.size);
      }
    }
  });

  test('the peak is one of the suggested limits and denies no client', () => {
    for (const { limits, peak } of result.windows) {
      expect(limits.some(({ limit, clients }) => limit === peak && clients === 0)).toBe(true);
    }
  });

  test('the proposed limit is above the knee, for one minute if the log is long enough', () => {
    for (const { knee, proposed, limits } of result.windows) {
      expect(proposed).toBeGreaterThanOrEqual(HEAD_ROOM * knee);
      const effect = limits.find(({ limit }) => limit === proposed)!;
      expect(effect.clients).toBeLessThanOrEqual(0.01 * result.clients);
    }
    expect(result.proposed.windowMs).toBe(60_000);
  });

  test('a suggestion for a given window has only this window', () => {
    const { windows, proposed } = suggested(traffic, { windowMs: 47_000 })!;
    expect(windows.map(({ windowMs }) => windowMs)).toEqual([47_000]);
    expect(proposed.windowMs).toBe(47_000);
  });

  test('choose returns false for a log that is too short', () => {
    const short = [0, 500].map((ms) => ({ client: 'a', timeMs: START_MS + ms }));
    expect(suggested(short)).toBeUndefined();
    expect(suggested(traffic, { windowMs: 86_400_000 })).toBeUndefined();
  });

  test('a suggestion omits and lists the longest windows if memory is exceeded', () => {
    const bounded = suggested(traffic, { mostHeld: 400 })!;
    expect(bounded.leftOutMs.length).toBeGreaterThan(0);
    expect(bounded.windows.length).toBeGreaterThan(0);
    for (const each of bounded.windows) {
      expect(each).toEqual(result.windows.find(({ windowMs }) => windowMs === each.windowMs));
    }
  });

  test('a suggestion survives a JSON round trip, and its curves have at most 240 points', () => {
    expect(JSON.parse(JSON.stringify(result))).toEqual(result);
    for (const { curve } of result.windows) {
      expect(curve.length).toBeLessThanOrEqual(240);
      expect(curve.at(-1)!.clients).toBe(0);
      for (const [at, { limit, clients }] of curve.slice(1).entries()) {
        expect(limit).toBeGreaterThan(curve[at].limit);
        expect(clients).toBeLessThan(curve[at].clients);
      }
    }
  });
});

describe('the knee of a curve', () => {
  const peaks = (...groups: readonly (readonly [peak: number, clients: number])[]): Uint32Array =>
    Uint32Array.from(groups.flatMap(([peak, clients]) => new Array(clients).fill(peak))).sort();

  test('the knee separates most clients from few heavy ones', () => {
    const sorted = peaks([1, 400], [2, 300], [4, 290], [900, 5], [1000, 5]);
    expect(kneeOf(curveOf(sorted), 1000)).toBe(4);
    expect(kneeOf(curveOf(peaks([2, 40], [75, 1])), 41)).toBe(2);
  });

  test('the knee is searched among all limits, not only the 240 points of a chart', () => {
    // A logistic distribution on the logarithmic scale, with about 700 different peaks.
    const shares = Array.from({ length: 5000 }, (_, at) => (at + 0.5) / 5000);
    const many = Uint32Array.from(shares, (each) => 1 + 300 * (each / (1 - each)) ** 0.4);
    const [low, high] = [many[0], many[4999]];
    const line = (limit: number): number =>
      5000 * (1 - Math.log(limit / low) / Math.log(high / low));
    const below = (limit: number): number => line(limit) - clientsDeniedBy(many, limit);
    const farthest = many.reduce((best, each) => (below(each) > below(best) ? each : best), low);
    expect(curveOf(many).length).toBeGreaterThan(240);
    expect(sampleCurve(curveOf(many)).length).toBeLessThanOrEqual(240);
    expect(kneeOf(curveOf(many), 5000)).toBe(farthest);
    expect(kneeOf(sampleCurve(curveOf(many)), 5000)).not.toBe(farthest);
  });

  test('the knee of equal clients is their peak', () => {
    expect(kneeOf(curveOf(peaks([7, 50])), 50)).toBe(7);
    expect(kneeOf(curveOf(peaks([7, 1])), 1)).toBe(7);
  });

  test('a limit denies the clients with a peak above it', () => {
    const sorted = peaks([1, 4], [5, 3], [9, 2]);
    expect([0, 1, 4, 5, 8, 9, 10].map((limit) => clientsDeniedBy(sorted, limit))).toEqual([
      9, 5, 5, 2, 2, 0, 0,
    ]);
  });

  test('a shortened curve keeps its first and last point', () => {
    const many = Uint32Array.from({ length: 5000 }, (_, at) => at + 1);
    const curve = sampleCurve(curveOf(many));
    expect(curve.length).toBeLessThanOrEqual(240);
    expect([curve[0].limit, curve.at(-1)]).toEqual([1, { limit: 5000, clients: 0 }]);
  });

  test('limits are rounded up to round numbers', () => {
    expect([1, 2, 7, 11, 13, 16, 26, 31, 61, 81, 100, 101, 1234].map(roundUp)).toEqual([
      1, 2, 8, 12, 15, 20, 30, 40, 80, 100, 100, 120, 1500,
    ]);
  });
});
