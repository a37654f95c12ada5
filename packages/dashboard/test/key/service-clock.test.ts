import { expect, test } from 'vitest';
import { ServiceClock } from '../../src/key/service-clock.ts';

test('ServiceClock returns the time of the service', () => {
  const clock = new ServiceClock();
  expect(clock.isKnown).toBe(false);
  clock.add(1_000_050, 5000, 5100);
  expect(clock.isKnown).toBe(true);
  expect(clock.timeAt(5100)).toBe(1_000_100);
});

test('ServiceClock prefers the response with the shortest round trip', () => {
  const clock = new ServiceClock();
  clock.add(1000, 0, 10);
  clock.add(1200, 100, 300);
  expect(clock.timeAt(0)).toBe(995);
  clock.add(2001, 1000, 1004);
  expect(clock.timeAt(0)).toBe(999);
});

test('ServiceClock starts over when a clock was set', () => {
  const clock = new ServiceClock();
  clock.add(1000, 0, 10);
  clock.add(500_000, 1000, 1200);
  expect(clock.timeAt(1100)).toBe(500_000);
});

test('ServiceClock replaces the best sample after 60 others', () => {
  const clock = new ServiceClock();
  clock.add(1000, 0, 0);
  for (let sample = 0; sample < 100; sample++) clock.add(sample + 1010, sample, sample + 20);
  expect(clock.timeAt(0)).toBe(1000);
  for (let sample = 0; sample < 61; sample++) clock.add(sample + 1015, sample, sample + 20);
  expect(clock.timeAt(0)).toBe(1005);
});
