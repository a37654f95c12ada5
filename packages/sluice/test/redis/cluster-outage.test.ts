/**
 * One of three masters is killed or stopped under a steady load. Redis decides the calls for the
 * other two all the time. The short form has one client, `npm run failover` all.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { clusterClients } from '../../../../tools/servers/clients.mjs';
import { type Cluster, startCluster } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { slotOf } from '../../src/stores/redis/keys.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { isFull, needRedis, newPrefix, silent } from './campaign.ts';
import { DEGRADED, DONE, Load } from './load.ts';

expectNoUnhandledRejections();
needRedis();

const PER_SECOND = isFull ? 2000 : 500;
const CLIENTS = isFull ? (['ioredis', 'iovalkey', 'node-redis'] as const) : (['ioredis'] as const);
const HEALTHY_MS = isFull ? 1000 : 500;
const FAILED_MS = isFull ? 10_000 : 2000;
const soon = { timeout: 60_000, interval: 10 };
/** Enough for each failure domain of each master. */
const KEYS = Array.from({ length: 600 }, (_, place) => `user ${place}`);

describe.each(CLIENTS)('with %s', (name) => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
    // Otherwise the whole Cluster rejects commands until a replica is promoted.
    for (const node of cluster.nodes) {
      await node.command('CONFIG', 'SET', 'cluster-require-full-coverage', 'no');
    }
  });
  afterAll(() => cluster?.stop());

  it.each([
    ['stopped', 1],
    ['killed', 0],
  ] as const)(
    `through ${name}, a %s master degrades at most 2 % of calls to other masters`,
    async (how, place) => {
      const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
      const { client, close } = await clusterClients[name](nodes);
      const options = {
        ...silent,
        prefix: newPrefix(),
        onFailure: 'deny',
        denyCache: false,
      } as const;
      // Longer than the default, since on a busy machine a healthy server can be slow.
      const store = redisStore(client, { ...options, deadlineMs: 500 });
      const limiter = createLimiter({ policies: { p: '1000000/1h' }, store });
      // Three ranges of slots; each failover changes the owner of one.
      const ranges = [100, 8000, 16_000].map((slot) => cluster.ownerOf(slot));
      const byRange = await Promise.all(ranges);
      const owners = KEYS.map((key) => byRange[Math.floor((slotOf(`{${key}}`) * 3) / 16_384)]);
      const load = new Load({
        perSecond: PER_SECOND,
        most: PER_SECOND * 60,
        check: (call) => limiter.check('p', KEYS[call % KEYS.length]),
      });
      // The first calls to a node may fail because its connection is not open yet.
      await vi.waitUntil(async () => {
        const decisions = await Promise.all(KEYS.map((key) => limiter.check('p', key)));
        return decisions.every(({ degraded }) => degraded === undefined);
      }, soon);
      load.start();
      await sleep(HEALTHY_MS);
      const fromMs = performance.now();
      const node = cluster.nodes[place];
      if (how === 'killed') await node.kill();
      else await node.pause();
      await sleep(FAILED_MS);
      const upToMs = performance.now();
      if (how === 'stopped') await node.resume();
      load.stop();
      await vi.waitUntil(() => load.waiting === 0, soon);

      const calls = load.calls(fromMs, upToMs, (call) => load.has(call, DONE));
      const isDegraded = (call: number): boolean => load.has(call, DEGRADED);
      const ofNode = calls.filter((call) => owners[call % KEYS.length] === place);
      const others = calls.filter((call) => owners[call % KEYS.length] !== place);
      const degraded = others.filter(isDegraded).length / others.length;
      // On a busy machine some calls are degraded without any fault.
      const before = load.calls(0, fromMs, (call) => load.has(call, DONE));
      const usual = before.filter(isDegraded).length / before.length;
      if (isFull || degraded > 0.01) {
        const own = ofNode.filter(isDegraded).length;
        console.log(`${name}, ${how}: ${own} of ${ofNode.length} calls for it degraded;`);
        console.log(`${degraded * 100} % of ${others.length} others; ${[...load.reasons]}`);
      }
      expect(ofNode.filter(isDegraded).length).toBeGreaterThan(0);
      expect(degraded).toBeLessThanOrEqual(usual + 0.02);
      await store.close();
      await close();
    },
  );
});
