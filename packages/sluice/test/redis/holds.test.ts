/** Concurrency limits and blocks in Redis: their keys, damaged values, ids, nodes and caches. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  definePolicy,
  ManualClock,
  type Policies,
  type PolicyOptions,
  type Store,
} from '../../src/index.ts';
import { Batcher } from '../../src/stores/redis/batch.ts';
import type { RedisStoreOptions } from '../../src/stores/redis/create-store.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { KeyNames } from '../../src/stores/redis/keys.ts';
import { RedisStore } from '../../src/stores/redis/redis-store.ts';
import { newPrefix, silent, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const START_MS = 1_745_000_100_000;
const JOBS = { concurrency: 5, lease: '1m' } as const;
const LOGIN = { limit: 2, window: '1m', block: { for: '10m', factor: 2 } } as const;

function open(prefix = newPrefix(), options: RedisStoreOptions = {}, send: Send = world.send) {
  const all = { ...silent, prefix, onFailure: 'throw', deadlineMs: 10_000, ...options } as const;
  const store = redisStore(send, all);
  return { prefix, store, ...limiters(store) };
}

function limiters(store: Store) {
  const clock = new ManualClock(START_MS);
  const policies = { jobs: JOBS, login: LOGIN, many: { concurrency: 100_000, lease: '1h' } };
  const given = policies satisfies Record<string, PolicyOptions>;
  return {
    clock,
    limiter: createLimiter({ policies: given, store, clock }),
    /** Uses the clock of the server. */
    live: createLimiter({ policies: given, store }),
  };
}

/** Acts as a Cluster: the store sends a command for each slot. */
function cluster(send: Send = world.send) {
  const prefix = newPrefix();
  const store = new RedisStore(new Batcher(send, true, 10_000), true, new KeyNames(prefix));
  return { prefix, store, ...limiters(store) };
}

const usage = (key: string): Promise<number> =>
  world.server.command<number>('MEMORY', 'USAGE', key, 'SAMPLES', 0);

describe('the keys of holds', () => {
  it.each([
    [100, 24],
    [1000, 125],
  ])('in Redis, %i holds take at most %i bytes each', async (count, most) => {
    const { prefix, limiter } = open();
    for (let made = 0; made < count; made++) await limiter.check('many', 'a');
    const bytes = (await usage(`${prefix}{a}manyH1h`)) / count;
    console.log(`each of ${count} holds takes ${bytes} bytes`);
    expect(bytes).toBeLessThanOrEqual(most);
  });

  it('expired holds and blocks leave no keys in Redis', async () => {
    const prefix = newPrefix();
    const store = redisStore(world.send, { ...silent, prefix, onFailure: 'throw' });
    const block = { for: '200ms', max: '200ms', forget: '100ms' };
    const policies: Policies = {
      jobs: { concurrency: 2, lease: '300ms' },
      login: { limit: 1, window: '200ms', algorithm: 'fixed-window', block },
    };
    const limiter = createLimiter({ policies, store });
    const { receipt } = await limiter.check('jobs', 'a', { label: 'x' });
    await limiter.check('jobs', 'a', { id: 'y' });
    await limiter.release(receipt!);
    await limiter.check('jobs', 'b');
    await limiter.reset('jobs', 'b');
    await limiter.check('login', 'a');
    await limiter.check('login', 'a');
    expect((await world.client.keys(`${prefix}*`)).length).toBe(5);
    await sleep(700);
    expect(await world.client.keys(`${prefix}*`)).toEqual([]);
  });

  it('the end of a run writes no record of its release', async () => {
    const { prefix, live } = open();
    await live.run('jobs', 'a', () => {});
    await expect.poll(async () => (await live.peek('jobs', 'a')).remaining).toBe(5);
    expect(await world.client.keys(`${prefix}*`)).toEqual([`${prefix}{a}jobsH1m`]);
  });

  it('a label is kept on renewal, and deleted when its hold expires or is released', async () => {
    const { prefix, limiter, clock } = open();
    const key = `${prefix}{a}jobsH1m`;
    await limiter.check('jobs', 'a', { label: 'expires' });
    clock.advance(30_000);
    const { receipt } = await limiter.check('jobs', 'a', { label: 'job 7' });
    await limiter.check('jobs', 'a', { cost: 2 });
    const state = await limiter.inspect('jobs', 'a');
    const labels = state?.holds?.map(({ label, cost }) => [label, cost]);
    expect(labels).toEqual([
      ['expires', 1],
      ['job 7', 1],
      [undefined, 2],
    ]);
    clock.advance(30_000);
    await limiter.check('jobs', 'a');
    expect(await world.client.zcard(key)).toBe(3 + 3 + 1);
    await limiter.renew(receipt!);
    const renewed = (await limiter.inspect('jobs', 'a'))?.holds?.find(({ label }) => label);
    expect([renewed?.label, renewed?.atMs]).toEqual(['job 7', clock.now()]);
    await limiter.release(receipt!);
    expect(await world.client.zcard(key)).toBe(3 + 2);
  });

  it('fences increase after a reset in the same millisecond and a clock step back', async () => {
    const { limiter, clock } = open();
    const first = await limiter.check('jobs', 'a');
    await limiter.reset('jobs', 'a');
    const second = await limiter.check('jobs', 'a');
    expect(second.fence).toBe(first.fence! + 1);
    expect(await limiter.release(first.receipt!)).toBe(false);
    clock.set(START_MS - 3_600_000);
    const third = await limiter.check('jobs', 'a');
    expect(third.remaining).toBe(4);
    expect(third.fence).toBe(second.fence! + 1);
  });

  it('a hold can be renewed and released after SCRIPT FLUSH', async () => {
    const { limiter } = open();
    const { receipt } = await limiter.check('jobs', 'a');
    await world.server.command('SCRIPT', 'FLUSH');
    expect(await limiter.renew(receipt!)).toBe(true);
    await world.server.command('SCRIPT', 'FLUSH');
    expect(await limiter.release(receipt!)).toBe(true);
    expect(await limiter.release(receipt!)).toBe(false);
  });

  it('after a concurrency limit is lowered, existing holds count and can be released', async () => {
    const { limiter, store, clock } = open();
    const { receipt } = await limiter.check('jobs', 'a', { cost: 4 });
    const lowered = createLimiter({
      policies: { jobs: { concurrency: 2, lease: '1m' } },
      store,
      clock,
    });
    const denied = await lowered.check('jobs', 'a');
    expect([denied.remaining, denied.retryAfterMs]).toEqual([0, 60_000]);
    expect(await lowered.renew(receipt!)).toBe(true);
    expect(await lowered.release(receipt!)).toBe(true);
    expect((await lowered.check('jobs', 'a', { cost: 2 })).allowed).toBe(true);
  });
});

