/** The peak of any window, compared with a search of all windows. */
import { describe, expect, test } from 'vitest';
import { WindowCounts } from '../../src/replay/window-counts.ts';
import { randomFrom } from './traffic.ts';

const WINDOWS = [1, 50, 1000, 60_000];

interface Event {
  readonly row: number;
  readonly timeMs: number;
  readonly cost: number;
}

function events(seed: number, count: number): readonly Event[] {
  const random = randomFrom(seed);
  let timeMs = 1_791_000_000_000;
  return Array.from({ length: count }, () => {
    timeMs += Math.floor(random() ** 6 * 3000);
    return { row: Math.floor(random() ** 2 * 40), timeMs, cost: 1 + Math.floor(random() ** 5 * 9) };
  });
}

const inWindow = (all: readonly Event[], { row, timeMs }: Event, windowMs: number): number =>
  all
    .filter((each) => each.row === row && each.timeMs > timeMs - windowMs && each.timeMs <= timeMs)
    .reduce((sum, { cost }) => sum + cost, 0);

describe('counts in windows', () => {
  test.each([1, 2, 3])('the peaks of traffic %i equal those of a search of all windows', (seed) => {
    const all = events(seed, 1500);
    const counts = new WindowCounts(WINDOWS);
    for (const { row, timeMs, cost } of all) counts.add(row, timeMs, cost);
    for (const row of new Set(all.map((each) => each.row))) {
      for (const [window, windowMs] of WINDOWS.entries()) {
        const sums = all
          .filter((each) => each.row === row)
          .map((each) => inWindow(all, each, windowMs));
        expect(counts.most(row, window)).toBe(Math.max(...sums));
        expect(counts.sum(row, window)).toBe(sums.at(-1));
      }
    }
  });

  test('a client without requests has no peak', () => {
    const counts = new WindowCounts(WINDOWS);
    counts.add(5, 1000);
    expect([counts.most(4, 0), counts.most(5, 0), counts.most(100_000, 0)]).toEqual([0, 1, 0]);
  });

  test('a request exactly one window old is outside, one 1 ms younger is inside', () => {
    const counts = new WindowCounts([1000]);
    counts.add(0, 5000);
    counts.add(0, 5999);
    expect(counts.sum(0, 0)).toBe(2);
    counts.add(0, 6000);
    expect(counts.sum(0, 0)).toBe(2);
  });

  test('if memory is exceeded, the longest windows are dropped and the others stay exact', () => {
    const all = events(7, 3000);
    const bounded = new WindowCounts(WINDOWS, 60);
    const whole = new WindowCounts(WINDOWS);
    for (const { row, timeMs, cost } of all) {
      bounded.add(row, timeMs, cost);
      whole.add(row, timeMs, cost);
    }
    expect(bounded.countedMs.length).toBeLessThan(WINDOWS.length);
    expect(bounded.countedMs.length).toBeGreaterThan(0);
    for (const [window] of bounded.countedMs.entries()) {
      for (let row = 0; row < 40; row++) {
        expect(bounded.most(row, window)).toBe(whole.most(row, window));
      }
    }
  });
});
