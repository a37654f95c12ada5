/** What holds through a failover in a Cluster, with `deny` and with `local`. */
import { expect, it } from 'vitest';
import { needRedis } from './campaign.ts';
import { checkBounds, DENY, deafen, LIMIT, LOCAL, withCluster } from './guarantees.ts';

needRedis();

it('Cluster, master killed before it replicated: both copies and the local shares', async () => {
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

it('Cluster, master stopped and resumed: at most both copies and the local shares', async () => {
  const calls = await withCluster(({ nodes }) => ({
    fail: () => nodes[0].pause(),
    heal: () => nodes[0].resume(),
  }));
  checkBounds(calls, 2);
});

it('Cluster, planned failover: the limit alone, as the replica waits for all writes', async () => {
  const calls = await withCluster(({ nodes }) => ({
    fail: async () => void (await nodes[3].command('CLUSTER', 'FAILOVER')),
  }));
  checkBounds(calls, 1);
});
