import { expect, test } from 'vitest';
import { localTime, readLocalTime } from '../src/clock.ts';

test('readLocalTime parses localTime', () => {
  const timeMs = 1_763_200_020_000;
  expect(readLocalTime(localTime(timeMs))).toBe(timeMs);
  expect(readLocalTime('')).toBeNaN();
});
