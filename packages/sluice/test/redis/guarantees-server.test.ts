/** Bounds that hold when a server loses its data, and when there are two masters. */
import { expect, it } from 'vitest';
import { startRedis } from '../../../../tools/servers/redis.mjs';
import { isFull, needRedis } from './campaign.ts';
import { waitFor, wallMs } from './failover-load.ts';
import {
  checkBounds,
  DENY,
  LIMIT,
  LOCAL,
  LONG_MS,
  loadOn,
  PROCESSES,
  useUp,
} from './guarantees.ts';

needRedis();

it('k restarts without persistence admit at most k + 1 limits and the local shares', async () => {
  const server = await startRedis();
  const load = loadOn({ url: server.url });
  const restarts = isFull ? 3 : 2;
  try {
    await load.running();
    for (let time = 0; time < restarts; time++) {
      await useUp();
      await server.kill();
      await useUp();
      await server.restart();
      const restartedMs = wallMs();
      await waitFor('every key is decided again', () => load.isDecided(restartedMs));
    }
    await useUp();
    const most = checkBounds(await load.stop(), restarts + 1);
    expect(most[DENY]).toBeGreaterThan(LIMIT);
    expect(most[LOCAL]).toBeGreaterThan(2 * LIMIT);
  } finally {
    load.kill();
    await server.stop();
  }
});

it('a split brain with processes on both sides admits at most the limit on each side', async () => {
  const [one, other] = await Promise.all([startRedis(), startRedis()]);
  await other.command('REPLICAOF', one.host, one.port);
  await waitFor('it replicates', async () =>
    (await other.command<string>('INFO', 'replication')).includes('master_link_status:up'),
  );
  // The replica is promoted while the master goes on, as when a network splits.
  await other.command('REPLICAOF', 'NO', 'ONE');
  const loads = [one, other].map(({ url }) => loadOn({ url }, LONG_MS, PROCESSES / 2));
  try {
    await Promise.all(loads.map((load) => load.running()));
    await useUp();
    const calls = (await Promise.all(loads.map((load) => load.stop()))).flat();
    const most = checkBounds(calls, 2);
    expect(most[DENY]).toBeGreaterThan(LIMIT);
  } finally {
    for (const load of loads) load.kill();
    await Promise.all([one.stop(), other.stop()]);
  }
});

it('a server with min-replicas-to-write admits nothing while it has no replicas', async () => {
  const server = await startRedis({ args: ['--min-replicas-to-write', 1] });
  const load = loadOn({ url: server.url }, LONG_MS, 1);
  const isCalled = async (): Promise<boolean> =>
    (await server.command<string>('INFO', 'commandstats')).includes('cmdstat_eval');
  try {
    await waitFor('the first check is sent', isCalled);
    await useUp();
    const calls = await load.stop();
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.filter(({ degraded }) => !degraded)).toEqual([]);
    expect(calls.filter(({ allowed, setting }) => allowed && setting === DENY)).toEqual([]);
  } finally {
    load.kill();
    await server.stop();
  }
});
