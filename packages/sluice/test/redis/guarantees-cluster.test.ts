/**
 * Bounds that hold through a failover in a Cluster, with `deny` and with `local`. The short form
 * has some of the faults, `npm run failover` all.
 */
import { expect, it } from 'vitest';
import { isFull, needRedis } from './campaign.ts';
import { checkBounds, DENY, deafen, LIMIT, LOCAL, withCluster } from './guarantees.ts';

needRedis();

it('losing an unreplicated Cluster master admits at most 2 limits and local shares', async () => {
  const calls = await withCluster(({ nodes }) => ({
    prepare: () => deafen(nodes[0], [nodes[3]]),
    fail: async () => {
      await nodes[0].kill();
      await nodes[3].resume();
    },
  }));
  const most = checkBounds(calls, 2);
  expect(most[DENY]).toBeGreaterThan(LIMIT);
  expect(most[LOCAL]).toBeGreaterThan(2 * LIMIT);
});

it.runIf(isFull)('stopping a Cluster master admits at most 2 limits and local shares', async () => {
  const calls = await withCluster(({ nodes }) => ({
    fail: () => nodes[0].pause(),
    heal: () => nodes[0].resume(),
  }));
  checkBounds(calls, 2);
});

// The replica waits for all writes.
it('a planned failover in a Cluster admits at most the limit', async () => {
  const calls = await withCluster(({ nodes }) => ({
    fail: async () => void (await nodes[3].command('CLUSTER', 'FAILOVER')),
  }));
  checkBounds(calls, 1);
});
