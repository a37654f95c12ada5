import { expect, test } from 'vitest';
import { localTime, parseLocalTime } from '../src/clock.ts';

test('parseLocalTime reads the output of localTime and returns NaN for an empty text', () => {
  const timeMs = 1_763_200_020_000;
  expect(parseLocalTime(localTime(timeMs))).toBe(timeMs);
  expect(parseLocalTime('')).toBeNaN();
});
