import { describe, expect, test } from 'vitest';
import { localTime, readLocalTime } from '../src/clock.ts';
import {
  counted,
  durationText,
  percentText,
  rateText,
  shortCount,
  windowText,
} from '../src/view/format.ts';

describe('number formats', () => {
  test.each([
    [0, '0 %'],
    [0.004, '< 1 %'],
    [0.01, '1 %'],
    [0.425, '43 %'],
    [0.999, '> 99 %'],
    [1, '100 %'],
  ])('a share of %d is %s', (share, text) => expect(percentText(share)).toBe(text));

  test.each([
    [0, '0'],
    [0.04, '< 0.1'],
    [0.4, '0.4'],
    [4, '4.0'],
    [9.96, '10'],
    [12.4, '12'],
    [1234, '1.2k'],
    [45_678, '46k'],
    [3_000_000, '3M'],
  ])('a rate of %d per second is %s', (rate, text) => expect(rateText(rate)).toBe(text));

  test.each([
    [950, '950'],
    [1000, '1k'],
    [1250, '1.3k'],
    [1e6, '1M'],
  ])('a count of %d is %s on an axis', (count, text) => expect(shortCount(count)).toBe(text));

  test('a count of one uses the singular', () => {
    expect(counted(1, 'client')).toBe('1 client');
    expect(counted(0, 'client')).toBe('0 clients');
    expect(counted(12_345, 'client')).toBe('12,345 clients');
  });
});

describe('time formats', () => {
  test.each([
    [0.058, '0.058 ms'],
    [12, '12 ms'],
    [3200, '3.2 s'],
    [3201, '3.3 s'],
    [60_000, '1 min'],
    [3_900_000, '1 h 5 min'],
    [86_400_000, '1 d'],
  ])('a duration of %d ms is %s', (timeMs, text) => expect(durationText(timeMs)).toBe(text));

  test.each([
    [60_000, '1 min'],
    [90_000, '90 s'],
    [86_400_000, '1 d'],
    [1500, '1500 ms'],
  ])('a window of %d ms is %s', (windowMs, text) => expect(windowText(windowMs)).toBe(text));

  test('readLocalTime parses localTime', () => {
    const timeMs = 1_763_200_020_000;
    expect(readLocalTime(localTime(timeMs))).toBe(timeMs);
    expect(readLocalTime('')).toBeNaN();
  });
});
