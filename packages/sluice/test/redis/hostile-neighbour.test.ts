/**
 * Eight clients of one server, one of them hostile: huge logs, refunds of old entries, large denied
 * costs, damaged values, long ids and inspections. The calls of the others must stay fast.
 *
 * The long form (SLUICE_CAMPAIGN=full) also asserts times, which needs a machine with little other
 * load.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GuardedStore } from '../../src/failure/guarded-store.ts';
import { createLimiter } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { connect, isFull, newPrefix, silent, useRedis } from './campaign.ts';

const world = useRedis();
const OTHERS = 7;
const ENTRIES = isFull ? 100_000 : 5000;
const RUN_MS = isFull ? 20_000 : 1000;
const PATIENT_MS = isFull ? 50 : 2000;

const policies = {
  log: '1000000/1h',
  counter: { limit: 1_000_000, window: '1h', algorithm: 'sliding-counter' },
  bucket: { limit: 1_000_000, window: '1h', algorithm: 'token-bucket' },
} as const;
const NAMES = ['log', 'counter', 'bucket'] as const;

const clients: Redis[] = [];
beforeAll(async () => {
  for (let made = 0; made < OTHERS; made++) clients.push(await connect(world.server.port));
});
afterAll(() => {
  for (const client of clients) client.disconnect();
});

interface Figures {
  readonly p50: number;
  readonly p99: number;
  readonly calls: number;
  readonly degraded: number;
  readonly breakers: readonly string[];
}

/** Makes calls at the rate of an application and measures the time of each. */
async function runOthers(prefix: string): Promise<Figures> {
  const endMs = performance.now() + RUN_MS;
  const times: number[] = [];
  let degraded = 0;
  const stores: GuardedStore[] = [];
  const run = async (client: Redis, number: number): Promise<void> => {
    const store = redisStore(client, { ...silent, prefix, deadlineMs: PATIENT_MS });
    stores.push(store);
    const limiter = createLimiter({ policies, store });
    for (let call = 0; performance.now() < endMs; call++) {
      const startMs = performance.now();
      const decision = await limiter.check(NAMES[call % 3], `user-${number}-${call % 50}`);
      times.push(performance.now() - startMs);
      if (decision.degraded !== undefined) degraded++;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  };
  await Promise.all(clients.map(run));
  times.sort((a, b) => a - b);
  const at = (part: number): number => times[Math.floor(times.length * part)];
  const breakers = stores.map(({ breaker }) => breaker);
  return { p50: at(0.5), p99: at(0.99), calls: times.length, degraded, breakers };
}

/** Starts the hostile client in its own process, with a full log. */
async function openHostile(prefix: string) {
  const settings = JSON.stringify({ url: world.server.url, prefix, entries: ENTRIES });
  const worker = fork(new URL('hostile-worker.mjs', import.meta.url).pathname, [settings]);
  const failed = once(worker, 'exit').then(() => {
    throw new Error('The hostile worker ended early: does `npm run build` work?');
  });
  await Promise.race([once(worker, 'message'), failed]);
  failed.catch(() => {});
  return {
    go: () => worker.send('go'),
    async stop(): Promise<number> {
      worker.send('stop');
      const [{ attacks }] = (await once(worker, 'message')) as [{ attacks: number }];
      await once(worker, 'exit');
      return attacks;
    },
  };
}

describe('seven clients beside a hostile one', () => {
  it('a hostile client does not degrade the decisions of seven other clients', async () => {
    await world.client.call('CONFIG', ['SET', 'slowlog-log-slower-than', '1000']);
    const prefix = newPrefix();
    await runOthers(prefix);
    const alone = await runOthers(prefix);
    const hostile = await openHostile(newPrefix());
    await world.client.call('SLOWLOG', ['RESET']);
    hostile.go();
    const beside = await runOthers(prefix);
    const attacks = await hostile.stop();
    const slow = (await world.client.call('SLOWLOG', ['GET', '10'])) as [number, number, number][];
    const text = ({ calls, p50, p99 }: Figures): string =>
      `${calls} calls, p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
    const slowest = slow.map(([, , us]) => us).join(' ') || 'none';
    console.log(`alone: ${text(alone)}; beside ${attacks} attacks: ${text(beside)}`);
    console.log(`commands of more than 1 ms: ${slowest}`);
    expect(attacks).toBeGreaterThan(20);
    expect(beside.degraded).toBe(0);
    expect(new Set(beside.breakers)).toEqual(new Set(['closed']));
    if (isFull) {
      expect(slow).toEqual([]);
      expect(beside.p99).toBeLessThanOrEqual(2 * alone.p99);
    }
  });
});
