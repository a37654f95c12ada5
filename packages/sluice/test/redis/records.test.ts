/** Records of ids and used receipts in Redis: number, size and expiry. */
import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock, type PolicyOptions } from '../../src/index.ts';
import { definePolicy } from '../../src/policy.ts';
import type { Adjustment, Store } from '../../src/store.ts';
import { Batcher } from '../../src/stores/redis/batch.ts';
import type { Send } from '../../src/stores/redis/index.ts';
import { KeyNames } from '../../src/stores/redis/keys.ts';
import { RedisStore } from '../../src/stores/redis/redis-store.ts';
import { storeContract } from '../../src/testing/index.ts';
import { isFull, newPrefix, useRedis } from './campaign.ts';

const world = useRedis();
const START_MS = 1_745_000_100_000;
const HOUR_MS = 3_600_000;
const HOURLY = definePolicy('p', '1000000/1h');

/** The store without its failure policy. */
function open(prefix = newPrefix(), send: Send = world.send, isCluster = false): RedisStore {
  return new RedisStore(new Batcher(send, isCluster, 10_000), isCluster, new KeyNames(prefix));
}

function limiterOn(store: Store, policies: Record<string, PolicyOptions | string>) {
  const clock = new ManualClock(START_MS);
  return { clock, limiter: createLimiter({ policies: policies as { p: string }, store, clock }) };
}

/** The refund of a charge of cost 1. */
const refundAt = (atMs: number, key = 'a', policy = HOURLY): Adjustment => ({
  policy,
  params: policy.paramsFor(key),
  charge: { policy: policy.name, key, cost: 1, atMs },
  delta: -1,
});

const usage = (key: string): Promise<number> =>
  world.server.command<number>('MEMORY', 'USAGE', key, 'SAMPLES', 0);

describe('the store contract without a failure policy', () => {
  // In the short form, the facts about ids and receipts. redis-store.test.ts has all.
  const facts = storeContract.filter(({ name }) => isFull || /\bids?\b|receipt/.test(name));
  for (const { name, run } of facts) {
    it(`the Redis store without a failure policy: ${name}`, () => run(() => open()));
  }
});

describe('ids', () => {
  it('an id of 900 characters takes at most 100 bytes in Redis', async () => {
    const prefix = newPrefix();
    const { limiter } = limiterOn(open(prefix), { p: '1000000/1h' });
    for (let call = 0; call < 1000; call++) {
      await limiter.check('p', 'a', { id: `${call}-`.padEnd(900, 'x') });
    }
    const bytes = await usage(`${prefix}{a}pL1h=`);
    console.log(`an id takes ${bytes / 1000} bytes`);
    expect(bytes).toBeLessThanOrEqual(100_000);
  });

  it('Redis keeps at most 10,000 ids per limit, and a new id evicts another one', async () => {
    const prefix = newPrefix();
    const { limiter } = limiterOn(open(prefix), { p: '1000000/1h' });
    for (let call = 0; call < 10_400; call += 400) {
      const ids = Array.from({ length: 400 }, (_, place) => `${call + place}`);
      await Promise.all(ids.map((id) => limiter.check('p', 'a', { id })));
    }
    expect(await world.client.hlen(`${prefix}{a}pL1h=`)).toBe(10_000);
    const { remaining } = await limiter.check('p', 'a', { id: 'new' });
    expect((await limiter.check('p', 'a', { id: 'new' })).remaining).toBe(remaining);
  });

  it('expired ids are deleted while new ones are added', async () => {
    const prefix = newPrefix();
    const { clock, limiter } = limiterOn(open(prefix), { p: '1000000/1h' });
    for (let call = 0; call < 4000; call++) {
      // About 500 ids are valid at a time.
      clock.advance(HOUR_MS / 500);
      await limiter.check('p', 'a', { id: `${call}` });
    }
    expect(await world.client.hlen(`${prefix}{a}pL1h=`)).toBeLessThan(1200);
  });

  it('a check with damaged id records is rejected and charges nothing', async () => {
    const prefix = newPrefix();
    const { limiter } = limiterOn(open(prefix), { p: '5/1h', q: '5/1h' });
    await world.client.lpush(`${prefix}{a}qL1h=`, 'x');
    const both = [
      { policy: 'p', key: 'a' },
      { policy: 'q', key: 'a' },
    ] as never;
    await expect(limiter.check(both, { id: 'x' })).rejects.toMatchObject({
      message: `ERR not records of this limiter: ${prefix}{a}qL1h=`,
      isOfKey: true,
    });
    expect((await limiter.peek('p', 'a')).remaining).toBe(5);
  });
});

