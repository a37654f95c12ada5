import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { createLimiter, ManualClock, memoryStore, type Store } from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';
import { ALGORITHMS } from './properties/traces.ts';

const START_MS = 1_745_000_100_000;

function setUp(store?: Store) {
  const clock = new ManualClock(START_MS);
  const policies = {
    one: { limit: 1, window: 1000 },
    three: { limit: 3, window: 1000 },
  } as const;
  const limiter = createLimiter({ policies, clock, ...(store && { store }) });
  /** Records when an acquire ended, and how. */
  const log: [name: string, afterMs: number, outcome: unknown][] = [];
  const note = (name: string, promise: Promise<{ allowed: boolean }>): Promise<void> =>
    promise.then(
      ({ allowed }) => void log.push([name, clock.now() - START_MS, allowed]),
      (error) => void log.push([name, clock.now() - START_MS, String(error)]),
    );
  return { clock, limiter, log, note };
}

/** Advances the clock by one millisecond at a time, and lets promises settle in between. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed++) {
    await settle();
    clock.advance(1);
  }
  await settle();
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}

describe.each([
  ['a store in memory', () => undefined],
  ['an asynchronous store', promisesOnly],
])('acquire on %s', (_, open) => {
  it('acquire resolves at once if the cost fits', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await note('first', limiter.acquire('one', 'a'));
    expect(log).toEqual([['first', 0, true]]);
    expect(clock.now()).toBe(START_MS);
  });

  it('acquire waits exactly until the cost fits', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('one', 'a');
    clock.advance(300);
    note('second', limiter.acquire('one', 'a'));
    await pass(clock, 800);
    expect(log).toEqual([['second', 1000, true]]);
  });

  it('acquire admits in order of arrival, also a low cost behind a high one', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('three', 'a', { cost: 2 });
    note('heavy', limiter.acquire('three', 'a', { cost: 3 }));
    note('light', limiter.acquire('three', 'a'));
    note('other key', limiter.acquire('three', 'b'));
    await pass(clock, 2100);
    expect(log).toEqual([
      ['other key', 0, true],
      ['heavy', 1000, true],
      ['light', 2000, true],
    ]);
  });

  it('acquire denies at once, without a charge, if the wait exceeds maxWaitMs', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('one', 'a');
    note('impatient', limiter.acquire('one', 'a', { maxWaitMs: 999 }));
    note('unbounded', limiter.acquire('one', 'a', { maxWaitMs: 1000 }));
    await settle();
    expect(log).toEqual([['impatient', 0, false]]);
    await pass(clock, 1000);
    expect(log[1]).toEqual(['unbounded', 1000, true]);
  });

  it('acquire denies at once if the waiters ahead take longer than maxWaitMs', async () => {
    const { clock, limiter, log, note } = setUp(open());
    for (const name of ['1st', '2nd', '3rd', '4th', '5th']) {
      note(name, limiter.acquire('one', 'a', { maxWaitMs: 2500 }));
    }
    await settle();
    expect(log).toEqual([
      ['1st', 0, true],
      ['4th', 0, false],
      ['5th', 0, false],
    ]);
    await pass(clock, 2500);
    expect(log.slice(3)).toEqual([
      ['2nd', 1000, true],
      ['3rd', 2000, true],
    ]);
  });

  it('a denial by acquire has the wait behind the other waiters as retryAfterMs', async () => {
    const { limiter } = setUp(open());
    await limiter.check('one', 'a');
    limiter.acquire('one', 'a').catch(() => {});
    const denied = await limiter.acquire('one', 'a', { maxWaitMs: 1500 });
    expect(denied).toMatchObject({
      allowed: false,
      cost: 1,
      retryAfterMs: 2000,
      receipt: undefined,
    });
    await limiter.close();
  });

  it('acquire of several limits holds none of them while it waits', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('one', 'a');
    note(
      'both',
      limiter.acquire([
        { policy: 'one', key: 'a' },
        { policy: 'three', key: 'b' },
      ]),
    );
    note('behind', limiter.acquire('three', 'b'));
    await settle();
    expect((await limiter.peek('three', 'b')).remaining).toBe(3);
    await pass(clock, 1000);
    expect(log).toEqual([
      ['both', 1000, true],
      ['behind', 1000, true],
    ]);
  });

  it('an aborted acquire charges nothing and lets the next waiter proceed', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('one', 'a');
    const stop = new AbortController();
    note('stopped', limiter.acquire('one', 'a', { signal: stop.signal }));
    note('next', limiter.acquire('one', 'a'));
    await pass(clock, 400);
    stop.abort(new Error('shutting down'));
    await pass(clock, 700);
    expect(log).toEqual([
      ['stopped', 400, 'Error: shutting down'],
      ['next', 1000, true],
    ]);
  });

  it('acquire rejects if its signal is already aborted', async () => {
    const { limiter } = setUp(open());
    const signal = AbortSignal.abort(new Error('too late'));
    await expect(limiter.acquire('one', 'a', { signal })).rejects.toThrow('too late');
    expect((await limiter.peek('one', 'a')).remaining).toBe(1);
  });

  it('close rejects all waiters', async () => {
    const { limiter, log, note } = setUp(open());
    await limiter.check('one', 'a');
    note('first', limiter.acquire('one', 'a'));
    note('second', limiter.acquire('one', 'a'));
    await settle();
    await limiter.close();
    await settle();
    expect(log.map(([, , outcome]) => outcome)).toEqual([
      'SluiceError: The limiter was closed',
      'SluiceError: The limiter was closed',
    ]);
  });

  it('acquire waits again if other calls used the freed capacity', async () => {
    const store = open() ?? memoryStore();
    const { clock, limiter, log, note } = setUp(store);
    const policies = { one: { limit: 1, window: 1000 } };
    const stranger = createLimiter({ policies, store, clock });
    await limiter.check('one', 'a');
    note('waiting', limiter.acquire('one', 'a', { maxWaitMs: 2500 }));
    await settle();
    // A check, which does not queue, uses the capacity in the millisecond in which it is freed.
    clock.set(START_MS + 1000);
    expect((await stranger.check('one', 'a')).allowed).toBe(true);
    clock.advance(0);
    await pass(clock, 1200);
    expect(log).toEqual([['waiting', 2000, true]]);
  });

  it('no waiter waits longer than maxWaitMs, regardless of other calls', async () => {
    const store = open() ?? memoryStore();
    const { clock, limiter, log, note } = setUp(store);
    const policies = { one: { limit: 1, window: 1000 } };
    const stranger = createLimiter({ policies, store, clock });
    await limiter.check('one', 'a');
    note('unbounded', limiter.acquire('one', 'a'));
    note('bounded', limiter.acquire('one', 'a', { maxWaitMs: 2500 }));
    await settle();
    for (let second = 1; second <= 3; second++) {
      clock.set(START_MS + 1000 * second);
      await stranger.check('one', 'a');
      clock.advance(0);
      await pass(clock, 600);
    }
    expect(log).toEqual([['bounded', 2500, false]]);
    await limiter.close();
  });

  it('settle and reset wake the first waiter', async () => {
    const { clock, limiter, log, note } = setUp(open());
    const first = await limiter.check('three', 'a', { cost: 3 });
    if (!first.allowed) throw new Error('expected to be admitted');
    note('after settling', limiter.acquire('three', 'a'));
    note('after the reset', limiter.acquire('three', 'a', { cost: 3 }));
    await pass(clock, 100);
    await limiter.settle(first.receipt, 2);
    await pass(clock, 100);
    await limiter.reset('three', 'a');
    await settle();
    expect(log).toEqual([
      ['after settling', 100, true],
      ['after the reset', 200, true],
    ]);
  });
});

describe('acquire', () => {
  it('an acquire that is aborted while the store decides is refunded', async () => {
    const store = promisesOnly();
    const { limiter } = setUp(store);
    const stop = new AbortController();
    const acquired = limiter.acquire('one', 'a', { signal: stop.signal });
    stop.abort(new Error('called off'));
    await expect(acquired).rejects.toThrow('called off');
    await settle();
    expect((await limiter.peek('one', 'a')).remaining).toBe(1);
  });

  it('after a refund during the decision of the store, a denied waiter checks again', async () => {
    const { limiter, log, note } = setUp(promisesOnly());
    const first = await limiter.check('one', 'a');
    if (!first.allowed) throw new Error('expected to be admitted');
    note('waiting', limiter.acquire('one', 'a'));
    await limiter.refund(first.receipt);
    await settle();
    expect(log).toEqual([['waiting', 0, true]]);
  });

  it('the refund of an aborted waiter admits the next waiter', async () => {
    const { limiter, log, note } = setUp(promisesOnly());
    const stop = new AbortController();
    note('called off', limiter.acquire('one', 'a', { signal: stop.signal }));
    note('next', limiter.acquire('one', 'a'));
    stop.abort(new Error('called off'));
    for (let time = 0; time < 5; time++) await settle();
    expect(log).toEqual([
      ['called off', 0, 'Error: called off'],
      ['next', 0, true],
    ]);
  });

  it('aborting the waiters behind the first one causes no store call', async () => {
    const store = memoryStore();
    const { limiter } = setUp(store);
    await limiter.check('one', 'a');
    const stop = new AbortController();
    const { signal } = stop;
    const waiting = Array.from({ length: 5 }, (_, place) =>
      limiter.acquire('one', 'a', place === 0 ? {} : { signal }).catch(() => {}),
    );
    const decide = vi.spyOn(store, 'decideSync');
    stop.abort();
    await Promise.all(waiting.slice(1));
    expect(decide).not.toHaveBeenCalled();
  });

  it('a store error rejects one waiter, and the next waiter proceeds', async () => {
    const store = promisesOnly();
    const decide = vi.spyOn(store, 'decide').mockRejectedValueOnce(new Error('store is down'));
    const { limiter } = setUp(store);
    const [first, second] = [limiter.acquire('one', 'a'), limiter.acquire('one', 'a')];
    await expect(first).rejects.toThrow('store is down');
    expect((await second).allowed).toBe(true);
    expect(decide).toHaveBeenCalledTimes(2);
  });

  it('a store error for an aborted waiter does not affect later waiters', async () => {
    const store = promisesOnly();
    let rejectCall: (error: Error) => void = () => {};
    const reply = new Promise<never>((_, reject) => {
      rejectCall = reject;
    });
    vi.spyOn(store, 'decide').mockReturnValueOnce(reply);
    const { clock, limiter, log, note } = setUp(store);
    const stop = new AbortController();
    note('aborted', limiter.acquire('three', 'a', { signal: stop.signal }));
    stop.abort(new Error('called off'));
    await limiter.check('three', 'a');
    await pass(clock, 500);
    await limiter.check('three', 'a', { cost: 2 });
    note('first', limiter.acquire('three', 'a', { cost: 3 }));
    rejectCall(new Error('store is down'));
    await settle();
    // Fits at 1000 ms, but is behind the first waiter.
    note('second', limiter.acquire('three', 'a'));
    note('closed', limiter.acquire('three', 'a', { cost: 3 }));
    await pass(clock, 2000);
    await limiter.close();
    await settle();
    expect(log).toEqual([
      ['aborted', 0, 'Error: called off'],
      ['first', 1500, true],
      ['second', 2500, true],
      ['closed', 2500, expect.stringContaining('closed')],
    ]);
  });

  it('acquire admits 10,000 waiters without growing the stack', async () => {
    const { clock, limiter } = setUp();
    await limiter.check('three', 'a', { cost: 3 });
    const waiting = Array.from({ length: 10_000 }, () => limiter.acquire('three', 'a'));
    clock.advance(1000 * Math.ceil(10_000 / 3));
    const served = await Promise.all(waiting);
    expect(served.every((decision) => decision.allowed)).toBe(true);
    expect(served.at(-1)?.atMs).toBe(START_MS + 1000 * Math.ceil(10_000 / 3));
  });

  it.each(ALGORITHMS)(
    'acquire of a %s limit denies no waiter that would be admitted in time',
    async (algorithm) => {
      // Runs the same queue twice: waiters denied by the bound are too late without it as well.
      const run = async (costs: readonly number[], used: number, maxWaitMs: number) => {
        const clock = new ManualClock(START_MS);
        const policies = { p: { limit: 10, window: 100, algorithm }, q: '1/40ms' } as const;
        const limiter = createLimiter({ policies, clock });
        limiter.checkSync('p', 'a', { cost: used });
        limiter.checkSync('q', 'a');
        clock.advance(37);
        const times: number[] = [];
        const all = costs.map((cost, place) => {
          // Every third waiter needs a second limit.
          const also = place % 3 === 2 ? ([{ policy: 'q', key: 'a' }] as const) : [];
          const limits = [{ policy: 'p', key: 'a', cost } as const, ...also];
          return limiter.acquire(limits, { maxWaitMs }).then(({ allowed }) => {
            times[place] = allowed ? clock.now() - START_MS - 37 : Number.POSITIVE_INFINITY;
          });
        });
        // Eight waiters with the full limit each take at most sixteen windows.
        await pass(clock, 1700);
        await Promise.all(all);
        return times;
      };
      const queues = fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 2, maxLength: 8 });
      await fc.assert(
        fc.asyncProperty(queues, fc.integer({ min: 1, max: 10 }), async (costs, used) => {
          const unbounded = await run(costs, used, 10_000);
          const bounded = await run(costs, used, 150);
          const firstTooLate = unbounded.findIndex((time) => time > 150);
          const inTime = firstTooLate < 0 ? unbounded.length : firstTooLate;
          expect(bounded.slice(0, inTime)).toEqual(unbounded.slice(0, inTime));
        }),
        { numRuns: Number(process.env.PROPERTY_RUNS ?? 12) },
      );
    },
  );

  it('a waiter that was denied does not delay later waiters', async () => {
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({ policies: { p: '1/1s' }, clock });
    await limiter.acquire('p', 'a');
    const denied = limiter.acquire('p', 'a', { maxWaitMs: 10 });
    expect((await denied).retryAfterMs).toBe(1000);
    const waiting = limiter.acquire('p', 'a');
    clock.advance(1000);
    await waiting;
    // A waiter that remained in the queue would delay this one.
    clock.advance(1000);
    expect((await limiter.acquire('p', 'a', { maxWaitMs: 0 })).allowed).toBe(true);
  });
});
