import { describe, expect, it } from 'vitest';
import { oneKey } from './worked.ts';

const policy = { algorithm: 'fixed-window', limit: 50, window: 10_000 } as const;

describe('fixed-window', () => {
  it('a fixed window admits a full burst on each side of a boundary', () => {
    const key = oneKey(policy);
    expect(key.check(9000, 50).allowed).toBe(true);
    expect(key.check(9999).allowed).toBe(false);
    expect(key.check(10_000, 50).allowed).toBe(true);
  });

  it('a full fixed window denies until it ends', () => {
    const key = oneKey(policy);
    key.check(1234, 50);
    expect(key.check(4000, 7)).toMatchObject({ retryAfterMs: 6000, resetAfterMs: 6000 });
  });

  it('a refund of a fixed window applies only to the window of the charge', () => {
    const key = oneKey(policy);
    const early = key.check(0, 20);
    const late = key.check(10_000, 20);
    expect(key.refund(10_001, early)).toBe(0);
    expect(key.refund(10_001, late)).toBe(20);
    expect(key.peek(10_001)).toMatchObject({ remaining: 50, resetAfterMs: 0 });
  });

  it('after a clock step back over a boundary, a fixed window decides in the newest window', () => {
    const key = oneKey(policy);
    key.check(10_500, 50);
    expect(key.check(9000)).toMatchObject({ allowed: false, retryAfterMs: 10_000 });
  });

  it('an overcharge of a fixed window expires with the window', () => {
    const key = oneKey(policy);
    key.settle(1, key.check(0), 1000);
    expect(key.check(2)).toMatchObject({ allowed: false, retryAfterMs: 9998 });
    expect(key.check(10_000, 50).allowed).toBe(true);
  });
});