describe('used receipts', () => {
  it('a used receipt takes at most 80 bytes in Redis', async () => {
    const prefix = newPrefix();
    const store = open(prefix);
    for (let made = 0; made < 1000; made++) {
      await store.adjustOnce(`receipt-${made}`, [refundAt(START_MS)], START_MS);
    }
    const bytes = await usage(`${prefix}{a}pL1h=`);
    console.log(`a used receipt takes ${bytes / 1000} bytes`);
    expect(bytes).toBeLessThanOrEqual(80_000);
  });

  it('a receipt counts as used in all stores with the same prefix', async () => {
    const prefix = newPrefix();
    const [one, other] = [open(prefix), open(prefix)];
    const { limiter } = limiterOn(one, { p: '1000000/1h' });
    await limiter.check('p', 'a');
    expect(await one.adjustOnce('r', [refundAt(START_MS)], START_MS)).toEqual([-1]);
    expect(await other.adjustOnce('r', [refundAt(START_MS)], START_MS)).toBeUndefined();
  });

  it('a used receipt is kept for two windows after the charge, not after its use', async () => {
    const prefix = newPrefix();
    const store = open(prefix);
    const nowMs = START_MS + HOUR_MS;
    await store.adjustOnce('r', [refundAt(START_MS)], nowMs);
    const leftMs = await world.client.pttl(`${prefix}{a}pL1h=`);
    // Two windows from the charge, and one more hour with an injected clock.
    expect(leftMs).toBeLessThanOrEqual(2 * HOUR_MS);
    expect(leftMs).toBeGreaterThan(2 * HOUR_MS - 60_000);
    await store.adjustOnce('late', [refundAt(START_MS)], START_MS + 2 * HOUR_MS);
    expect(await world.client.hlen(`${prefix}{a}pL1h=`)).toBe(1);
  });

  it('after 10,000 used receipts, every further receipt counts as used', async () => {
    const prefix = newPrefix();
    const store = open(prefix);
    const { limiter } = limiterOn(store, { p: '1000000/1h' });
    for (let made = 0; made < 10_000; made += 500) {
      const some = Array.from({ length: 500 }, (_, place) =>
        store.adjustOnce(`${made + place}`, [refundAt(START_MS)], START_MS),
      );
      await Promise.all(some);
    }
    await limiter.check('p', 'a');
    expect(await store.adjustOnce('one more', [refundAt(START_MS)], START_MS)).toBeUndefined();
    expect(await store.adjustOnce('0', [refundAt(START_MS)], START_MS)).toBeUndefined();
    expect((await limiter.check('p', 'a', { id: 'x' })).allowed).toBe(true);
    expect(await world.client.hlen(`${prefix}{a}pL1h=`)).toBe(10_000);
  });

  it('a used receipt evicts an id if a limit has 10,000 records', async () => {
    const prefix = newPrefix();
    const store = open(prefix);
    const { limiter } = limiterOn(store, { p: '1000000/1h' });
    for (let call = 0; call < 10_000; call += 500) {
      const ids = Array.from({ length: 500 }, (_, place) => `${call + place}`);
      await Promise.all(ids.map((id) => limiter.check('p', 'a', { id })));
    }
    expect(await store.adjustOnce('r', [refundAt(START_MS)], START_MS)).toEqual([-1]);
    expect(await store.adjustOnce('r', [refundAt(START_MS)], START_MS)).toBeUndefined();
  });
});

describe('receipts with keys on several nodes', () => {
  // One server acts as all nodes. The store sends a command for each slot.
  const both = [refundAt(START_MS, 'a'), refundAt(START_MS, 'b')];

  it('a receipt with keys on two nodes can be used only once', async () => {
    const prefix = newPrefix();
    const store = open(prefix, world.send, true);
    const { limiter } = limiterOn(store, { p: '1000000/1h' });
    await limiter.check('p', 'a');
    await limiter.check('p', 'b');
    expect(await store.adjustOnce('r', both, START_MS)).toEqual([-1, -1]);
    expect(await store.adjustOnce('r', both, START_MS)).toBeUndefined();
  });

  it('a receipt stays unused if no node executed its refund', async () => {
    const prefix = newPrefix();
    let isDown = false;
    const send: Send = (args, key) => {
      const isAdjust = args.some((arg) => arg.startsWith('adjust '));
      if (isDown && isAdjust) return Promise.reject(new Error('CLUSTERDOWN Hash slot not served'));
      return world.send(args, key);
    };
    const store = open(prefix, send, true);
    const { limiter } = limiterOn(store, { p: '1000000/1h' });
    await limiter.check('p', 'a');
    isDown = true;
    await expect(store.adjustOnce('r', both, START_MS)).rejects.toMatchObject({ notDone: true });
    isDown = false;
    expect(await store.adjustOnce('r', both, START_MS)).toEqual([-1, 0]);
    expect(await store.adjustOnce('r', both, START_MS)).toBeUndefined();
  });

  it('a receipt counts as used if a node may have executed its refund', async () => {
    const prefix = newPrefix();
    const send: Send = (args, key) => {
      const isLost = key.includes('{b}') && args.some((arg) => arg.startsWith('adjust '));
      return isLost ? Promise.reject(new Error('Connection is closed.')) : world.send(args, key);
    };
    const store = open(prefix, send, true);
    await expect(store.adjustOnce('r', both, START_MS)).rejects.toThrow('Connection is closed.');
    expect(await store.adjustOnce('r', both, START_MS)).toBeUndefined();
  });
});
