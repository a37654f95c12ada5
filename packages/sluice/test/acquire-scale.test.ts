/** Many waiters: the work per waiter is at most logarithmic and is done in slices. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  type Decision,
  ManualClock,
  memoryStore,
  type Store,
  type SyncLimiter,
} from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';
import { turn } from './rejections.ts';

const START_MS = 1_745_000_100_000;
/** The most waiters that one turn of the event loop may handle: more than one slice. */
const MAX_IN_TURN = 1000;
const MANY = 4000;

type Waiting = Promise<Decision>;

interface Queue {
  readonly clock: ManualClock;
  readonly limiter: SyncLimiter<{ p: { limit: number; window: number } }>;
  readonly stop: AbortController;
  readonly waiting: Waiting[];
  /** Indexes of the settled waiters, in the order in which they settled. */
  readonly ended: number[];
}

/** Returns a key at its limit with `count` waiters. */
function queueOf(count: number, options: object, store?: Store): Queue {
  const clock = new ManualClock(START_MS);
  const policies = { p: { limit: count, window: 60_000 } };
  const limiter = createLimiter({ policies, clock, store: store as never });
  const stop = new AbortController();
  const ended: number[] = [];
  void limiter.check('p', 'a', { cost: count });
  const { signal } = stop;
  const waiting = Array.from({ length: count }, (_, at) => {
    const acquired = limiter.acquire('p', 'a', { ...options, signal });
    const note = (): unknown => ended.push(at);
    acquired.then(note, note);
    return acquired;
  });
  return { clock, limiter, stop, waiting, ended };
}

const settle = async (): Promise<void> => {
  for (let time = 0; time < 5000; time++) await Promise.resolve();
};

const inOrder = Array.from({ length: MANY }, (_, at) => at);

describe('events of many waiters', () => {
  it.each<[name: string, options: object, (queue: Queue) => void]>([
    ['a reset', { maxWaitMs: 1e6 }, ({ limiter }) => limiter.resetSync('p', 'a')],
    ['the end of the window', {}, ({ clock }) => clock.advance(60_000)],
    ['an aborted signal', { maxWaitMs: 1e6 }, ({ stop }) => stop.abort(new Error('over'))],
    ['close', {}, ({ limiter }) => void limiter.close()],
  ])(
    'with 4,000 waiters, %s is handled in slices of the event loop',
    async (_, options, happen) => {
      const queue = queueOf(MANY, options);
      await settle();
      happen(queue);
      await settle();
      expect(queue.ended.length).toBeGreaterThan(50);
      expect(queue.ended.length).toBeLessThan(MAX_IN_TURN);
      await Promise.allSettled(queue.waiting);
      expect(queue.ended).toEqual(inOrder);
    },
  );

  it('many deadlines in one millisecond are handled in slices of the event loop', async () => {
    // A counter's estimate does not count the others, so all are kept until their deadlines.
    const clock = new ManualClock(START_MS);
    const policies = { p: { limit: 100, window: 1000, algorithm: 'sliding-counter' } } as const;
    const limiter = createLimiter({ policies, clock });
    limiter.checkSync('p', 'a', { cost: 100 });
    const patient = limiter.acquire('p', 'a', { cost: 100 });
    const denied: number[] = [];
    const waiting = inOrder.map((at) =>
      limiter.acquire('p', 'a', { maxWaitMs: 1500 }).then(() => void denied.push(at)),
    );
    clock.advance(1499);
    await settle();
    expect(denied).toEqual([]);
    clock.advance(1);
    await settle();
    expect(denied.length).toBeGreaterThan(50);
    expect(denied.length).toBeLessThan(MAX_IN_TURN);
    await Promise.all(waiting);
    expect(denied).toEqual(inOrder);
    clock.advance(500);
    expect((await patient).allowed).toBe(true);
  });

  it('waiters of many keys whose windows end together are served in slices', async () => {
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock });
    let served = 0;
    const waiting = inOrder.map((at) => {
      limiter.checkSync('p', `k${at}`);
      return limiter.acquire('p', `k${at}`, { maxWaitMs: 1000 }).then(({ allowed }) => {
        if (allowed) served++;
      });
    });
    clock.advance(1000);
    await settle();
    expect(served).toBeGreaterThan(50);
    expect(served).toBeLessThan(MAX_IN_TURN);
    await Promise.all(waiting);
    expect(served).toBe(MANY);
  });

  it('waiters on an asynchronous store without I/O are served in slices', async () => {
    const queue = queueOf(MANY, {}, promisesOnly());
    await turn();
    await queue.limiter.reset('p', 'a');
    await settle();
    expect(queue.ended.length).toBeGreaterThan(50);
    expect(queue.ended.length).toBeLessThan(MAX_IN_TURN);
    await Promise.all(queue.waiting);
    expect(queue.ended).toEqual(inOrder);
  });

  it('many waiters of one key do not delay another key', async () => {
    const queue = queueOf(MANY, {});
    const { clock, limiter } = queue;
    limiter.checkSync('p', 'b', { cost: MANY });
    const other = limiter.acquire('p', 'b', { maxWaitMs: 60_000 });
    clock.advance(60_000);
    expect((await limiter.acquire('p', 'c', { maxWaitMs: 0 })).allowed).toBe(true);
    expect((await other).allowed).toBe(true);
    expect(queue.ended.length).toBeLessThan(MAX_IN_TURN);
    await limiter.close();
    await Promise.allSettled(queue.waiting);
  });

  it('an abort while replies are pending leaves no charge', async () => {
    const store = promisesOnly();
    const limiter = createLimiter({ policies: { p: '1/1s' }, store });
    const stop = new AbortController();
    const { signal } = stop;
    const keys = inOrder.slice(0, 1500).map((at) => `k${at}`);
    const waiting = keys.map((key) => limiter.acquire('p', key, { signal }));
    stop.abort(new Error('over'));
    const ended = await Promise.allSettled(waiting);
    expect(ended.every(({ status }) => status === 'rejected')).toBe(true);
    await turn();
    for (const key of keys) expect((await limiter.peek('p', key)).remaining).toBe(1);
  });
});

