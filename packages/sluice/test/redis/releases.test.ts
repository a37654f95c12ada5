/** Notifications about released holds, and holds of processes that end. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientName, clients, type OpenClient } from '../../../../tools/servers/clients.mjs';
import { createLimiter, type Limiter, type Store } from '../../src/index.ts';
import type { RedisStoreOptions } from '../../src/stores/redis/create-store.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { newPrefix, silent, useRedis } from './campaign.ts';

const world = useRedis();
const JOBS = { concurrency: 2, lease: '1m' } as const;
const SPECIAL_KEY = 'a{b}%/é\ud800:H1m';

type Releases = [policy: string, key: string][];

const optionsOf = (prefix: string): RedisStoreOptions => ({
  ...{ ...silent, prefix, onFailure: 'throw', deadlineMs: 10_000 },
});

/** Waits until `isTrue`, at most 10 s. */
async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  for (let left = 500; left > 0; left--) {
    if (await isTrue()) return;
    await sleep(20);
  }
  throw new Error('Expected a condition to become true within 10 s');
}

/** The number of connections that subscribe. */
async function subscribers(): Promise<number> {
  const list = await world.server.command<string>('CLIENT', 'LIST', 'TYPE', 'pubsub');
  return list.split('\n').filter((line) => line !== '').length;
}

/** Calls `release` with other holds until `reported` has one more message. */
async function untilReported(
  limiter: Limiter<{ jobs: typeof JOBS }>,
  reported: Releases,
): Promise<void> {
  const before = reported.length;
  await until(async () => {
    const { receipt } = await limiter.check('jobs', SPECIAL_KEY);
    await limiter.release(receipt!);
    return reported.length > before;
  });
}

