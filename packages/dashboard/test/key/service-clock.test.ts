import { expect, test } from 'vitest';
import { ServiceClock } from '../../src/key/service-clock.ts';

test('tells the time of the service, whatever this browser thinks', () => {
  const clock = new ServiceClock();
  expect(clock.isKnown).toBe(false);
  clock.heard(1_000_050, 5000, 5100);
  expect(clock.isKnown).toBe(true);
  expect(clock.timeAt(5100)).toBe(1_000_100);
});

test('goes by the answer that came back fastest', () => {
  const clock = new ServiceClock();
  clock.heard(1000, 0, 10);
  clock.heard(1200, 100, 300);
  expect(clock.timeAt(0)).toBe(995);
  clock.heard(2001, 1000, 1004);
  expect(clock.timeAt(0)).toBe(999);
});

test('begins anew when a clock was set', () => {
  const clock = new ServiceClock();
  clock.heard(1000, 0, 10);
  clock.heard(500_000, 1000, 1200);
  expect(clock.timeAt(1100)).toBe(500_000);
});

test('does not hold on to one answer for ever', () => {
  const clock = new ServiceClock();
  clock.heard(1000, 0, 0);
  for (let answer = 0; answer < 100; answer++) clock.heard(answer + 1010, answer, answer + 20);
  expect(clock.timeAt(0)).toBe(1000);
  for (let answer = 0; answer < 61; answer++) clock.heard(answer + 1015, answer, answer + 20);
  expect(clock.timeAt(0)).toBe(1005);
});