describe('CPU time of many waiters', { retry: 2 }, () => {
  /** Returns the CPU time of `count` arrivals and of `follow`, the least of three runs. */
  async function cost(count: number, follow: (queue: Queue) => unknown): Promise<number> {
    let least = Number.POSITIVE_INFINITY;
    for (let run = 0; run < 3; run++) {
      const before = process.cpuUsage();
      const queue = queueOf(count, { maxWaitMs: 120_000 });
      await follow(queue);
      await Promise.allSettled(queue.waiting);
      const { user, system } = process.cpuUsage(before);
      least = Math.min(least, user + system);
    }
    return least;
  }

  it.each<[name: string, follow: (queue: Queue) => unknown]>([
    ['reset', ({ limiter }) => limiter.resetSync('p', 'a')],
    ['the end of the window', ({ clock }) => clock.advance(60_000)],
    ['an aborted signal', ({ stop }) => stop.abort()],
    [
      'deadlines',
      async ({ clock, limiter, waiting }) => {
        // Charges the full limit in each window, so that all waiters reach their deadlines.
        for (let ms = 60_000; ms <= 120_000; ms += 60_000) {
          clock.set(START_MS + ms);
          limiter.checkSync('p', 'a', { cost: limiter.peekSync('p', 'a').remaining });
        }
        clock.advance(0);
        await Promise.all(waiting);
      },
    ],
  ])(
    'the CPU time of arrival and %s grows less than quadratically with the waiters',
    async (_, follow) => {
      await cost(500, follow);
      const [few, many] = [await cost(1000, follow), await cost(8000, follow)];
      // Eight times as many: 8 times the work, 64 times if it were quadratic.
      expect(many / few).toBeLessThan(25);
    },
  );
});

describe('memory and timers of waiters that have left', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;

  it.each([
    ['a synchronous store', memoryStore],
    ['an asynchronous store', promisesOnly],
  ])('aborted waiters are garbage-collected while another one waits, on %s', async (_, open) => {
    const clock = new ManualClock(START_MS);
    const store = open();
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock, store });
    await limiter.check('p', 'a');
    void limiter.acquire('p', 'a').catch(() => {});
    const signals: WeakRef<AbortSignal>[] = [];
    let last: AbortController | undefined;
    for (let at = 0; at < 5000; at++) {
      const stop = new AbortController();
      const { signal } = stop;
      signals.push(new WeakRef(signal));
      limiter.acquire('p', 'a', { signal, maxWaitMs: 1e6 }).catch(() => {});
      // Abort the previous waiter only now, so that the queue always has at least two waiters.
      last?.abort();
      last = stop;
      if (at % 100 === 0) await turn();
    }
    last = undefined;
    await turn();
    collect();
    const kept = signals.filter((signal) => signal.deref() !== undefined);
    expect(kept.length).toBeLessThan(10);
    await limiter.close();
  });

  it('a limiter has at most one timer, and none without waiters', async () => {
    const inner = new ManualClock(START_MS);
    let timers = 0;
    let most = 0;
    const clock = {
      now: () => inner.now(),
      schedule(delayMs: number, wake: () => void) {
        most = Math.max(most, ++timers);
        let isOver = false;
        const end = (): void => {
          if (!isOver) timers--;
          isOver = true;
        };
        const stop = inner.schedule(delayMs, () => {
          end();
          wake();
        });
        return () => {
          end();
          stop();
        };
      },
    };
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock });
    const stop = new AbortController();
    const { signal } = stop;
    const waiting = Array.from({ length: 50 }, (_, at) =>
      limiter.acquire('p', `k${at % 5}`, { maxWaitMs: 20_000 - at * 10, signal }).catch(() => {}),
    );
    inner.advance(3000);
    expect([timers, most]).toEqual([1, 1]);
    stop.abort();
    await Promise.all(waiting);
    expect([timers, most]).toEqual([0, 1]);
  });
});
