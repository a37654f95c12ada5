import { describe, expect, it } from 'vitest';
import { oneKey } from './worked.ts';

const policy = { algorithm: 'sliding-log', limit: 5, window: 60_000 } as const;

describe('sliding-log', () => {
  it('a sliding log admits a burst once at any boundary', () => {
    const key = oneKey(policy);
    expect(key.check(59_000, 5).allowed).toBe(true);
    expect(key.check(60_000).allowed).toBe(false);
    expect(key.check(118_999).allowed).toBe(false);
    expect(key.check(119_000, 5).allowed).toBe(true);
  });

  it('an entry of a sliding log counts for exactly one window', () => {
    const key = oneKey(policy);
    key.check(0, 2);
    expect(key.peek(59_999).remaining).toBe(3);
    expect(key.peek(60_000).remaining).toBe(5);
  });

  it('retryAfterMs covers all entries that must expire, not only the oldest', () => {
    const key = oneKey(policy);
    for (const ms of [0, 100, 200, 300, 400]) key.check(ms);
    expect(key.check(500, 1).retryAfterMs).toBe(59_500);
    expect(key.check(500, 3).retryAfterMs).toBe(59_700);
    expect(key.check(500, 5).retryAfterMs).toBe(59_900);
  });

  it('a refund of the newest entry of a sliding log shortens resetAfterMs', () => {
    const key = oneKey(policy);
    key.check(0);
    const newest = key.check(1000, 2);
    expect(key.refund(2000, newest)).toBe(2);
    expect(key.peek(2000)).toMatchObject({ remaining: 4, resetAfterMs: 58_000 });
  });

  it('a refund of an older entry of a sliding log does not affect newer entries', () => {
    const key = oneKey(policy);
    const older = key.check(0, 2);
    key.check(1000, 3);
    expect(key.refund(2000, older)).toBe(2);
    expect(key.check(2000, 3)).toMatchObject({ allowed: false, retryAfterMs: 59_000 });
  });

  it('a refund does not let the clock step back before dropped entries', () => {
    const key = oneKey({ algorithm: 'sliding-log', limit: 1, window: 1000 });
    key.check(0);
    const second = key.check(1500);
    expect(key.refund(1500, second)).toBe(1);
    expect(key.peek(1500)).toMatchObject({ remaining: 1, resetAfterMs: 0 });
    // The call at 0 has been dropped, so a check at 900 is decided as if at 1500.
    expect(key.check(900).allowed).toBe(true);
    expect(key.check(900)).toMatchObject({ allowed: false, retryAfterMs: 1000 });
  });

  it('refunded entries of a sliding log are deleted', () => {
    const key = oneKey({ algorithm: 'sliding-log', limit: 2, window: 2 ** 31 - 1 });
    let previous = key.check(0);
    for (let round = 1; round <= 5000; round++) {
      const next = key.check(round);
      expect(key.refund(round, previous)).toBe(1);
      previous = next;
    }
    expect(key.entries(5000)).toEqual([5000]);
    expect(key.check(5000 + 2 ** 31 - 3)).toMatchObject({ allowed: true, remaining: 0 });
  });

  it('an overcharge of a sliding log denies calls until the entry expires', () => {
    const key = oneKey(policy);
    key.check(0, 2);
    key.settle(20, key.check(10), 100);
    expect(key.check(30)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 59_980 });
    expect(key.peek(30)).toMatchObject({ allowed: false, remaining: 0 });
  });

  it('an overcharge of 2^40 denies calls until the entry expires', () => {
    const key = oneKey(policy);
    key.settle(1, key.check(0), 2 ** 40);
    expect(key.check(59_999)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(key.check(60_000, 5).allowed).toBe(true);
  });
});
