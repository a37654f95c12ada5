/** Leases of processes in three regions, each 50 ms away from Redis, also during partitions. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../../../../tools/servers/fault-proxy.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { isFull, needRedis } from './campaign.ts';
import { type Counts, Spenders } from './lease-processes.ts';

const REGIONS = 3;
const DELAY_MS = 50;
/** Leases of this window last 625 ms, longer than a round trip. */
const WINDOW_MS = 20_000;
const PARTITIONS_MS = isFull ? [1000, 3000, 10_000, 30_000] : [1000];
/** The decisions that each region makes while its latency is measured. */
const MEASURED = isFull ? 20_000 : 300;

let server: RedisServer;
let proxies: readonly FaultProxy[];

needRedis();
beforeAll(async () => {
  server = await startRedis();
  const all = Array.from({ length: REGIONS }, () => startFaultProxy({ port: server.port }));
  proxies = await Promise.all(all);
  for (const proxy of proxies) proxy.delay(DELAY_MS);
});
afterAll(async () => {
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  await server.stop();
});

/** Starts a process in each region. All of them together make `perSecond` calls. */
function startRegions(prefix: string, limit: number, perSecond: number): Spenders {
  const policy = { limit, window: WINDOW_MS, lease: true };
  const options = { policy, perSecond: perSecond / REGIONS, store: { prefix, deadlineMs: 500 } };
  return new Spenders(
    proxies.map(({ host, port }) => ({ url: `redis://${host}:${port}`, ...options })),
  );
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(20);
}

it('a far region decides without a round trip while the limit has room', async () => {
  const spenders = startRegions('near:', 1_000_000, isFull ? 3000 : 600);
  try {
    await until(() => spenders.all.every((spender) => spender.counts().leased > 100));
    const before = spenders.all.map((spender) => spender.counts());
    const since = (region: number, name: keyof Counts): number =>
      spenders.all[region].counts()[name] - before[region][name];
    await until(() => before.every((_, region) => since(region, 'decisions') >= MEASURED));
    for (const region of before.keys()) {
      const decisions = since(region, 'decisions');
      const [leased, slow] = [since(region, 'leased'), since(region, 'slow')];
      if (isFull) console.log({ region, decisions, leased, slow });
      // The others are made after a pause of the process that is longer than a lease.
      expect(leased / decisions).toBeGreaterThan(isFull ? 0.99 : 0.9);
      if (isFull) expect(slow / decisions).toBeLessThan(0.01);
    }
  } finally {
    await spenders.stop();
  }
});

/** Resolves to the next report of a process. */
async function nextReport(spender: Spenders['all'][number]): Promise<Counts> {
  const { decisions } = spender.counts();
  await until(() => spender.counts().decisions > decisions);
  return spender.counts();
}

it('a region that is cut off spends its lease, then applies onFailure', async () => {
  // In the short form, the limit has room when the partition begins, and is full soon after it.
  const limit = isFull ? 20_000 : 3000;
  const spenders = startRegions('cut:', limit, 1500);
  try {
    await until(() => spenders.all.every((spender) => spender.counts().leased > 0));
    for (const [number, partitionMs] of PARTITIONS_MS.entries()) {
      const [proxy, spender] = [proxies[number % REGIONS], spenders.all[number % REGIONS]];
      proxy.blackHole(true);
      await nextReport(spender);
      const before = await nextReport(spender);
      await Promise.all([
        sleep(partitionMs),
        until(() => spender.counts().degraded > before.degraded),
      ]);
      proxy.blackHole(false);
      const cut = await nextReport(spender);
      if (isFull) console.log({ partitionMs, before, cut });
      if (number === 0) expect(cut.leased).toBeGreaterThan(before.leased);
      const decided = ({ decisions, degraded }: Counts): number => decisions - degraded;
      await until(() => decided(spender.counts()) > decided(cut));
    }
    const { admitted, most, over } = await spenders.stop();
    if (isFull) console.log({ admitted, most, over });
    expect(over).toBe(0);
    expect(admitted).toBeGreaterThan(0);
  } finally {
    await spenders.stop();
  }
});
