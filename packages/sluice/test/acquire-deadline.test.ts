/** Waiters whose turn and deadline are in the same millisecond, and clocks that change. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Clock, createLimiter, ManualClock, memoryStore } from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

const START_MS = 1_745_000_100_000;

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 300; turn++) await Promise.resolve();
};

describe.each([
  ['a synchronous store', memoryStore],
  ['an asynchronous store', promisesOnly],
])('a waiter due exactly at maxWaitMs, on %s', (_, open) => {
  it.each([1, 2, 7, 100])(
    'all %d waiters whose turn comes exactly at maxWaitMs are admitted',
    async (count) => {
      const clock = new ManualClock(START_MS);
      const policies = { p: { limit: count, window: 1000 } };
      const limiter = createLimiter({ policies, clock, store: open() });
      await limiter.check('p', 'a', { cost: count });
      const waiting = Array.from({ length: count }, () =>
        limiter.acquire('p', 'a', { maxWaitMs: 1000 }),
      );
      await settle();
      clock.advance(1000);
      const ended = await Promise.all(waiting);
      expect(ended.map(({ allowed, atMs }) => [allowed, atMs - START_MS])).toEqual(
        Array(count).fill([true, 1000]),
      );
    },
  );

  it('a waiter due at its deadline is admitted behind a waiter for two keys', async () => {
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({ policies: { p: '2/1s' }, clock, store: open() });
    for (const key of ['a', 'b']) await limiter.check('p', key, { cost: 2 });
    const both = ['a', 'b'].map((key) => ({ policy: 'p', key }) as const);
    // The last is behind `both` on b, which is behind the first on a.
    const waiting = [
      limiter.acquire('p', 'a'),
      limiter.acquire(both),
      limiter.acquire('p', 'b', { maxWaitMs: 1000 }),
    ];
    await settle();
    clock.advance(1000);
    expect((await Promise.all(waiting)).map(({ allowed }) => allowed)).toEqual([true, true, true]);
  });

  it('a waiter due at its deadline is denied if another waiter uses all capacity', async () => {
    const clock = new ManualClock(START_MS);
    // A counter's estimate does not count the others, so the last one is kept until its deadline.
    const policies = { p: { limit: 2, window: 1000, algorithm: 'sliding-counter' } } as const;
    const limiter = createLimiter({ policies, clock, store: open() });
    const { retryAfterMs } = await limiter
      .check('p', 'a', { cost: 2 })
      .then(() => limiter.peek('p', 'a', { cost: 2 }));
    const waiting = [2, 2].map((cost) =>
      limiter.acquire('p', 'a', { cost, maxWaitMs: retryAfterMs }),
    );
    await settle();
    clock.advance(retryAfterMs);
    const ended = await Promise.all(waiting);
    expect(ended.map(({ allowed }) => allowed)).toEqual([true, false]);
    expect(clock.now()).toBe(START_MS + retryAfterMs);
  });
});

describe('a waiter due exactly at maxWaitMs, on the system clock', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('a waiter is admitted at its deadline if the first waiter set its timer later', async () => {
    vi.useFakeTimers({ now: START_MS, toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const limiter = createLimiter({ policies: { p: '2/1s' } });
    const first = await limiter.check('p', 'a', { cost: 2 });
    if (!first.allowed) throw new Error('expected to be admitted');
    const waiting = [limiter.acquire('p', 'a'), limiter.acquire('p', 'a', { maxWaitMs: 1000 })];
    // Changes no charge, but the first waiter checks again and starts a new wait.
    await limiter.settle(first.receipt, 2);
    await vi.advanceTimersByTimeAsync(1000);
    expect((await Promise.all(waiting)).map(({ allowed }) => allowed)).toEqual([true, true]);
  });

  it('a waiter is admitted at its deadline if the clock advances during acquire', async () => {
    const inner = new ManualClock(START_MS);
    let passing = 0;
    const clock: Clock = {
      now() {
        if (passing-- > 0) inner.advance(1);
        return inner.now();
      },
      schedule: (delayMs, wake) => inner.schedule(delayMs, wake),
    };
    for (let count = 1; count < 9; count++) {
      const limiter = createLimiter({ policies: { p: '1/1s' }, clock });
      limiter.checkSync('p', 'a');
      const slotMs = inner.now() + 1000;
      passing = count;
      const waiting = limiter.acquire('p', 'a', { maxWaitMs: 999 });
      passing = 0;
      inner.advance(slotMs - inner.now());
      expect((await waiting).allowed).toBe(true);
    }
  });

  it('a waiter is not delayed if the clock is set back', async () => {
    vi.useFakeTimers({ now: START_MS, toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const limiter = createLimiter({ policies: { p: '1/10s' } });
    const ended: unknown[] = [];
    const wait = (name: string, maxWaitMs?: number): void => {
      const note = ({ allowed }: { allowed: boolean }) => ended.push([name, allowed]);
      void limiter.acquire('p', 'a', { maxWaitMs }).then(note);
    };
    limiter.checkSync('p', 'a');
    wait('first');
    wait('second', 30_000);
    await vi.advanceTimersByTimeAsync(4_000);
    vi.setSystemTime(START_MS - 3_600_000);
    wait('third', 1_000);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(ended).toEqual([['third', false]]);
    // The delay is at most the time since the clock was last read.
    await vi.advanceTimersByTimeAsync(5_000 + 4_000);
    expect(ended.slice(1)).toEqual([['first', true]]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(ended.slice(2)).toEqual([['second', true]]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('reset', () => {
  it('reset passes the time of its call to the store', async () => {
    const clock = new ManualClock(START_MS);
    const store = promisesOnly();
    const times: unknown[] = [];
    const reset = vi.spyOn(store, 'reset');
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock, store });
    const resetting = limiter.reset('p', 'a');
    clock.advance(5);
    await resetting;
    await limiter.reset('p', 'b');
    for (const [, key, nowMs] of reset.mock.calls) times.push([key, nowMs]);
    expect(times).toEqual([
      ['a', START_MS],
      ['b', START_MS + 5],
    ]);
  });

  it('reset passes no time to the store if the limiter has no clock option', async () => {
    const store = promisesOnly();
    const reset = vi.spyOn(store, 'reset');
    await createLimiter({ policies: { p: '1/1s' }, store }).reset('p', 'a');
    expect(reset.mock.calls[0][2]).toBeUndefined();
  });
});
