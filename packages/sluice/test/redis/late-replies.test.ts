/** Charges of calls whose reply is late, over slow or silent connections. */

import { once } from 'node:events';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../../../../tools/servers/fault-proxy.mjs';
import { createLimiter, type FailureAction, type Receipt } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { CLIENT_OPTIONS, newPrefix, silent, useRedis } from './campaign.ts';

expectNoUnhandledRejections();
const world = useRedis();
const soon = { timeout: 20_000, interval: 10 };
const POLICIES = { tokens: { limit: 10_000, window: '1h' } } as const;

let proxy: FaultProxy;
let client: Redis;
beforeAll(async () => {
  proxy = await startFaultProxy({ port: world.server.port });
});
beforeEach(async () => {
  const { host, port } = proxy;
  client = new Redis({ ...CLIENT_OPTIONS, host, port, maxRetriesPerRequest: 0 });
  client.on('error', () => {});
  await once(client, 'ready');
});
afterEach(() => {
  proxy.heal();
  client.disconnect();
});
afterAll(() => proxy?.stop());

/** Returns a limiter behind the proxy, and a function that reads Redis directly. */
async function setUp(onFailure: FailureAction = 'local') {
  const prefix = newPrefix();
  const store = redisStore(client, { ...silent, prefix, onFailure, deadlineMs: 100 });
  const limiter = createLimiter({ policies: POLICIES, store });
  const direct = createLimiter({
    policies: POLICIES,
    store: redisStore(world.send, { ...silent, prefix, onFailure: 'throw', deadlineMs: 10_000 }),
  });
  // Loads the script into Redis.
  await limiter.peek('tokens', 'warm');
  const remaining = async (): Promise<number> => (await direct.peek('tokens', 'user')).remaining;
  return { store, limiter, remaining };
}

it('a lost command with eight checks counts as one failure for the breaker', async () => {
  const { store, limiter } = await setUp('deny');
  // The first call is sent alone, and those that wait for its reply in a second command.
  for (let commands = 2; commands <= 4; commands += 2) {
    proxy.blackHole(true);
    const pending = Array.from({ length: 9 }, (_, key) => limiter.check('tokens', `${key}`));
    const reasons = (await Promise.all(pending)).map(({ degraded }) => degraded?.reason);
    expect(reasons).toEqual(Array(9).fill('timeout'));
    expect([commands, store.breaker]).toEqual([commands, 'closed']);
  }
  proxy.blackHole(false);
  await vi.waitUntil(async () => !(await limiter.check('tokens', 'x')).degraded, soon);
});

describe('a call whose reply is late', () => {
  /** Makes a call whose command and reply take 150 ms each. */
  const reserve = async (onFailure: FailureAction) => {
    const redis = await setUp(onFailure);
    proxy.delay(150);
    const { receipt, degraded } = await redis.limiter.check('tokens', 'user', { cost: 4000 });
    expect(degraded).toEqual({ reason: 'timeout', action: onFailure });
    return { ...redis, receipt: receipt as Receipt };
  };
  const copies: [how: string, copy: (receipt: Receipt) => Receipt][] = [
    ['object', (receipt) => receipt],
    ['JSON', (receipt) => JSON.parse(JSON.stringify(receipt))],
  ];

  for (const onFailure of ['local', 'allow'] as const) {
    it.each(copies)(
      `a call can be settled before its late reply (${onFailure}, receipt as %s)`,
      async (_how, copy) => {
        const { limiter, remaining, receipt } = await reserve(onFailure);
        await limiter.settle(copy(receipt), 100);
        await vi.waitUntil(async () => (await remaining()) === 9900, soon);
      },
    );

    it.each(copies)(
      `a call can be settled after its late reply (${onFailure}, receipt as %s)`,
      async (_how, copy) => {
        const { limiter, remaining, receipt } = await reserve(onFailure);
        await vi.waitUntil(async () => (await remaining()) === 6000, soon);
        proxy.delay(0);
        // A reply to this command arrives after the reply to the reservation.
        await vi.waitUntil(async () => !(await limiter.peek('tokens', 'warm')).degraded, soon);
        await limiter.settle(copy(receipt), 100);
        await vi.waitUntil(async () => (await remaining()) === 9900, soon);
      },
    );

    it.each(copies)(
      `a call can be refunded before its late reply (${onFailure}, receipt as %s)`,
      async (_how, copy) => {
        const { limiter, remaining, receipt } = await reserve(onFailure);
        await limiter.refund(copy(receipt));
        await vi.waitUntil(async () => (await remaining()) === 6000, soon);
        await vi.waitUntil(async () => (await remaining()) === 10_000, soon);
      },
    );
  }

  it('a late reply to a call that was denied leaves no charge', async () => {
    const { remaining } = await reserve('deny');
    await vi.waitUntil(async () => (await remaining()) === 6000, soon);
    await vi.waitUntil(async () => (await remaining()) === 10_000, soon);
  });
});

it.each(['local', 'deny'] as const)(
  'an acquire that is aborted before its late reply leaves no charge (onFailure %s)',
  async (onFailure) => {
    const { store, limiter, remaining } = await setUp(onFailure);
    proxy.delay(150);
    const controller = new AbortController();
    const options = { cost: 4000, signal: controller.signal };
    const waiting = limiter.acquire('tokens', 'user', options).catch((error) => error);
    await turn();
    controller.abort();
    expect(await waiting).toMatchObject({ name: 'AbortError' });
    // Meanwhile other calls time out and open the breaker.
    const others = vi.waitUntil(async () => {
      await Promise.all(['b', 'c'].map((key) => limiter.check('tokens', key)));
      return store.breaker === 'open';
    }, soon);
    await vi.waitUntil(async () => (await remaining()) === 6000, soon);
    await others;
    await vi.waitUntil(async () => (await remaining()) === 10_000, soon);
    proxy.delay(0);
    await vi.waitUntil(async () => !(await limiter.peek('tokens', 'user')).degraded, soon);
    expect(await remaining()).toBe(10_000);
  },
);

it('a refund of a denied call is sent again after Redis was unreachable', async () => {
  const { limiter, remaining } = await setUp('deny');
  // The reply arrives after the deadline, and then the connection is closed.
  proxy.onReply((bytes) => {
    proxy.onReply(undefined);
    setTimeout(() => {
      proxy.refuse(true);
      setTimeout(() => proxy.refuse(false), 500);
    }, 5);
    return bytes;
  });
  proxy.delay(150);
  const decision = await limiter.check('tokens', 'user', { cost: 4000 });
  expect([decision.allowed, decision.degraded?.reason]).toEqual([false, 'timeout']);
  await vi.waitUntil(async () => (await remaining()) === 6000, soon);
  await vi.waitUntil(async () => (await remaining()) === 10_000, soon);
});