describe.each(['ioredis', 'iovalkey', 'node-redis'] as ClientName[])('through %s', (name) => {
  let open: OpenClient;
  beforeAll(async () => {
    open = await clients[name](world.server.url);
  });
  afterAll(() => open.close());

  it(`a release by another store is reported through ${name}`, async () => {
    const prefix = newPrefix();
    const listening = redisStore(open.client, optionsOf(prefix));
    const other = redisStore(world.send, optionsOf(prefix));
    const limiter = createLimiter({ policies: { jobs: JOBS, w: '5/1m' }, store: other });
    const reported: Releases = [];
    const remove = listening.onRelease!((policy, key) => void reported.push([policy, key]));
    await until(async () => (await subscribers()) === 1);
    const [one, two] = [
      await limiter.check('jobs', SPECIAL_KEY),
      await limiter.check('jobs', SPECIAL_KEY),
    ];
    const window = await limiter.check('w', SPECIAL_KEY);
    expect(await limiter.release(one.receipt!)).toBe(true);
    await until(() => reported.length === 1);
    expect(reported[0]).toEqual(['jobs', SPECIAL_KEY]);
    await limiter.refund(two.receipt!);
    await until(() => reported.length === 2);
    await limiter.check('jobs', 'b');
    await limiter.reset('jobs', 'b');
    await until(() => reported.length === 3);
    expect(reported[2]).toEqual(['jobs', 'b']);
    // Neither a window, nor a renewal, nor a release without effect is reported.
    await limiter.refund(window.receipt!);
    await limiter.release(one.receipt!);
    const three = await limiter.check('jobs', SPECIAL_KEY);
    await limiter.renew(three.receipt!);
    await sleep(50);
    expect(reported).toHaveLength(3);
    remove();
    await until(async () => (await subscribers()) === 0);
  });

  it(`a lost subscription of ${name} is replaced`, async () => {
    const prefix = newPrefix();
    const listening = redisStore(open.client, optionsOf(prefix));
    const store = redisStore(world.send, optionsOf(prefix));
    const limiter = createLimiter({ policies: { jobs: JOBS }, store });
    const reported: Releases = [];
    listening.onRelease!((policy, key) => void reported.push([policy, key]));
    await untilReported(limiter, reported);
    await world.server.command('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await untilReported(limiter, reported);
    await listening.close();
    await until(async () => (await subscribers()) === 0);
  });
});

describe('releases', () => {
  it('valkey-glide and send functions report releases only with `subscribe`', async () => {
    const glide = await clients['valkey-glide'](world.server.url);
    expect(redisStore(glide.client, silent).onRelease).toBeUndefined();
    await glide.close();
    expect(redisStore(world.send, silent).onRelease).toBeUndefined();
    const prefix = newPrefix();
    const calls: string[] = [];
    let publish = (_message: string): void => {};
    const subscribe = (channel: string, onMessage: (message: string) => void) => {
      calls.push(channel);
      publish = onMessage;
      return () => void calls.push('end');
    };
    const store = redisStore(world.send, { ...optionsOf(prefix), subscribe });
    const reported: Releases = [];
    const removes = [1, 2].map(() => store.onRelease!((...limit) => void reported.push(limit)));
    publish('{a%007bb}jobs%003dH1m');
    publish('{a}jobsL1m');
    publish('junk');
    expect(reported).toEqual([
      ['jobs=', 'a{b'],
      ['jobs=', 'a{b'],
    ]);
    removes[0]();
    expect(calls).toEqual([`${prefix}released`]);
    removes[1]();
    expect(calls).toEqual([`${prefix}released`, 'end']);
  });

  it('errors of `subscribe` and of release listeners are ignored', async () => {
    const failing = (): never => {
      throw new Error('no');
    };
    const options = optionsOf(newPrefix());
    const broken = redisStore(world.send, { ...options, subscribe: failing });
    broken.onRelease!(failing)();
    let publish = (_message: string): void => {};
    const subscribe = (_: string, onMessage: (message: string) => void) => {
      publish = onMessage;
      return failing;
    };
    const store = redisStore(world.send, { ...options, subscribe });
    const reported: Releases = [];
    store.onRelease!(failing);
    store.onRelease!((...limit) => void reported.push(limit));
    publish('{a}jobsH1m');
    expect(reported).toEqual([['jobs', 'a']]);
    await store.close();
  });

  it('a Redis user without the right to publish can release a hold', async () => {
    const prefix = newPrefix();
    const rules = ['on', '>x', '~*', 'resetchannels', '+@all'];
    await world.server.command('ACL', 'SETUSER', 'silent', ...rules);
    const login = `redis://silent:x@127.0.0.1:${world.server.port}`;
    const open = await clients.ioredis(login);
    const store: Store = redisStore(open.client, optionsOf(prefix));
    const limiter = createLimiter({ policies: { jobs: JOBS }, store });
    const { receipt } = await limiter.check('jobs', 'a');
    expect(await limiter.release(receipt!)).toBe(true);
    expect((await limiter.peek('jobs', 'a')).remaining).toBe(2);
    await open.close();
  });
});

describe('processes', () => {
  const worker = new URL('hold-worker.mjs', import.meta.url).pathname;
  const start = async (prefix: string, lease: string, release: boolean) => {
    const policy = { concurrency: 1, lease };
    const args = { url: world.server.url, prefix, policy, key: 'a', release };
    const child = fork(worker, [JSON.stringify(args)]);
    const exited = once(child, 'exit').then(([code]) => {
      throw new Error(`Expected the worker to take a hold, it exited with ${code}`);
    });
    await Promise.race([once(child, 'message'), exited]);
    exited.catch(() => {});
    const store = redisStore(world.client, optionsOf(prefix));
    return { child, store, limiter: createLimiter({ policies: { jobs: policy }, store }) };
  };

  it('a hold of a killed process ends with its lease, and no key is left', async () => {
    const prefix = newPrefix();
    const { child, limiter } = await start(prefix, '2s', false);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const denied = await limiter.peek('jobs', 'a', { cost: 1 });
    expect(denied.allowed).toBe(false);
    expect(denied.retryAfterMs).toBeLessThanOrEqual(2000);
    await sleep(denied.retryAfterMs + 1);
    const admitted = await limiter.check('jobs', 'a');
    expect(admitted.allowed).toBe(true);
    await sleep(2100);
    expect(await world.client.keys(`${prefix}*`)).toEqual([]);
  });

  it('a release by another process is reported, and a listening process can exit', async () => {
    const { child, limiter, store } = await start(newPrefix(), '1m', true);
    const reported: Releases = [];
    store.onRelease!((...limit) => void reported.push(limit));
    await until(async () => (await subscribers()) === 2);
    expect((await limiter.check('jobs', 'a')).allowed).toBe(false);
    child.send('go');
    await until(() => reported.length > 0);
    expect((await limiter.check('jobs', 'a')).allowed).toBe(true);
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
    await store.close();
  });
});

describe('a waiter for a hold of another limiter', () => {
  const policies = { jobs: { concurrency: 1, lease: '10m' } } as const;

  /** Waits for the only slot while another limiter holds it, which then releases it. */
  async function handOver(
    stores: readonly [Store, Store],
  ): Promise<{ readonly isWaiting: boolean; readonly isAllowed: boolean }> {
    const [holder, waiter] = stores.map((store) => createLimiter({ policies, store }));
    const { receipt } = await holder.check('jobs', 'k');
    let isWaiting = true;
    const acquired = waiter.acquire('jobs', 'k', { maxWaitMs: 60_000 }).finally(() => {
      isWaiting = false;
    });
    await sleep(250);
    const wasWaiting = isWaiting;
    await holder.release(receipt!);
    const { allowed } = await acquired;
    await Promise.all([holder.close(), waiter.close()]);
    return { isWaiting: wasWaiting, isAllowed: allowed };
  }

  it('a waiting acquire is admitted by a notification, long before the lease ends', async () => {
    const prefix = newPrefix();
    const open = [await clients.ioredis(world.server.url), await clients.ioredis(world.server.url)];
    const stores = open.map(({ client }) => redisStore(client as never, optionsOf(prefix)));
    expect(await handOver([stores[0], stores[1]])).toEqual({ isWaiting: true, isAllowed: true });
    for (const each of open) await each.close();
  });

  it('a waiting acquire is admitted by polling if the store has no notifications', async () => {
    const open = await clients.ioredis(world.server.url);
    const prefix = newPrefix();
    const store = (): Store => {
      const send = (args: readonly string[]): Promise<unknown> =>
        (open.client as { call(...args: readonly string[]): Promise<unknown> }).call(...args);
      return redisStore(send as never, optionsOf(prefix));
    };
    expect(await handOver([store(), store()])).toEqual({ isWaiting: true, isAllowed: true });
    await open.close();
  });
});
