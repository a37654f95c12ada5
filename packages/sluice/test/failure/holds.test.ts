/** Holds and blocks if the store cannot decide, or replies late. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FailureOptions, withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter } from '../../src/index.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { fakeStore, pass, type StoreMode, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

function setUp(options: FailureOptions, mode: StoreMode) {
  const inner = fakeStore(mode);
  const store = withFailurePolicy(inner, { deadlineMs: 20, ...options });
  const policies = {
    jobs: { concurrency: 3, lease: '1h' },
    login: { limit: 1, window: '1m', block: '1h' },
  } as const;
  const limiter = createLimiter({ policies, store });
  /** Returns what remains in the store. */
  const remaining = async (): Promise<number> => {
    inner.mode = 'reply';
    return (await createLimiter({ policies, store: inner }).peek('jobs', 'a')).remaining;
  };
  const reply = async (): Promise<void> => {
    inner.mode = 'reply';
    inner.release();
    for (let turns = 0; turns < 4; turns++) await turn();
  };
  return { inner, limiter, remaining, reply };
}

describe('holds and a failing store', () => {
  it('a hold of the local fallback is renewed and released in the fallback', async () => {
    const { limiter } = setUp({ onFailure: 'local' }, 'reject');
    const { receipt, fence, degraded } = await limiter.check('jobs', 'a', { cost: 3 });
    expect([degraded?.action, receipt!.charges[0].fence]).toEqual(['local', fence]);
    expect((await limiter.check('jobs', 'a')).allowed).toBe(false);
    expect(await limiter.renew(receipt!)).toBe(true);
    expect(await limiter.release(receipt!)).toBe(true);
    expect(await limiter.release(receipt!)).toBe(false);
    expect((await limiter.check('jobs', 'a')).allowed).toBe(true);
  });

  it('release and renew return false for a call that onFailure: allow admitted', async () => {
    const { limiter } = setUp({ onFailure: 'allow' }, 'reject');
    const { receipt, fence } = await limiter.check('jobs', 'a');
    expect(fence).toBeUndefined();
    expect(await limiter.release(receipt!)).toBe(false);
    expect(await limiter.renew(receipt!)).toBe(false);
  });

  it('release and renew reject if the store is unavailable', async () => {
    const { inner, limiter, remaining } = setUp({ onFailure: 'local' }, 'reply');
    const { receipt } = await limiter.check('jobs', 'a');
    inner.mode = 'reject';
    const unavailable = expect.objectContaining({ code: 'ERR_STORE_UNAVAILABLE' });
    await expect(limiter.renew(receipt!)).rejects.toThrow(unavailable);
    await expect(limiter.release(receipt!)).rejects.toThrow(unavailable);
    expect(await remaining()).toBe(2);
    expect(await limiter.release(receipt!)).toBe(true);
    expect(await remaining()).toBe(3);
  });

  it('a hold that the store takes after the call was denied is released', async () => {
    const { limiter, remaining, reply } = setUp({ onFailure: 'deny' }, 'hold');
    const pending = limiter.check('jobs', 'a', { cost: 2 });
    await pass(20);
    expect((await pending).allowed).toBe(false);
    await reply();
    expect(await remaining()).toBe(3);
  });

  it('after a renewal, release also ends the hold that the store took late', async () => {
    const { inner, limiter, remaining, reply } = setUp({ onFailure: 'local' }, 'hold');
    const pending = limiter.check('jobs', 'a', { cost: 2 });
    await pass(20);
    const { receipt } = await pending;
    await reply();
    expect(await remaining()).toBe(1);
    inner.mode = 'reply';
    expect(await limiter.renew(receipt!)).toBe(true);
    expect(await limiter.release(JSON.parse(JSON.stringify(receipt)))).toBe(true);
    await turn();
    expect(await remaining()).toBe(3);
  });

  it('unblock also ends a block of the local fallback', async () => {
    const { limiter } = setUp({ onFailure: 'local' }, 'reject');
    await limiter.check('login', 'a');
    expect((await limiter.check('login', 'a')).blockedUntilMs).toBeDefined();
    await expect(limiter.unblock('login', 'a')).rejects.toThrow('The store');
    expect((await limiter.peek('login', 'a')).blockedUntilMs).toBeUndefined();
  });
});
