/** Processes that share a remote store get equal shares. One with late timers is not starved. */
import { expect, it } from 'vitest';
import { windowAlgorithmNames } from '../src/algorithms/index.ts';
import { createLimiter, ManualClock, memoryStore } from '../src/index.ts';
import type { Store } from '../src/store.ts';

const CALLERS = 10;
const RTT_MS = 1;
const DURATION_MS = 6000;

/** Returns a store whose decisions take a round trip, as those of a store in another process. */
function remote(inner: ReturnType<typeof memoryStore>, clock: ManualClock): Store {
  const decide: Store['decide'] = (checks) =>
    new Promise((resolve) => {
      clock.schedule(RTT_MS, () => {
        resolve(checks.map((check) => inner.decideSync(check, clock.now())));
      });
    });
  return { decide, adjust: inner.adjust, reset: inner.reset, close: async () => {} };
}

/** Lets all promises that are settled continue. */
const settle = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));

it.each(
  windowAlgorithmNames.flatMap((algorithm) => [
    { algorithm, limit: 100, window: 1000, lagMs: 0, least: 0.45 },
    { algorithm, limit: 20, window: 200, lagMs: 0, least: 0.45 },
    { algorithm, limit: 100, window: 1000, lagMs: 2, least: 0.33 },
    { algorithm, limit: 20, window: 200, lagMs: 1, least: 0.33 },
  ]),
)(
  'a process with timers $lagMs ms late gets at least $least of $algorithm $limit/$window ms',
  async ({ algorithm, limit, window, lagMs, least }) => {
    const clock = new ManualClock(1_745_000_100_000);
    const inner = memoryStore();
    const startMs = clock.now();
    const admitted = [0, 0];
    const stop = new AbortController();
    const loops = [0, lagMs].flatMap((lag, process) => {
      // The timers of the second process are late.
      const own = {
        now: () => clock.now(),
        schedule: (delayMs: number, wake: () => void) => clock.schedule(delayMs + lag, wake),
      };
      const limiter = createLimiter({
        policies: { p: { algorithm, limit, window } },
        store: remote(inner, clock),
        clock: own,
      });
      return Array.from({ length: CALLERS }, async () => {
        for (;;) {
          await limiter.acquire('p', 'shared', { signal: stop.signal });
          // The first half shows how long a process takes to notice the other.
          if (clock.now() - startMs > DURATION_MS / 2) admitted[process]++;
        }
      });
    });
    for (let elapsed = 0; elapsed < DURATION_MS; elapsed++) {
      clock.advance(1);
      await settle();
    }
    stop.abort();
    await Promise.allSettled(loops);
    const sum = admitted[0] + admitted[1];
    // Giving way does not waste capacity.
    expect(sum).toBeGreaterThan((0.9 * limit * DURATION_MS) / 2 / window);
    expect(Math.min(...admitted) / sum, admitted.join(':')).toBeGreaterThan(least);
  },
);