describe('damaged holds and blocks', () => {
  const FOREIGN: [name: string, write: (key: string) => Promise<unknown>][] = [
    ['text', (key) => world.client.set(key, 'x')],
    ['a list', (key) => world.client.lpush(key, 'x')],
    ['a hash', (key) => world.client.hset(key, 'h', 'x')],
    ['another sorted set', (key) => world.client.zadd(key, 5, 'x')],
    ['an infinite total', (key) => world.client.zadd(key, '-inf', 't', -1, 'f', -1, 'k')],
    ['a fraction', (key) => world.client.zadd(key, -0.5, 't', -1, 'f', -1, 'k')],
    ['a positive total', (key) => world.client.zadd(key, 5, 't', -1, 'f', -1, 'k')],
    ['only some members', (key) => world.client.zadd(key, -1, 't', -1, 'f')],
  ];

  it.each(FOREIGN)(
    '%s under a key of holds fails only the calls for that key',
    async (_, write) => {
      const { prefix, limiter, store } = open();
      const key = `${prefix}{bad}jobsH1m`;
      await write(key);
      const charge = { policy: 'jobs', key: 'bad', cost: 1, atMs: START_MS, fence: 7 };
      const all = await Promise.allSettled([
        limiter.check('jobs', 'good'),
        limiter.check('jobs', 'bad'),
        limiter.peek('jobs', 'bad', { cost: 5 }),
        limiter.release({ charges: [charge] }),
        limiter.inspect('jobs', 'bad'),
        limiter.check('jobs', 'good'),
      ]);
      expect(all.map(({ status }) => status[0]).join('')).toBe('frrrrf');
      const { reason } = all[1] as PromiseRejectedResult;
      expect(reason.message).toContain(`not holds of this limiter: ${key}`);
      expect(reason.cause.isOfKey).toBe(true);
      expect(store.breaker).toBe('closed');
      await limiter.reset('jobs', 'bad');
      expect((await limiter.check('jobs', 'bad')).remaining).toBe(4);
    },
  );

  it('a damaged member of a set of holds does not affect other keys or the breaker', async () => {
    const dice = new Dice(5);
    const { prefix, limiter, store, clock } = open();
    const key = `${prefix}{bad}jobsH1m`;
    for (let round = 0; round < 150; round++) {
      await world.client.del(key);
      clock.set(START_MS);
      const { receipt } = await limiter.check('jobs', 'bad', { cost: 2, label: 'x' });
      await limiter.check('jobs', 'bad');
      const member = dice.pick(await world.client.zrange(key, '0', '-1'));
      const score = dice.pick(['-inf', 'inf', '0', '1', '-5', '1e300', '0.5', String(START_MS)]);
      if (dice.roll(3) === 0) await world.client.zrem(key, member);
      else await world.client.zadd(key, score, dice.pick([member, 'junk', '1:x', '5:99', '7:0']));
      clock.advance(dice.pick([0, 1, 59_999, 60_000, 100_000]));
      const all = await Promise.allSettled([
        limiter.check('jobs', 'good'),
        limiter.check('jobs', 'bad', { cost: dice.pick([1, 5]) }),
        limiter.release(receipt!),
        limiter.renew(receipt!),
        limiter.inspect('jobs', 'bad'),
        limiter.reset('jobs', 'good'),
      ]);
      for (const each of all) {
        if (each.status === 'rejected') expect(each.reason.message).toContain('of this limiter');
      }
      expect([all[0].status, all[5].status]).toEqual(['fulfilled', 'fulfilled']);
    }
    expect(store.breaker).toBe('closed');
  });

  it('damaged block records fail only the calls for their key', async () => {
    const { prefix, limiter } = open();
    await world.client.hset(`${prefix}{bad}loginL1m=`, 'b', 'junk');
    await expect(limiter.check('login', 'bad')).rejects.toThrow('not records of this limiter');
    expect((await limiter.check('login', 'good')).allowed).toBe(true);
  });
});

