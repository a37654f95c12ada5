import { describe, expect, it } from 'vitest';
import { describeKey } from '../../src/engine.ts';
import { createLimiter, definePolicy, ManualClock } from '../../src/index.ts';
import { oneKey } from './worked.ts';

const policy = { concurrency: 3, lease: 1000 } as const;

describe('concurrency', () => {
  it('a hold counts until its lease ends', () => {
    const key = oneKey(policy);
    expect(key.check(0, 3)).toMatchObject({ allowed: true, remaining: 0, resetAfterMs: 1000 });
    expect(key.check(999)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(key.check(1000)).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('retryAfterMs of a concurrency limit is the time until enough holds have expired', () => {
    const key = oneKey(policy);
    for (const ms of [0, 100, 200]) key.check(ms);
    expect(key.check(500, 1).retryAfterMs).toBe(500);
    expect(key.check(500, 2).retryAfterMs).toBe(600);
    expect(key.check(500, 3).retryAfterMs).toBe(700);
  });

  it('a refund releases a hold', () => {
    const key = oneKey(policy);
    const held = key.check(0, 2);
    expect(key.refund(100, held)).toBe(2);
    expect(key.peek(100)).toMatchObject({ remaining: 3, resetAfterMs: 0 });
  });

  it('describeKey of a concurrency limit returns the held cost and when holds expire', () => {
    const { params } = definePolicy('p', { concurrency: 20, lease: '10s' });
    const clock = new ManualClock(1_745_000_100_000);
    const policies = { p: { concurrency: 20, lease: '10s' } } as const;
    const limiter = createLimiter({ policies, clock });
    limiter.checkSync('p', 'k', { cost: 7 });
    clock.advance(2000);
    limiter.checkSync('p', 'k', { cost: 10 });
    clock.advance(5000);
    const state = limiter.inspectSync('p', 'k');
    const describe = (cost: number) =>
      describeKey('concurrency', state, params!, clock.now(), cost);
    expect(describe(1)).toMatchObject({
      shape: 'entries',
      used: 17,
      remaining: 3,
      usedText: '17 of 20 held',
      sumText: '17 + 1 = 18 <= 20',
      freesText: 'oldest hold, of cost 7, expires in 3 s',
    });
    expect(describe(15).freesText).toBe('oldest 2 holds, of cost 17, expire in 5 s');
    expect(describe(21).freesText).toBe('never: at most 20 fits');
  });
});
