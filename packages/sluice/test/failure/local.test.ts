/** The local fallback: limits in this process while the store is unavailable. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter, ManualClock, type PolicyOptions } from '../../src/index.ts';
import { collect } from '../memory/table-model.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { fakeStore, pass, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();

/** Returns a limiter with an unavailable store and a clock that does not move. */
function setUp(policy: PolicyOptions, localShare?: number) {
  const clock = new ManualClock(1_745_000_100_000);
  const inner = fakeStore('reject');
  const store = withFailurePolicy(inner, localShare === undefined ? {} : { localShare });
  const limiter = createLimiter({ policies: { p: policy, q: '4/1m' }, store, clock });
  /** Makes `calls` calls and returns how many are admitted. */
  const admitted = async (calls: number): Promise<number> => {
    let count = 0;
    for (let call = 0; call < calls; call++) {
      if ((await limiter.check('p', 'a')).allowed) count++;
    }
    return count;
  };
  return { clock, inner, limiter, admitted };
}

const algorithms = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
] as const;

describe.each(algorithms)('with %s', (algorithm) => {
  it(`the local fallback of ${algorithm} enforces the limit in each window`, async () => {
    const { clock, admitted } = setUp({ limit: 10, window: '1s', algorithm });
    expect(await admitted(25)).toBe(10);
    clock.advance(2000);
    expect(await admitted(25)).toBe(10);
  });

  it(`localShare rounds the limit of ${algorithm} down, to at least 1`, async () => {
    expect(await setUp({ limit: 10, window: '1s', algorithm }, 0.39).admitted(25)).toBe(3);
    expect(await setUp({ limit: 10, window: '1s', algorithm }, 0.01).admitted(25)).toBe(1);
    expect(await setUp({ limit: 10, window: '1s', algorithm }, 1).admitted(25)).toBe(10);
  });

  it(`a cost above the local share of ${algorithm} is denied without an error`, async () => {
    const { limiter } = setUp({ limit: 10, window: '1s', algorithm }, 0.5);
    const decision = await limiter.check('p', 'a', { cost: 6 });
    expect(decision).toMatchObject({
      allowed: false,
      cost: 6,
      limit: 5,
      degraded: { reason: 'error', action: 'local' },
    });
    expect(decision.retryAfterMs).toBeGreaterThanOrEqual(1);
    expect((await limiter.check('p', 'a', { cost: 5 })).allowed).toBe(true);
  });
});

it('localShare applies to the burst and the rate of a token bucket', async () => {
  const policy = { limit: 10, window: '1s', algorithm: 'token-bucket', burst: 40 } as const;
  const { clock, admitted } = setUp(policy, 0.5);
  expect(await admitted(100)).toBe(20);
  clock.advance(1000);
  expect(await admitted(100)).toBe(5);
});

it('localShare applies to limits that are functions of the key', async () => {
  const limit = (key: string): number => (key === 'a' ? 8 : 2);
  const { limiter } = setUp({ limit, window: '1m' }, 0.5);
  expect((await limiter.check('p', 'a')).remaining).toBe(3);
  expect((await limiter.check('p', 'b')).remaining).toBe(0);
});

it('the local fallback charges all limits of a check or none', async () => {
  const { limiter } = setUp({ limit: 10, window: '1m' });
  const both = [
    { policy: 'p', key: 'a', cost: 3 },
    { policy: 'q', key: 'a', cost: 3 },
  ] as const;
  expect((await limiter.check(both)).allowed).toBe(true);
  const denied = await limiter.check(both);
  expect(denied).toMatchObject({ allowed: false, policy: 'q', degraded: { action: 'local' } });
  expect(denied.limits.map(({ allowed }) => allowed)).toEqual([true, false]);
  expect((await limiter.peek('p', 'a')).remaining).toBe(7);
});

it('one cost above the local share denies the check, which charges nothing', async () => {
  const { limiter } = setUp({ limit: 10, window: '1m' }, 0.5);
  const decision = await limiter.check([
    { policy: 'p', key: 'a', cost: 1 },
    { policy: 'q', key: 'a', cost: 3 },
  ]);
  expect(decision.allowed).toBe(false);
  expect((await limiter.peek('p', 'a')).remaining).toBe(5);
});

it('reset deletes the local key even if the store is unreachable', async () => {
  const { limiter, admitted } = setUp({ limit: 3, window: '1m' });
  expect(await admitted(5)).toBe(3);
  await expect(limiter.reset('p', 'a')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
  expect(await admitted(5)).toBe(3);
});

it('charges of the local fallback still count in the next outage', async () => {
  const { inner, limiter, admitted } = setUp({ limit: 3, window: '1m' });
  expect(await admitted(2)).toBe(2);
  inner.mode = 'reply';
  expect((await limiter.check('p', 'a')).remaining).toBe(2);
  inner.mode = 'reject';
  expect(await admitted(5)).toBe(1);
});

it('the local fallback uses the clock of the limiter', async () => {
  const { clock, limiter } = setUp({ limit: 3, window: '1m' });
  expect((await limiter.check('p', 'a')).atMs).toBe(clock.now());
  expect((await limiter.check('p', 'a', { onFailure: 'allow' })).atMs).toBe(clock.now());
  expect((await limiter.check('p', 'a', { onFailure: 'deny' })).atMs).toBe(clock.now());
});

describe('the memory of the local store', () => {
  afterEach(() => void vi.useRealTimers());

  /** Returns the bytes of typed arrays in use. Another thread frees unused ones later. */
  async function bytesOfArrays(): Promise<number> {
    let least = Number.POSITIVE_INFINITY;
    for (let look = 0; look < 10; look++) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
      least = Math.min(least, process.memoryUsage().arrayBuffers);
    }
    return least;
  }

  it('the memory of the local fallback is released when all charges have expired', async () => {
    useFakeTime();
    const store = withFailurePolicy(fakeStore('reject'));
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    const before = await bytesOfArrays();
    for (let key = 0; key < 50_000; key++) await limiter.check('p', `key-${key}`);
    const held = (await bytesOfArrays()) - before;
    expect(held).toBeGreaterThan(2_000_000);
    await pass(119_000);
    expect((await limiter.check('p', 'key-0')).remaining).toBe(4);
    await pass(119_000);
    expect((await bytesOfArrays()) - before).toBeGreaterThan(held / 2);
    await pass(2000);
    expect((await bytesOfArrays()) - before).toBeLessThan(held / 10);
    await store.close();
  });
});