describe('blocks in Redis', () => {
  it('a key with more than 10,000 ids can be blocked again', async () => {
    const prefix = newPrefix();
    const store = redisStore(world.send, {
      ...silent,
      prefix,
      onFailure: 'throw',
      deadlineMs: 60_000,
    });
    const block = { for: '1h' };
    const policies: Policies = { login: { limit: 20_000, window: '1h', block } };
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({ policies, store, clock });
    await limiter.block('login', 'a', 1);
    clock.advance(1);
    for (let call = 0; call < 10_100; call += 500) {
      const ids = Array.from({ length: 500 }, (_, place) => `${call + place}`);
      await Promise.all(ids.map((id) => limiter.check('login', 'a', { id })));
    }
    expect((await limiter.inspect('login', 'a'))?.blocks).toBe(0);
    await limiter.block('login', 'a', '30m');
    expect((await limiter.check('login', 'a')).blockedUntilMs).toBe(clock.now() + 1_800_000);
    expect((await limiter.check('login', 'a', { id: 'new' })).allowed).toBe(false);
  });

  it('a peek starts no block, and the deny cache repeats a block until unblock', async () => {
    const prefix = newPrefix();
    const [one, other] = [open(prefix).live, open(prefix).live];
    await one.check('login', 'a', { cost: 2 });
    const peeked = await one.peek('login', 'a', { cost: 1 });
    expect([peeked.allowed, peeked.blockedUntilMs]).toEqual([false, undefined]);
    const started = await one.check('login', 'a');
    expect([started.cached, started.blockedUntilMs]).toEqual([undefined, expect.any(Number)]);
    const again = await one.check('login', 'a');
    expect(again.cached).toBe(true);
    expect(again.blockedUntilMs).toBe(started.blockedUntilMs);
    await other.unblock('login', 'a');
    await other.reset('login', 'a');
    await sleep(1100);
    expect((await one.check('login', 'a')).allowed).toBe(true);
    await one.block('login', 'a', '1h');
    expect((await one.check('login', 'a')).allowed).toBe(false);
    await one.unblock('login', 'a');
    expect((await one.check('login', 'a')).allowed).toBe(true);
  });

  it('a denial is cached until the block ends; the next denial starts a new block', async () => {
    const policies = { login: { limit: 1, window: '1m', block: '50ms' } } as const;
    const options = {
      ...silent,
      prefix: newPrefix(),
      onFailure: 'throw',
      deadlineMs: 10_000,
    } as const;
    const limiter = createLimiter({ policies, store: redisStore(world.send, options) });
    await limiter.check('login', 'a');
    const first = await limiter.check('login', 'a');
    expect(first.retryAfterMs).toBeGreaterThan(50);
    await sleep(first.blockedUntilMs! - first.atMs + 5);
    const second = await limiter.check('login', 'a');
    expect(second.cached).toBeUndefined();
    expect(second.blockedUntilMs).toBeGreaterThan(first.blockedUntilMs!);
    expect((await limiter.inspect('login', 'a'))?.blocks).toBe(2);
  });

  it('denials of a concurrency limit are not cached', async () => {
    const prefix = newPrefix();
    const [one, other] = [open(prefix).live, open(prefix).live];
    const { receipt } = await other.check('jobs', 'a', { cost: 5 });
    expect((await one.check('jobs', 'a')).allowed).toBe(false);
    const again = await one.check('jobs', 'a');
    expect([again.allowed, again.cached]).toEqual([false, undefined]);
    await other.release(receipt!);
    expect((await one.check('jobs', 'a')).allowed).toBe(true);
  });
});

