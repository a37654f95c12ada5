import { describe, expect, it, vi } from 'vitest';
import { createLimiter, type Decision, ManualClock, type Store } from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

const START_MS = 1_745_000_100_000;

function setUp(store?: Store) {
  const clock = new ManualClock(START_MS);
  const policies = {
    jobs: { concurrency: 1, lease: 60_000 },
    rate: { limit: 1, window: 1000 },
  } as const;
  const limiter = createLimiter({ policies, clock, ...(store && { store }) });
  const log: [name: string, afterMs: number, allowed: boolean][] = [];
  const note = (name: string, promise: Promise<Decision>): Promise<Decision> =>
    promise.then((decision) => {
      log.push([name, clock.now() - START_MS, decision.allowed]);
      return decision;
    });
  return { clock, limiter, log, note };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

async function pass(clock: ManualClock, ms: number): Promise<void> {
  await settle();
  clock.advance(ms);
  await settle();
}

describe.each([
  ['a store in memory', () => undefined],
  ['an asynchronous store', promisesOnly],
])('acquire of a concurrency limit on %s', (_, open) => {
  it('a waiter is admitted when the hold is released, although its lease ends later', async () => {
    const { clock, limiter, log, note } = setUp(open());
    const { receipt } = await limiter.check('jobs', 'a');
    const waiting = note('waiter', limiter.acquire('jobs', 'a', { maxWaitMs: 5000 }));
    await pass(clock, 3000);
    expect(log).toEqual([]);
    expect(await limiter.release(receipt!)).toBe(true);
    expect((await waiting).fence).toBeGreaterThan(receipt!.charges[0].fence!);
    expect(log).toEqual([['waiter', 3000, true]]);
  });

  it('a waiter is denied at its deadline with the time until the lease ends', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('jobs', 'a');
    const waiting = note('waiter', limiter.acquire('jobs', 'a', { maxWaitMs: 5000 }));
    await pass(clock, 4999);
    expect(log).toEqual([]);
    await pass(clock, 1);
    expect(await waiting).toMatchObject({ allowed: false, retryAfterMs: 55_000 });
    expect(log).toEqual([['waiter', 5000, false]]);
  });

  it('a waiter with maxWaitMs: 0 is denied at once', async () => {
    const { limiter } = setUp(open());
    await limiter.check('jobs', 'a');
    const { allowed, retryAfterMs } = await limiter.acquire('jobs', 'a', { maxWaitMs: 0 });
    expect([allowed, retryAfterMs]).toEqual([false, 60_000]);
  });

  it('a waiter is admitted when the lease of a crashed holder ends', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('jobs', 'a');
    void note('waiter', limiter.acquire('jobs', 'a'));
    await pass(clock, 59_999);
    expect(log).toEqual([]);
    await pass(clock, 1);
    expect(log).toEqual([['waiter', 60_000, true]]);
  });

  it('a waiter waits longer if the hold is renewed', async () => {
    const { clock, limiter, log, note } = setUp(open());
    const { receipt } = await limiter.check('jobs', 'a');
    void note('waiter', limiter.acquire('jobs', 'a'));
    await pass(clock, 50_000);
    expect(await limiter.renew(receipt!)).toBe(true);
    await pass(clock, 59_999);
    expect(log).toEqual([]);
    await pass(clock, 1);
    expect(log).toEqual([['waiter', 110_000, true]]);
  });

  it('waiters are admitted in order of arrival, one for each release', async () => {
    const { clock, limiter, log, note } = setUp(open());
    let { receipt } = await limiter.check('jobs', 'a');
    const waiters = ['first', 'second', 'third'].map((name) =>
      note(name, limiter.acquire('jobs', 'a', { maxWaitMs: 10_000 })),
    );
    for (const waiting of waiters) {
      await pass(clock, 100);
      await limiter.release(receipt!);
      ({ receipt } = await waiting);
    }
    expect(log).toEqual([
      ['first', 100, true],
      ['second', 200, true],
      ['third', 300, true],
    ]);
  });

  it('a waiter behind others is denied at its deadline and not before', async () => {
    const { clock, limiter, log, note } = setUp(open());
    await limiter.check('jobs', 'a');
    void note('first', limiter.acquire('jobs', 'a'));
    const second = note('second', limiter.acquire('jobs', 'a', { maxWaitMs: 2000 }));
    await pass(clock, 1999);
    expect(log).toEqual([]);
    await pass(clock, 1);
    expect(await second).toMatchObject({ allowed: false, retryAfterMs: 58_000 });
  });

  it('a refund and a reset of a hold admit the next waiter', async () => {
    const { limiter, clock, log, note } = setUp(open());
    const { receipt } = await limiter.check('jobs', 'a');
    const first = note('first', limiter.acquire('jobs', 'a'));
    await settle();
    await limiter.refund(receipt!);
    await first;
    const second = note('second', limiter.acquire('jobs', 'a'));
    await pass(clock, 10);
    await limiter.reset('jobs', 'a');
    await second;
    expect(log).toEqual([
      ['first', 0, true],
      ['second', 10, true],
    ]);
  });

  it('acquire denies at once if a window limit of the check exceeds maxWaitMs', async () => {
    const { limiter } = setUp(open());
    await limiter.check('jobs', 'a');
    await limiter.check('rate', 'a');
    const both = [
      { policy: 'jobs', key: 'a' },
      { policy: 'rate', key: 'a' },
    ] as const;
    const denied = await limiter.acquire(both, { maxWaitMs: 999 });
    expect(denied).toMatchObject({ allowed: false, retryAfterMs: 60_000 });
  });

  it('a waiter for a window and a concurrency limit is admitted when both have room', async () => {
    const { clock, limiter, log, note } = setUp(open());
    const { receipt } = await limiter.check('jobs', 'a');
    await limiter.check('rate', 'a');
    const both = [
      { policy: 'jobs', key: 'a' },
      { policy: 'rate', key: 'a' },
    ] as const;
    void note('waiter', limiter.acquire(both, { maxWaitMs: 2000, label: 'job 1' }));
    await pass(clock, 400);
    await limiter.release(receipt!);
    await pass(clock, 599);
    expect(log).toEqual([]);
    await pass(clock, 1);
    expect(log).toEqual([['waiter', 1000, true]]);
    expect((await limiter.inspect('jobs', 'a'))?.holds).toMatchObject([{ label: 'job 1' }]);
  });

  it('an aborted waiter takes no hold', async () => {
    const { limiter, clock } = setUp(open());
    const { receipt } = await limiter.check('jobs', 'a');
    const abort = new AbortController();
    const waiting = limiter.acquire('jobs', 'a', { signal: abort.signal });
    const rejected = expect(waiting).rejects.toThrow('aborted');
    await pass(clock, 10);
    abort.abort();
    await rejected;
    await limiter.release(receipt!);
    await settle();
    expect((await limiter.peek('jobs', 'a')).remaining).toBe(1);
  });

  it('a waiter is admitted when a lease ends, after others were admitted', async () => {
    const { limiter, clock, log, note } = setUp(open());
    const first = await limiter.check('jobs', 'a');
    const names = ['second', 'third', 'fourth'];
    for (const name of names) void note(name, limiter.acquire('jobs', 'a'));
    await pass(clock, 10_000);
    await limiter.release(first.receipt!);
    await pass(clock, 59_999);
    expect(log).toEqual([['second', 10_000, true]]);
    await pass(clock, 1);
    await pass(clock, 60_000);
    expect(log.slice(1)).toEqual([
      ['third', 70_000, true],
      ['fourth', 130_000, true],
    ]);
  });
});

describe('waiters behind held slots', () => {
  it('waiters behind held slots cause one decision for each admission', async () => {
    const store = promisesOnly();
    const counting = { ...store, decide: vi.fn(store.decide) };
    const { limiter, clock } = setUp(counting);
    const jobs = Array.from({ length: 100 }, () => limiter.run('jobs', 'a', () => 'done'));
    for (let left = 100; left > 0; left--) await settle();
    expect(await Promise.all(jobs)).toHaveLength(100);
    expect(counting.decide.mock.calls.length).toBeLessThanOrEqual(102);
    expect(clock.now()).toBe(START_MS);
  });

  it('a waiter with a larger limit is admitted after one that took the last slot', async () => {
    let slots = 1;
    const policies = { jobs: { concurrency: () => slots, lease: '1m' } } as const;
    const limiter = createLimiter({ policies, clock: new ManualClock(START_MS) });
    const { receipt } = await limiter.check('jobs', 'a');
    const first = limiter.acquire('jobs', 'a');
    slots = 2;
    const second = limiter.acquire('jobs', 'a');
    await limiter.release(receipt!);
    expect([(await first).remaining, (await second).remaining]).toEqual([0, 0]);
  });
});
