/**
 * Redis stops replying or dies under a steady load. The short form asserts that calls degrade and
 * recover. The long form also asserts times and memory.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startFaultProxy } from '../../../../tools/servers/fault-proxy.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { CLIENT_OPTIONS, connect, isFull, needRedis, silent } from './campaign.ts';
import {
  ADMITTED,
  DEGRADED,
  DONE,
  FAILED,
  Load,
  mostInAnyWindow,
  NOT_SENT,
  residentMb,
} from './load.ts';

expectNoUnhandledRejections();
needRedis();

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server?.stop());

const PER_SECOND = isFull ? 2000 : 500;
const OUTAGE_MS = isFull ? 30_000 : 2000;
const DEADLINE_MS = 50;
const soon = { timeout: 60_000, interval: 5 };

it('calls to a silent Redis time out until the breaker opens, and are then not sent', async () => {
  const client = await connect(server.port);
  const store = redisStore(client, { ...silent, onFailure: 'deny', deadlineMs: DEADLINE_MS });
  const limiter = createLimiter({ policies: { p: '1000000/1h' }, store });
  // New keys for each attempt, since a retry would count the charges of the first.
  const attempt = crypto.randomUUID();
  const keys = Array.from({ length: 50 }, (_, place) => `${attempt} ${place}`);
  const load = new Load({
    perSecond: PER_SECOND,
    most: ((OUTAGE_MS + 40_000) / 1000) * PER_SECOND,
    check: (call) => limiter.check('p', keys[call % keys.length]),
    isNotSent: () => store.breaker !== 'closed',
  });
  load.start();
  await sleep(isFull ? 3000 : 300);
  const beforeMb = residentMb();
  const pausedMs = performance.now();
  await server.pause();
  await sleep(OUTAGE_MS);
  const duringMb = residentMb();
  const resumedMs = performance.now();
  await server.resume();
  const isDecided = (call: number): boolean => load.has(call, DONE) && !load.has(call, DEGRADED);
  await vi.waitUntil(() => load.calls(resumedMs, Infinity, isDecided).length > 0, soon);
  const recoveredMs = performance.now();
  await sleep(isFull ? 3000 : 300);
  load.stop();
  await vi.waitUntil(() => load.waiting === 0, soon);
  const afterMb = residentMb();

  expect(load.errors).toEqual([]);
  expect([...load.reasons].sort()).toEqual(['open', 'timeout']);
  const during = load.calls(pausedMs + 2 * DEADLINE_MS, resumedMs - 2 * DEADLINE_MS);
  expect(during.length).toBeGreaterThan(0);
  const isDenied = (call: number): boolean => load.has(call, DEGRADED) && !load.has(call, ADMITTED);
  expect(during.filter((call) => !isDenied(call))).toEqual([]);
  // All calls that were denied although Redis admitted them later have been refunded.
  const used = async (): Promise<number> => {
    const states = await Promise.all(keys.map((key) => limiter.inspect('p', key)));
    return states.reduce((sum, state) => sum + (state?.used ?? 0), 0);
  };
  await vi.waitUntil(async () => (await used().catch(() => -1)) === load.admissions.length, soon);

  const sent = load.calls(pausedMs, resumedMs, (call) => !load.has(call, NOT_SENT));
  const notSent = load.calls(pausedMs, resumedMs, (call) => load.has(call, NOT_SENT));
  // In a short outage, a busy machine may delay the breaker for half of the time.
  expect(notSent.length).toBeGreaterThan(isFull ? sent.length : 0);
  if (isFull) {
    const figures = {
      calls: load.count,
      'until the breaker opened': sent.length,
      'their p99.9, ms': load.waitMs(sent, 0.999),
      'calls after that': notSent.length,
      'p50 after that, ms': load.waitMs(notSent, 0.5),
      'p99.9 after that, ms': load.waitMs(notSent, 0.999),
      'memory before, during, after, MB': [beforeMb, duringMb, afterMb].map(Math.round).join(' '),
      'recovered after ms': recoveredMs - resumedMs,
    };
    console.log('silent Redis:', figures);
    expect(load.waitMs(sent, 0.999)).toBeLessThan(DEADLINE_MS + 10);
    expect(load.waitMs(notSent, 0.999)).toBeLessThan(1);
    expect(duringMb - beforeMb).toBeLessThan(20);
    expect(afterMb - beforeMb).toBeLessThan(20);
    expect(recoveredMs - resumedMs).toBeLessThan(6000);
  }
  client.disconnect();
});

it('a Redis restart without data admits at most twice the limit in any window', async () => {
  const client = await connect(server.port);
  const store = redisStore(client, { ...silent, onFailure: 'deny', deadlineMs: DEADLINE_MS });
  const [limit, windowMs] = isFull ? [2000, 5000] : [200, 1500];
  const limiter = createLimiter({ policies: { p: { limit, window: windowMs } }, store });
  const load = new Load({
    perSecond: PER_SECOND,
    most: PER_SECOND * 120,
    check: () => limiter.check('p', 'a'),
  });
  load.start();
  for (let time = 0; time < (isFull ? 5 : 1); time++) {
    // At the limit, a loss of the counters has the largest effect. The pause keeps two losses out
    // of one window.
    await sleep(windowMs);
    await vi.waitUntil(() => mostInAnyWindow(load.admissions, windowMs) >= limit, soon);
    await server.kill();
    const killedMs = performance.now();
    await sleep(300);
    await server.restart();
    const admitted = (call: number): boolean => load.has(call, ADMITTED);
    await vi.waitUntil(() => load.calls(killedMs, Infinity, admitted).length > 0, soon);
    await sleep(windowMs / 2);
  }
  load.stop();
  await vi.waitUntil(() => load.waiting === 0, soon);
  expect(load.calls(0, Infinity, (call) => load.has(call, FAILED))).toEqual([]);
  const most = mostInAnyWindow(load.admissions, windowMs);
  if (isFull) console.log(`restart without data: ${most} in a window, limit ${limit}`);
  expect(most).toBeLessThanOrEqual(2 * limit);
  client.disconnect();
});

it('a connection that stops replying is replaced if socketTimeout is set', async () => {
  const proxy = await startFaultProxy({ port: server.port });
  const { port, host } = proxy;
  const client = new Redis({ ...CLIENT_OPTIONS, host, port, socketTimeout: 300 });
  client.on('error', () => {});
  await once(client, 'ready');
  const store = redisStore(client, { ...silent, onFailure: 'deny', deadlineMs: DEADLINE_MS });
  const limiter = createLimiter({ policies: { p: '1000000/1h' }, store });
  await limiter.check('p', 'b');
  proxy.halfOpen();
  expect((await limiter.check('p', 'b')).degraded!.reason).toBe('timeout');
  await vi.waitUntil(async () => !(await limiter.check('p', 'b')).degraded, soon);
  client.disconnect();
  await proxy.stop();
});
