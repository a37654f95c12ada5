/** How soon Redis decides calls again after it has been unreachable. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe, expect, it, vi } from 'vitest';
import { clients } from '../../../../tools/servers/clients.mjs';
import { startRedis, startSentinel } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import { type RedisClient, redisStore } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { CLIENT_OPTIONS, isFull, needRedis, silent } from './campaign.ts';

expectNoUnhandledRejections();
needRedis();

const soon = { timeout: 60_000, interval: 5 };
const options = { ...silent, onFailure: 'deny', denyCache: false, deadlineMs: 1000 } as const;

function limiterOn(client: RedisClient) {
  const store = redisStore(client, options);
  return { store, limiter: createLimiter({ policies: { p: '1000000/1h' }, store }) };
}

describe.each(['ioredis', 'iovalkey', 'node-redis'] as const)('with %s', (name) => {
  it(`the first call after ${name} has reconnected is sent to Redis`, async () => {
    const server = await startRedis();
    const { client, close } = await clients[name](server.url);
    const { store, limiter } = limiterOn(client);
    await limiter.check('p', 'a');
    await server.kill();
    // Long enough that without the event the next probe would be much later.
    await vi.waitUntil(
      async () => (await limiter.check('p', 'a')).degraded!.reason === 'open',
      soon,
    );
    await sleep(1500);
    await limiter.check('p', 'a');
    // Not `once` of node:events, which rejects if an attempt to connect fails first.
    const ready = new Promise((resolve) => (client as Redis).once('ready', resolve));
    await server.restart();
    await ready;
    // On a busy machine the call may still time out.
    expect((await limiter.check('p', 'a')).degraded?.reason).not.toBe('open');
    await vi.waitUntil(async () => !(await limiter.check('p', 'a')).degraded, soon);
    await store.close();
    await close();
    await server.stop();
  });
});

it('after a planned failover, the limiter recovers within 2.5 s of a plain client', async () => {
  const group = await startSentinel();
  const open = async (): Promise<Redis> => {
    const client = new Redis({
      ...CLIENT_OPTIONS,
      maxRetriesPerRequest: 0,
      sentinels: group.sentinels.map(({ host, port }) => ({ host, port })),
      name: group.masterName,
      sentinelRetryStrategy: () => 50,
    });
    client.on('error', () => {});
    if (client.status !== 'ready') await once(client, 'ready');
    return client;
  };
  const [plain, own] = [await open(), await open()];
  const { store, limiter } = limiterOn(own);
  /** The last time that a call failed. */
  const lastFailed = { plain: 0, limiter: 0 };
  let isRunning = true;
  const run = async (
    caller: keyof typeof lastFailed,
    call: () => Promise<unknown>,
  ): Promise<void> => {
    while (isRunning) {
      if (!(await call())) lastFailed[caller] = performance.now();
      await sleep(10);
    }
  };
  const running = [
    run('plain', () => plain.set('plain', 1, 'PX', 60_000).catch(() => undefined)),
    run('limiter', async () => !(await limiter.check('p', 'a')).degraded),
  ];
  await sleep(300);
  const startMs = performance.now();
  await group.failover();
  await vi.waitUntil(
    () => performance.now() - Math.max(lastFailed.plain, lastFailed.limiter, startMs) > 3000,
    soon,
  );
  isRunning = false;
  await Promise.all(running);
  const [plainMs, limiterMs] = [lastFailed.plain, lastFailed.limiter].map((ms) => ms - startMs);
  if (isFull) console.log(`planned failover: plain ${plainMs} ms, limiter ${limiterMs} ms`);
  // The two clients find the new master independently, and not at the same time.
  expect(limiterMs).toBeLessThan(plainMs + 2500);
  await store.close();
  for (const client of [plain, own]) client.disconnect();
  await group.stop();
});
