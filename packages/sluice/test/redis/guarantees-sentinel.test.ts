/** What holds through a failover by Sentinel, with `deny` and with `local`. */
import { expect, it } from 'vitest';
import { needRedis } from './campaign.ts';
import { checkBounds, DENY, deafen, LIMIT, LOCAL, SHORT_MS, withSentinel } from './guarantees.ts';

needRedis();

it('Sentinel, master killed before it replicated: both copies and the local shares', async () => {
  const calls = await withSentinel(({ master, replicas }) => ({
    prepare: () => deafen(master, replicas),
    fail: async () => {
      await master.kill();
      for (const replica of replicas) await replica.resume();
    },
  }));
  const most = checkBounds(calls, 2);
  expect(most[DENY]).toBeGreaterThan(LIMIT);
  expect(most[LOCAL]).toBeGreaterThan(2 * LIMIT);
});

it('Sentinel, master stopped and resumed: at most both copies and the local shares', async () => {
  const calls = await withSentinel(({ master }) => ({
    fail: () => master.pause(),
    heal: () => master.resume(),
  }));
  const most = checkBounds(calls, 2);
  expect(most[LOCAL]).toBeGreaterThan(2 * LIMIT);
});

it('Sentinel, planned failover: at most both masters and the local shares', async () => {
  const calls = await withSentinel((group) => ({
    windowMs: SHORT_MS,
    fail: () => group.failover(),
  }));
  checkBounds(calls, 2, SHORT_MS);
});
