import { describe, expect, it } from 'vitest';
import { oneKey } from './worked.ts';

const policy = { algorithm: 'sliding-counter', limit: 100, window: 60_000 } as const;

describe('sliding-counter', () => {
  it('sliding-counter weights the previous window by the remaining overlap', () => {
    const key = oneKey(policy);
    key.check(0, 80);
    // 15 s into the next window three quarters of 80 count, and 30 of this one: 90.
    key.check(75_000, 30);
    expect(key.peek(75_000).remaining).toBe(10);
  });

  it('retryAfterMs of sliding-counter is exact if the previous window denies', () => {
    const key = oneKey(policy);
    key.check(0, 100);
    // 100 x left / 60 s must fall to 90: left <= 54 s.
    expect(key.check(60_000, 10).retryAfterMs).toBe(6000);
    expect(key.check(65_999, 10).allowed).toBe(false);
    expect(key.check(66_000, 10).allowed).toBe(true);
  });

  it('retryAfterMs of sliding-counter is exact if the current window denies', () => {
    const key = oneKey(policy);
    key.check(1000, 100);
    expect(key.check(1000, 1).retryAfterMs).toBe(59_600);
    expect(key.check(1000, 100).retryAfterMs).toBe(119_000);
  });

  it('sliding-counter can admit almost twice the limit in one true window', () => {
    const key = oneKey(policy);
    let admitted = key.check(59_999, 100).allowed ? 100 : 0;
    for (let ms = 60_000; ms < 119_999; ms++) if (key.check(ms).allowed) admitted++;
    expect(admitted).toBeGreaterThan(190);
    expect(admitted).toBeLessThan(200);
  });

  it('a refund of sliding-counter applies to the window of the charge, also the previous', () => {
    const key = oneKey(policy);
    const first = key.check(0, 60);
    const second = key.check(60_000, 20);
    expect(key.refund(90_000, first)).toBe(60);
    expect(key.refund(90_000, second)).toBe(20);
    expect(key.peek(90_000)).toMatchObject({ remaining: 100, resetAfterMs: 0 });
  });

  it('a refund of sliding-counter after two windows returns nothing', () => {
    const key = oneKey(policy);
    const first = key.check(0, 60);
    key.settle(1, key.check(0, 1), 0);
    expect(key.refund(130_000, first)).toBe(0);
  });
});
