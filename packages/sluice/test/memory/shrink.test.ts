import { beforeAll, describe, expect, it } from 'vitest';
import { createLimiter, ManualClock, memoryStore } from '../../src/index.ts';
import { ALGORITHMS } from '../properties/traces.ts';
import { collect } from './table-model.ts';

const START_MS = 1_745_000_100_000;
const BURST_KEYS = 50_000;
/** Spread over 10 windows. */
const STEADY_CALLS = 375_000;

/** Resolves to the bytes used by this process. Another thread frees typed arrays with a delay. */
async function bytesHeld(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 4; look++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 15));
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    least = Math.min(least, heapUsed + arrayBuffers);
  }
  return least;
}

describe('memory store', () => {
  // Compiled code counts as used memory.
  beforeAll(() => {
    for (const algorithm of ALGORITHMS) {
      const limiter = createLimiter({ policies: { p: { limit: 100, window: '1m', algorithm } } });
      for (let call = 0; call < 50_000; call++) limiter.checkSync('p', `key-${call % 5000}`);
    }
  });

  it.each(ALGORITHMS)(
    'the memory of a %s policy is released after a burst of keys',
    async (algorithm) => {
      const clock = new ManualClock(START_MS);
      const policies = { p: { limit: 100, window: '1m', algorithm } } as const;
      const limiter = createLimiter({ policies, clock });
      limiter.checkSync('p', 'steady-0');
      const before = await bytesHeld();
      for (let key = 0; key < BURST_KEYS; key++) limiter.checkSync('p', `burst-${key}`);
      expect((await bytesHeld()) - before).toBeGreaterThan(1_500_000);
      for (let call = 0; call < STEADY_CALLS; call++) {
        if (call % 50 === 0) clock.advance(80);
        limiter.checkSync('p', `steady-${call % 10}`);
      }
      expect(limiter.size).toBeLessThan(100);
      expect((await bytesHeld()) - before).toBeLessThan(500_000);
    },
  );

  it('the memory of a burst is released if the policy is no longer used', async () => {
    const clock = new ManualClock(START_MS);
    const store = memoryStore();
    const old = createLimiter({ policies: { renamed: '100/1m' }, store, clock });
    const limiter = createLimiter({ policies: { name: '100/1m' }, store, clock });
    limiter.checkSync('name', 'steady-0');
    const before = await bytesHeld();
    for (let key = 0; key < BURST_KEYS; key++) old.checkSync('renamed', `burst-${key}`);
    for (let call = 0; call < STEADY_CALLS; call++) {
      if (call % 50 === 0) clock.advance(80);
      limiter.checkSync('name', `steady-${call % 10}`);
    }
    expect(store.size).toBeLessThan(100);
    expect((await bytesHeld()) - before).toBeLessThan(500_000);
  });

  it('a policy that was used once takes at most 16 KB', async () => {
    const names = Array.from({ length: 1000 }, (_, place) => `policy-${place}`);
    const inputs = names.map((name, place) => {
      const algorithm = ALGORITHMS[place % ALGORITHMS.length];
      return [name, { limit: 10, window: '1m', algorithm }] as const;
    });
    const limiter = createLimiter({ policies: Object.fromEntries(inputs) });
    const before = await bytesHeld();
    for (const name of names) limiter.checkSync(name, 'key');
    expect(((await bytesHeld()) - before) / names.length).toBeLessThan(16_384);
    expect(limiter.size).toBe(1000);
  });
});
