import { describe, expect, it } from 'vitest';
import { oneKey } from './worked.ts';

const policy = { algorithm: 'sliding-buckets', limit: 10, window: 60_000, buckets: 6 } as const;

describe('sliding-buckets', () => {
  it('a bucket counts in full while a part of it may be inside the window', () => {
    const key = oneKey(policy);
    key.check(0, 10);
    expect(key.check(69_998)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(key.check(69_999, 10).allowed).toBe(true);
  });

  it('sliding-buckets frees a charge in the last millisecond of a bucket without delay', () => {
    const key = oneKey(policy);
    key.check(9999, 10);
    // The last millisecond of a bucket is not late at all.
    expect(key.check(69_999).allowed).toBe(true);
  });

  it('sliding-buckets frees all charges of one bucket at the same time', () => {
    const key = oneKey(policy);
    for (let ms = 0; ms < 10; ms++) key.check(ms);
    expect(key.check(100, 10).retryAfterMs).toBe(69_899);
    expect(key.check(100, 1).retryAfterMs).toBe(69_899);
  });

  it('sliding-buckets has at most one bucket per millisecond', () => {
    const key = oneKey({ algorithm: 'sliding-buckets', limit: 1, window: 7 });
    key.check(0);
    expect(key.check(6)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(key.check(7).allowed).toBe(true);
  });

  it('a clock step back inside the newest bucket admits nothing twice', () => {
    const key = oneKey({ algorithm: 'sliding-buckets', limit: 10, window: 60_000 });
    key.check(999, 10);
    expect(key.check(60_999).allowed).toBe(true);
    expect(key.check(60_499, 9).allowed).toBe(false);
  });

  it('a refund of sliding-buckets applies to the bucket of the charge', () => {
    const key = oneKey(policy);
    const first = key.check(1000, 4);
    key.check(2000, 3);
    key.check(12_000, 3);
    expect(key.refund(15_000, first)).toBe(4);
    expect(key.check(15_000, 5)).toMatchObject({ allowed: false, remaining: 4 });
  });
});
