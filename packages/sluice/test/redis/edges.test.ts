/** The largest and smallest integers and times, on memory and on Redis. */
import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  ManualClock,
  memoryStore,
  type PolicyOptions,
  type Receipt,
} from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { newPrefix, useRedis } from './campaign.ts';

const world = useRedis();
const MOST = Number.MAX_SAFE_INTEGER;

describe.each([
  ['memory', () => memoryStore()],
  [
    'Redis',
    () =>
      redisStore(world.send, {
        prefix: newPrefix(),
        onFailure: 'throw',
        deadlineMs: 10_000,
      } as const),
  ],
] as const)('on %s', (storeName, open) => {
  const setUp = (policy: PolicyOptions, startMs: number) => {
    const clock = new ManualClock(startMs);
    return { clock, limiter: createLimiter({ policies: { p: policy }, store: open(), clock }) };
  };

  it(`on ${storeName}, an admission at time 0 expires one window later`, async () => {
    const { clock, limiter } = setUp({ limit: 2, window: 1000 }, 0);
    await limiter.check('p', 'a');
    clock.advance(500);
    await limiter.check('p', 'a');
    expect(await limiter.check('p', 'a')).toMatchObject({ allowed: false, retryAfterMs: 500 });
  });

  it(`on ${storeName}, the largest cost waits until all entries have expired`, async () => {
    const { limiter } = setUp({ limit: MOST, window: 1 }, 1_745_000_100_000);
    await limiter.check('p', 'a', { cost: 4 });
    const denied = await limiter.check('p', 'a', { cost: MOST });
    expect(denied).toMatchObject({ allowed: false, remaining: MOST - 4, retryAfterMs: 1 });
  });

  it(`on ${storeName}, retryAfterMs is exact after the largest debt`, async () => {
    const { limiter } = setUp({ limit: 5e9, window: 1000 }, 1_745_000_100_000);
    const { receipt } = await limiter.check('p', 'a', { cost: 5e9 });
    await limiter.settle(receipt!, MOST);
    const denied = await limiter.check('p', 'a', { cost: 5e9 });
    expect(denied).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 1000 });
  });

  it(`on ${storeName}, a log stays exact after one of its entries is settled to 2^32`, async () => {
    const { clock, limiter } = setUp({ limit: 100, window: 1000 }, 1_745_000_100_000);
    const receipts: Receipt[] = [];
    for (let call = 1; call <= 4; call++) {
      const { receipt } = await limiter.check('p', 'a', { cost: 10 * call });
      receipts.push(receipt!);
      clock.advance(100);
    }
    await limiter.settle(receipts[1], 25);
    await limiter.settle(receipts[2], 2 ** 32);
    const costs = [10, 25, 2 ** 32, 40];
    const state = await limiter.inspect('p', 'a');
    expect(state?.entries?.map(({ cost }) => cost)).toEqual(costs);
    expect(await limiter.check('p', 'a')).toMatchObject({ allowed: false, retryAfterMs: 800 });
    clock.advance(800);
    expect(await limiter.check('p', 'a')).toMatchObject({ allowed: true, remaining: 59 });
  });
});

it('a foreign value under one Redis key does not open the breaker', async () => {
  const prefix = newPrefix();
  const store = redisStore(world.send, { prefix, onFailure: 'deny', deadlineMs: 10_000 });
  const limiter = createLimiter({ policies: { p: '5/1m' }, store });
  await limiter.check('p', 'good');
  await world.server.command('LPUSH', `${prefix}{bad}pL1m`, 'not ours');
  for (let call = 0; call < 20; call++) {
    const { degraded } = await limiter.check('p', 'bad');
    expect(degraded).toMatchObject({ reason: 'error', action: 'deny' });
  }
  expect(store.breaker).toBe('closed');
  expect(await limiter.check('p', 'good')).toMatchObject({ allowed: true, remaining: 3 });
});

it('in Redis, a token bucket with the largest debt denies the next call', async () => {
  const clock = new ManualClock(1_745_000_100_001);
  const policy = { limit: 1, window: '1d', algorithm: 'token-bucket' } as const;
  const store = redisStore(world.send, {
    prefix: newPrefix(),
    onFailure: 'throw',
    deadlineMs: 10_000,
  });
  const limiter = createLimiter({ policies: { p: policy }, store, clock });
  for (let offset = 0; offset < 3; offset++) {
    const key = `key-${offset}`;
    const { receipt } = await limiter.check('p', key);
    await limiter.settle(receipt!, MOST - offset);
    clock.advance(1);
    expect((await limiter.check('p', key)).allowed).toBe(false);
  }
});