describe('holds and blocks on several nodes', () => {
  const both = (cost: number) => [
    { policy: 'jobs' as const, key: 'a', cost },
    { policy: 'login' as const, key: 'b' },
  ];

  it('a hold is released if a limit on another node denies the check', async () => {
    const { limiter } = cluster();
    expect((await limiter.check(both(2))).atomic).toBe(false);
    expect((await limiter.check(both(2))).allowed).toBe(true);
    const denied = await limiter.check(both(1));
    expect(denied.allowed).toBe(false);
    expect(denied.limits.map(({ remaining, fence }) => [remaining, fence])).toEqual([
      [1, undefined],
      [0, undefined],
    ]);
    expect(denied.blockedUntilMs).toBe(START_MS + 600_000);
    expect((await limiter.peek('jobs', 'a')).remaining).toBe(1);
  });

  it('a receipt with a hold and a charge on two nodes can be used only once', async () => {
    const { limiter, store } = cluster();
    const { receipt, fence } = await limiter.check(both(2), { id: 'x' });
    const repeated = await limiter.check(both(2), { id: 'x' });
    expect(repeated.fence).toBe(fence);
    const adjustments = receipt!.charges.map((charge) => {
      const policy = definePolicy(charge.policy, charge.policy === 'jobs' ? JOBS : LOGIN);
      return { policy, params: policy.paramsFor(charge.key), charge, delta: -charge.cost };
    });
    expect(await store.adjustOnce('r', adjustments, START_MS)).toEqual([-2, -1]);
    expect(await store.adjustOnce('r', adjustments, START_MS)).toBeUndefined();
    expect(await store.adjustOnce('other', adjustments.slice(0, 1), START_MS)).toEqual([0]);
    expect(await limiter.release(receipt!)).toBe(false);
  });
});

describe('holds and failures', () => {
  it('a hold is released if its reply arrives after the call was denied', async () => {
    let delayMs = 0;
    const send: Send = async (args, key) => {
      const reply = await world.send(args, key);
      if (delayMs > 0) await sleep(delayMs);
      return reply;
    };
    const { live } = open(newPrefix(), { onFailure: 'deny', deadlineMs: 30 }, send);
    await live.peek('jobs', 'a');
    delayMs = 100;
    const late = await live.check('jobs', 'a', { cost: 5 });
    expect([late.allowed, late.degraded?.reason]).toEqual([false, 'timeout']);
    delayMs = 0;
    await sleep(200);
    expect((await live.check('jobs', 'a', { cost: 5 })).allowed).toBe(true);
  });

  it('holds of the local fallback have fences and can be renewed and released', async () => {
    let isDown = true;
    const send: Send = (args, key) =>
      isDown ? Promise.reject(new Error('ECONNREFUSED')) : world.send(args, key);
    const { live } = open(newPrefix(), { onFailure: 'local' }, send);
    const local = await live.check('jobs', 'a', { cost: 5 });
    expect([local.allowed, local.degraded?.action]).toEqual([true, 'local']);
    expect(local.fence).toBeGreaterThan(START_MS * 1024);
    expect((await live.check('jobs', 'a')).allowed).toBe(false);
    expect(await live.renew(local.receipt!)).toBe(true);
    expect(await live.release(local.receipt!)).toBe(true);
    expect(await live.release(local.receipt!)).toBe(false);
    isDown = false;
  });
});
