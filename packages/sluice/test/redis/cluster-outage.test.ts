/**
 * One of three masters dies or goes silent under a steady load. Calls for the other two are decided
 * by Redis all the time.
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
const soon = { timeout: 60_000, interval: 10 };
/** Enough for keys in each failure domain of each master. */
const KEYS = Array.from({ length: 600 }, (_, place) => `user ${place}`);

describe.each(['ioredis', 'iovalkey', 'node-redis'] as const)('with %s', (name) => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
    // By default, the Cluster rejects all commands until a replica replaces the failed master.
    for (const node of cluster.nodes) {
      await node.command('CONFIG', 'SET', 'cluster-require-full-coverage', 'no');
    }
  });
  afterAll(() => cluster?.stop());

  it.each([
    ['stopped', 1],
    ['killed', 0],
  ] as const)(
    'a master that is %s degrades at most 2 % of calls to other masters',
    async (how, place) => {
      const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
      const { client, close } = await clusterClients[name](nodes);
      const options = {
        ...silent,
        prefix: newPrefix(),
        onFailure: 'deny',
        denyCache: false,
      } as const;
      // Longer than the default, so that a busy machine does not look like a silent server.
      const store = redisStore(client, { ...options, deadlineMs: 500 });
      const limiter = createLimiter({ policies: { p: '1000000/1h' }, store });
      // Three ranges of slots, whose owners change with each failover.
      const ranges = [100, 8000, 16_000].map((slot) => cluster.ownerOf(slot));
      const byRange = await Promise.all(ranges);
      const owners = KEYS.map((key) => byRange[Math.floor((slotOf(`{${key}}`) * 3) / 16_384)]);
      const load = new Load({
        perSecond: PER_SECOND,
        most: PER_SECOND * 60,
        check: (call) => limiter.check('p', KEYS[call % KEYS.length]),
      });
      // The connections to some nodes may not be established yet.
      await vi.waitUntil(async () => {
        const decisions = await Promise.all(KEYS.map((key) => limiter.check('p', key)));
        return decisions.every(({ degraded }) => degraded === undefined);
      }, soon);
      load.start();
      await sleep(1000);
      const fromMs = performance.now();
      const node = cluster.nodes[place];
      if (how === 'killed') await node.kill();
      else await node.pause();
      await sleep(isFull ? 10_000 : 3000);
      const upToMs = performance.now();
      if (how === 'stopped') await node.resume();
      load.stop();
      await vi.waitUntil(() => load.waiting === 0, soon);

      const calls = load.calls(fromMs, upToMs, (call) => load.has(call, DONE));
      const isDegraded = (call: number): boolean => load.has(call, DEGRADED);
      const ofNode = calls.filter((call) => owners[call % KEYS.length] === place);
      const others = calls.filter((call) => owners[call % KEYS.length] !== place);
      const degraded = others.filter(isDegraded).length / others.length;
      // A busy machine degrades some calls without a fault.
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
