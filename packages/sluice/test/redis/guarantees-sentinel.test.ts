/**
 * Bounds that hold through a failover by Sentinel, with `deny` and with `local`. The short form
 * has one fault, `npm run failover` all.
 */
import { expect, it } from 'vitest';
import { isFull, needRedis } from './campaign.ts';
import { checkBounds, DENY, deafen, LIMIT, LOCAL, SHORT_MS, withSentinel } from './guarantees.ts';

needRedis();

it.runIf(isFull)(
  'losing an unreplicated Sentinel master admits at most 2 limits and local shares',
  async () => {
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
  },
);

it('stopping a Sentinel master admits at most 2 limits and local shares', async () => {
  const calls = await withSentinel(({ master }) => ({
    fail: () => master.pause(),
    heal: () => master.resume(),
  }));
  const most = checkBounds(calls, 2);
  expect(most[LOCAL]).toBeGreaterThan(2 * LIMIT);
});

it.runIf(isFull)(
  'a planned failover by Sentinel admits at most 2 limits and local shares',
  async () => {
    const calls = await withSentinel((group) => ({
      windowMs: SHORT_MS,
      fail: () => group.failover(),
    }));
    checkBounds(calls, 2, SHORT_MS);
  },
);
