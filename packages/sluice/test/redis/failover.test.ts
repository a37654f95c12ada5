/**
 * A master dies under a steady load, and a replica takes its place that has not heard of anything
 * the master admitted. That can be forgotten but once, so at most twice the limit passes.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { expect, it, vi } from 'vitest';
import { type RedisServer, startCluster, startSentinel } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { CLIENT_OPTIONS, isFull, needRedis, silent } from './campaign.ts';
import { DEGRADED, DONE, FAILED, Load, mostInAnyWindow } from './load.ts';

expectNoUnhandledRejections();
needRedis();

const PER_SECOND = isFull ? 2000 : 500;
const LIMIT = isFull ? 200 : 40;
const WINDOW_MS = isFull ? 10_000 : 1500;
const KEYS = Array.from({ length: 12 }, (_, place) => `key ${place}`);
const soon = { timeout: 60_000, interval: 10 };

/**
 * From now on replicas are not told anything. What is sent to one that is stopped waits in the
 * buffers of the machine, and would be read in the end: so there must be too much of it.
 */
async function deafen(master: RedisServer, replicas: readonly RedisServer[]): Promise<void> {
  for (const replica of replicas) await replica.pause();
  const flood = "return redis.call('SET', KEYS[1], string.rep('x', 50000000), 'PX', 60000)";
  // A key of the first slots, so that in a Cluster it is the first master's.
  await master.command('EVAL', flood, 1, 'flood {key 2}');
}

/** Kills a master under load; checks that all keys come back, and what was admitted. */
async function failOver(
  name: string,
  client: Redis | Cluster,
  master: RedisServer,
  replicas: readonly RedisServer[],
): Promise<void> {
  client.on('error', () => {});
  if (client.status !== 'ready') await once(client, 'ready');
  // Without a memory of denials, an answer that is not degraded comes from Redis.
  const store = redisStore(client, { ...silent, onFailure: 'deny', denyCache: false });
  const policies = { p: { limit: LIMIT, window: WINDOW_MS } };
  const limiter = createLimiter({ policies, store });
  const load = new Load({
    perSecond: PER_SECOND,
    most: PER_SECOND * 120,
    ask: (call) => limiter.check('p', KEYS[call % KEYS.length]),
  });
  await deafen(master, replicas);
  load.start();
  await vi.waitUntil(() => mostInAnyWindow(load.admissions, WINDOW_MS) >= LIMIT, soon);
  const killedMs = performance.now();
  await master.kill();
  for (const replica of replicas) await replica.resume();
  const isDegraded = (call: number): boolean => load.has(call, DEGRADED);
  const isWell = (call: number): boolean => load.has(call, DONE) && !load.has(call, DEGRADED);
  await vi.waitUntil(() => load.calls(killedMs, Infinity, isDegraded).length > 0, soon);
  const seenMs = performance.now();
  // Back is who answers for every key, also for those of the master that died.
  const isBack = (): boolean => {
    const calls = load.calls(seenMs, Infinity, isWell);
    return new Set(calls.map((call) => call % KEYS.length)).size === KEYS.length;
  };
  await vi.waitUntil(isBack, soon);
  const backMs = performance.now() - killedMs;
  await sleep(1.5 * WINDOW_MS);
  const beforeEndMs = performance.now() - WINDOW_MS / 2;
  load.stop();
  await vi.waitUntil(() => load.waiting === 0, soon);
  client.disconnect();

  const most = mostInAnyWindow(load.admissions, WINDOW_MS);
  if (isFull) {
    console.log(
      `${name}: ${most} in a window, limit ${LIMIT}; all keys back after ${Math.round(backMs)} ms;`,
      `${load.count} calls, ${load.calls(0, Infinity, isDegraded).length} degraded`,
    );
  }
  expect(load.calls(0, Infinity, (call) => load.has(call, FAILED))).toEqual([]);
  expect(most).toBeLessThanOrEqual(2 * LIMIT);
  // In the end the store decides, at least most of the time, however busy the machine is.
  const last = load.calls(beforeEndMs, Infinity);
  expect(last.filter(isWell).length).toBeGreaterThan(last.length / 2);
}

it('with Sentinel the limiter follows the new master', async () => {
  const group = await startSentinel();
  const client = new Redis({
    ...CLIENT_OPTIONS,
    sentinels: group.sentinels.map(({ host, port }) => ({ host, port })),
    name: group.masterName,
    sentinelRetryStrategy: () => 50,
  });
  try {
    await failOver('sentinel', client, group.master, group.replicas);
    expect(await group.currentMaster()).not.toBe(group.master.port);
  } finally {
    client.disconnect();
    await group.stop();
  }
});

it('in a Cluster the limiter follows the slots', async () => {
  const cluster = await startCluster();
  const client = new Cluster(
    cluster.nodes.map(({ host, port }) => ({ host, port })),
    { enableOfflineQueue: false, redisOptions: { autoResendUnfulfilledCommands: false } },
  );
  try {
    await failOver('cluster', client, cluster.nodes[0], [cluster.nodes[3]]);
  } finally {
    client.disconnect();
    await cluster.stop();
  }
});
