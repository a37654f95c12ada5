import { describe, expect, test } from 'vitest';
import {
  axisTimeText,
  counted,
  durationText,
  exactTimeText,
  percentText,
  rateText,
  shortCount,
  timeTextBeside,
  visible,
  visibleParts,
  windowText,
} from '../src/format.ts';

test('percentText keeps two significant digits and never rounds to 0% or 100%', () => {
  const shares = [0, 1e-9, 0.0000123, 0.00123, 0.0123, 0.1, 0.12345, 0.99949, 0.9999, 1];
  expect(shares.map((share) => percentText(share))).toEqual([
    ...['0%', '<0.001%', '0.0012%', '0.12%', '1.2%', '10%', '12.3%', '99.9%', '>99.9%', '100%'],
  ]);
  expect(percentText(1, 0)).toBe('0%');
  expect(percentText(2, 9)).toBe('22.2%');
});

test('rateText and shortCount abbreviate large numbers', () => {
  expect([0, 0.04, 0.4, 4, 9.96, 12.4, 1234, 45_678, 3e6].map(rateText)).toEqual([
    ...['0', '<0.1', '0.4', '4.0', '10', '12', '1.2K', '45.7K', '3M'],
  ]);
  expect([950, 1000, 1250, 1e6].map(shortCount)).toEqual(['950', '1K', '1.3K', '1M']);
});

test('counted uses the singular for 1 and forms plurals of -y', () => {
  expect([0, 1, 2].map((count) => counted(count, 'policy'))).toEqual([
    ...['0 policies', '1 policy', '2 policies'],
  ]);
  expect(counted(2, 'key')).toBe('2 keys');
  expect(counted(12_345, 'client')).toBe('12,345 clients');
});

describe('durationText', () => {
  test.each([
    [0, '0 ms'],
    [0.058, '0.058 ms'],
    [1, '1 ms'],
    [999, '999 ms'],
    [1000, '1 s'],
    [1001, '1.1 s'],
    [12_300, '12.3 s'],
    [60_000, '60 s'],
    [60_001, '60.1 s'],
    [100_001, '1 min 41 s'],
    [119_001, '2 min'],
    [3_600_000, '1 h'],
    [3_600_001, '1 h 1 min'],
    [3_660_001, '1 h 2 min'],
    [86_399_999, '24 h'],
    [86_400_000, '1 d'],
    [90_000_000, '1 d 1 h'],
    [36_500 * 86_400_000, '36,500 d'],
  ])('durationText(%d) is %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });

  test('durationText never rounds down', () => {
    const unitMs: Record<string, number> = { ms: 1, s: 1000, min: 6e4, h: 36e5, d: 864e5 };
    for (let ms = 1; ms < 1e10; ms = Math.ceil(ms * 1.07)) {
      const shownMs = [...durationText(ms).matchAll(/([\d.]+) (\w+)/g)]
        .map(([, amount, unit]) => Number(amount) * unitMs[unit])
        .reduce((sum, each) => sum + each, 0);
      expect(shownMs, `${ms}`).toBeGreaterThanOrEqual(ms - 1e-6);
      expect(shownMs, `${ms}`).toBeLessThan(ms * 1.1 + 100);
    }
  });
});

test('windowText does not round', () => {
  const windows = [1, 1500, 1000, 60_000, 90_000, 36 * 3_600_000, 172_800_000];
  expect(windows.map(windowText)).toEqual([
    ...['1 ms', '1,500 ms', '1 s', '1 min', '90 s', '36 h', '2 d'],
  ]);
});

test('axisTimeText uses units that fit the length of the axis', () => {
  const atMs = Date.UTC(2026, 9, 10, 13, 55, 36);
  const axes = [300, 3000, 60_000, 3_600_000, 2 * 86_400_000, 30 * 86_400_000];
  expect(axes.map((axisMs) => axisTimeText(atMs, axisMs))).toEqual([
    ...['13:55:36.000', '13:55:36.0', '13:55:36', '13:55:36', '10 Oct 13:55', '10 Oct'],
  ]);
});

test('exactTimeText has milliseconds, and timeTextBeside omits the same date', () => {
  const atMs = Date.UTC(2026, 9, 10, 13, 55, 36);
  expect([atMs, atMs + 7].map(exactTimeText)).toEqual([
    ...['2026-10-10 13:55:36', '2026-10-10 13:55:36.007'],
  ]);
  expect(timeTextBeside(atMs + 250, atMs)).toBe('13:55:36.250');
  expect(timeTextBeside(atMs + 86_400_000, atMs)).toBe('2026-10-11 13:55:36');
});

test('visible escapes invisible characters, and visibleParts marks the escapes', () => {
  expect(visible('a\u202eb\u3164\ud800')).toBe('a\\u{202e}b\\u{3164}\\u{d800}');
  expect(visibleParts('\u202e\u0000\\u{0}')).toEqual([
    { text: '\\u{202e}', isEscape: true },
    { text: '\\u{0}', isEscape: true },
    { text: '\\u{0}', isEscape: false },
  ]);
  expect(visibleParts('')).toEqual([]);
});
