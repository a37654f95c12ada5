import { describe, expect, test } from 'vitest';
import type { CountSeries } from '../src/api/types.ts';
import { heatCells, heatLabel, heatLevel, heatTooltip } from '../src/view/heat-strip.ts';

const LENGTH = 600;
const LAST_MS = 1_763_200_004_000;

/** Zeros except in the given seconds, counted back from the last. */
function series(
  given: Readonly<Record<number, { full?: number; denied?: number }>>,
  known = LENGTH,
): CountSeries {
  const column = <T>(empty: T, pick: (ago: number) => T | undefined): T[] =>
    Array.from({ length: LENGTH }, (_, at) => {
      const picked = pick(LENGTH - 1 - at);
      return picked === undefined ? empty : picked;
    });
  return {
    allowed: column<number | null>(0, (ago) => (ago < known ? 0 : null)),
    denied: column(0, (ago) => given[ago]?.denied),
    shadowAllowed: column(0, () => undefined),
    shadowDenied: column(0, () => undefined),
    degraded: column(0, () => undefined),
    fullest: column<number | null>(null, (ago) => given[ago]?.full),
  };
}

describe('a heat strip', () => {
  test.each([
    [60, 1],
    [300, 5],
    [600, 10],
  ])('a heat strip over %i s has 60 cells of %i s at multiples of their size', (seconds, size) => {
    const cells = heatCells(series({}), LAST_MS, seconds);
    expect(cells).toHaveLength(60);
    expect(cells.every(({ time }) => time % size === 0)).toBe(true);
    expect(cells.every(({ time }, at) => at === 0 || time === cells[at - 1].time + size)).toBe(
      true,
    );
    expect(cells[59].time).toBeLessThanOrEqual(LAST_MS / 1000);
    expect(cells[59].time + size).toBeGreaterThan(LAST_MS / 1000);
  });

  test('a cell of a heat strip has the maximum utilization and the sum of denials', () => {
    // The last second is the fifth of its cell.
    const cells = heatCells(
      series({ 0: { full: 0.2, denied: 1 }, 4: { full: 0.9 }, 5: { full: 1, denied: 7 } }),
      LAST_MS,
      300,
    );
    expect(cells[59]).toMatchObject({ fullestKeyUse: 0.9, denied: 1 });
    expect(cells[58]).toMatchObject({ fullestKeyUse: 1, denied: 7 });
    expect(cells[57]).toMatchObject({ fullestKeyUse: null, denied: 0 });
  });

  test('a new cell of a heat strip does not change the earlier cells', () => {
    const before = heatCells(series({ 7: { full: 0.7 } }), LAST_MS, 300);
    const after = heatCells(series({ 8: { full: 0.7 } }), LAST_MS + 1000, 300);
    expect(after.slice(0, 59)).toEqual(before.slice(1));
  });

  test('a cell of a heat strip before the start of the service has no data', () => {
    const cells = heatCells(series({ 0: { full: 0.5 } }, 30), LAST_MS, 60);
    expect(cells.filter(({ isKnown }) => isKnown)).toHaveLength(30);
    expect(cells.slice(28, 31).map(heatTooltip)).toEqual(['no data', 'no data', 'no decisions']);
  });

  test('a heat strip over a day has cells of 24 minutes', () => {
    const stepMs = 24 * 60_000;
    const lastMs = Math.floor(LAST_MS / stepMs) * stepMs;
    const day = series({ 0: { full: 0.5, denied: 3 }, 59: { full: 1 } });
    const cells = heatCells(day, lastMs, 86_400, stepMs);
    expect(cells[59]).toMatchObject({ time: lastMs / 1000, fullestKeyUse: 0.5, denied: 3 });
    expect(cells[0]).toMatchObject({ time: lastMs / 1000 - 59 * 1440, fullestKeyUse: 1 });
    const byMinute = heatCells(
      series({ 0: { full: 0.5 }, 24: { full: 1 } }),
      lastMs,
      86_400,
      60_000,
    );
    expect(byMinute[59].fullestKeyUse).toBe(0.5);
    expect(byMinute[58].fullestKeyUse).toBe(1);
  });

  test('a heat strip has a text description', () => {
    const cells = heatCells(series({ 0: { full: 0.5 }, 20: { full: 1, denied: 2 } }), LAST_MS, 60);
    expect(heatLabel('perMinute', cells)).toBe(
      'perMinute: the fullest key last used 50% of its limit, at most 100%; ' +
        'denials in 1 of 60 intervals',
    );
    expect(heatLabel('idle', heatCells(series({}), LAST_MS, 60))).toBe('idle: no decisions');
    expect(heatTooltip(cells[39])).toBe('fullest key 100%, 2 calls denied');
  });
});

test('only a key at 100% of its limit has the last colour of a heat strip', () => {
  expect([0, 0.24, 0.25, 0.5, 0.75, 0.999, 1].map(heatLevel)).toEqual([0, 0, 1, 2, 3, 3, 4]);
});
