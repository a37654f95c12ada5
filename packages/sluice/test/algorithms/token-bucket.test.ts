import { describe, expect, it } from 'vitest';
import { oneKey } from './worked.ts';

const policy = { algorithm: 'token-bucket', limit: 60, window: 60_000, burst: 10 } as const;

describe('token-bucket', () => {
  it('a token bucket starts full, with the burst as its capacity', () => {
    const key = oneKey(policy);
    expect(key.peek(0)).toMatchObject({ limit: 10, remaining: 10, resetAfterMs: 0 });
    expect(key.check(0, 10).allowed).toBe(true);
  });

  it('a token bucket refills at a constant rate of one token per second', () => {
    const key = oneKey(policy);
    key.check(0, 10);
    expect(key.check(0)).toMatchObject({
      allowed: false,
      retryAfterMs: 1000,
      resetAfterMs: 10_000,
    });
    expect(key.check(999).allowed).toBe(false);
    expect(key.check(1000).allowed).toBe(true);
    expect(key.peek(3500)).toMatchObject({ remaining: 2, resetAfterMs: 7500 });
  });

  it('a token bucket keeps fractions of a token exactly', () => {
    const key = oneKey({ algorithm: 'token-bucket', limit: 3, window: 1000 });
    key.check(0, 3);
    // A token takes 333.3 ms, so three take 1000 and not 3 x 334.
    expect(key.check(0, 1).retryAfterMs).toBe(334);
    expect(key.check(0, 3).retryAfterMs).toBe(1000);
    expect(key.check(334).allowed).toBe(true);
    expect(key.check(334).retryAfterMs).toBe(333);
  });

  it('a token bucket never holds more than the burst', () => {
    const key = oneKey(policy);
    key.check(0);
    expect(key.peek(365 * 86_400_000).remaining).toBe(10);
  });

  it('a refund of a token bucket restores tokens up to the burst', () => {
    const key = oneKey(policy);
    const decision = key.check(0, 8);
    expect(key.refund(5000, decision)).toBe(3);
    expect(key.peek(5000)).toMatchObject({ remaining: 10, resetAfterMs: 0 });
  });

  it('a refund of a token bucket returns only tokens that have not been refilled', () => {
    const key = oneKey(policy);
    const first = key.check(0, 10);
    expect(key.check(5000, 5).allowed).toBe(true);
    // 5 of the 10 tokens have been refilled and spent since. Returning all 10 would let 15 through.
    expect(key.refund(5000, first)).toBe(5);
    expect(key.peek(5000).remaining).toBe(5);
  });

  it('a refund of a token bucket returns nothing after the charge has been refilled', () => {
    const key = oneKey(policy);
    const first = key.check(0, 4);
    key.check(4000, 10);
    expect(key.refund(4000, first)).toBe(0);
    expect(key.peek(4000).remaining).toBe(0);
  });

  it('settling to a lower cost returns only tokens that have not been refilled', () => {
    const key = oneKey(policy);
    const first = key.check(0, 10);
    key.check(8000, 8);
    expect(key.settle(8000, first, 1)).toBe(-2);
    expect(key.peek(8000).remaining).toBe(2);
  });

  it('settling to a higher cost charges nothing after the bucket has refilled', () => {
    const key = oneKey(policy);
    const decision = key.check(0, 10);
    expect(key.settle(20_000, decision, 15)).toBe(0);
    expect(key.check(20_000, 10).allowed).toBe(true);
  });

  it('a refund does not change the latest time of a bucket', () => {
    const key = oneKey(policy);
    const first = key.check(0, 10);
    key.refund(5000, first);
    // The clock is set back: the newest admission was at 0, so now is 2000 and not 5000.
    expect(key.check(2000).atMs % 60_000).toBe(2000);
  });

  it('settling to a higher cost causes a debt that the bucket refills', () => {
    const key = oneKey(policy);
    key.settle(0, key.check(0, 10), 15);
    expect(key.check(0)).toMatchObject({ allowed: false, retryAfterMs: 6000, remaining: 0 });
    expect(key.check(6000).allowed).toBe(true);
  });
});
