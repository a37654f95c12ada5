/** Waiters that are rejected: by an abort signal, which many may share, or by `close`. */
import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import {
  createLimiter,
  ManualClock,
  memoryStore,
  type Store,
  type SyncStore,
} from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';
import { turn } from './rejections.ts';

const START_MS = 1_745_000_100_000;

function recordSync(store: SyncStore, decisions: boolean[]): void {
  const decide = store.decideSync.bind(store);
  store.decideSync = (check, nowMs) => {
    const result = decide(check, nowMs);
    if (!check.peek) decisions.push(result.allowed);
    return result;
  };
}

function setUp(store: Store = memoryStore()) {
  const clock = new ManualClock(START_MS);
  const policies = { one: '1/1s', many: '8000/1s' } as const;
  const limiter = createLimiter({ policies, clock, store });
  /** The decisions of the store, including those after which a waiter still waits. */
  const decisions: boolean[] = [];
  const decide = store.decide.bind(store);
  store.decide = async (checks, nowMs) => {
    const results = await decide(checks, nowMs);
    if (!checks[0].peek) decisions.push(results[0].allowed);
    return results;
  };
  if ('decideSync' in store) recordSync(store as SyncStore, decisions);
  const stop = new AbortController();
  return { clock, limiter, decisions, stop, signal: stop.signal };
}

/** Returns whether each was admitted, or its error. */
const outcomes = async (waiting: readonly Promise<{ allowed: boolean }>[]) =>
  (await Promise.allSettled(waiting)).map((each) =>
    each.status === 'fulfilled' ? each.value.allowed : String(each.reason),
  );

describe('a signal that many waiters share', () => {
  it('a signal that many waiters share has one listener, and none without waiters', async () => {
    const { clock, limiter, signal } = setUp();
    const warned = vi.fn();
    process.on('warning', warned);
    await limiter.check('one', 'a');
    const waiting = Array.from({ length: 20 }, (_, place) =>
      limiter.acquire('one', place % 2 === 0 ? 'a' : 'b', { signal }),
    );
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    clock.advance(9_500);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    clock.advance(500);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(await outcomes(waiting)).toEqual(Array(20).fill(true));
    await turn();
    process.off('warning', warned);
    expect(warned).not.toHaveBeenCalled();
  });

  it('a shared signal works for new waiters after all others have left', async () => {
    const { limiter, stop, signal } = setUp();
    await limiter.acquire('one', 'a', { signal });
    const later = limiter.acquire('one', 'a', { signal });
    stop.abort('over');
    expect(await outcomes([later])).toEqual(['over']);
  });

  it.each([
    ['a synchronous store', memoryStore],
    ['an asynchronous store', promisesOnly],
  ])(
    'an abort removes all waiters with the signal before the next check, on %s',
    async (_, open) => {
      const store = open();
      const { limiter, decisions, stop, signal } = setUp(store);
      await limiter.acquire('one', 'a');
      const waiting = Array.from({ length: 5 }, () => limiter.acquire('one', 'a', { signal }));
      const other = limiter.acquire('one', 'a');
      await turn();
      expect(decisions).toEqual([true, false]);
      stop.abort('over');
      expect(await outcomes(waiting)).toEqual(Array(5).fill('over'));
      await turn();
      // One check, for the waiter without the signal.
      expect(decisions).toEqual([true, false, false]);
      await limiter.reset('one', 'a');
      expect(await outcomes([other])).toEqual([true]);
    },
  );
});

describe('a signal that is not an AbortSignal', () => {
  it('an object that is not an AbortSignal is rejected and adds no waiter', async () => {
    const { limiter } = setUp();
    const signal = { throwIfAborted() {} } as AbortSignal;
    await expect(limiter.acquire('one', 'a', { signal })).rejects.toThrow(TypeError);
    expect((await limiter.acquire('one', 'a', { maxWaitMs: 0 })).allowed).toBe(true);
  });
});

describe('close', () => {
  it('close refunds a call that the store is deciding', async () => {
    const store = promisesOnly();
    const { limiter } = setUp(store);
    const waiting = [
      limiter.acquire('many', 'a', { cost: 5 }),
      limiter.acquire(['b', 'c'].map((key) => ({ policy: 'many', key, cost: 3 }) as const)),
    ];
    await limiter.close();
    expect(await outcomes(waiting)).toEqual(Array(2).fill('SluiceError: The limiter was closed'));
    await turn();
    const other = setUp(store).limiter;
    for (const key of ['a', 'b', 'c']) {
      expect((await other.peek('many', key)).remaining).toBe(8000);
    }
  });

  it('close sends no check for a waiter in two queues', async () => {
    const { limiter, decisions, stop, signal } = setUp();
    for (const key of ['a', 'b']) await limiter.check('one', key);
    const first = limiter.acquire('one', 'a', { signal });
    const waiting = [
      limiter.acquire('one', 'b'),
      limiter.acquire(['a', 'b'].map((key) => ({ policy: 'one', key }) as const)),
    ];
    stop.abort('over');
    expect(await outcomes([first])).toEqual(['over']);
    const before = decisions.length;
    await limiter.close();
    expect(await outcomes(waiting)).toEqual(Array(2).fill('SluiceError: The limiter was closed'));
    expect(decisions).toHaveLength(before);
  });
});

describe('queues', () => {
  it('a waiter that becomes first in two queues at once sends one check', async () => {
    const { limiter, decisions, stop, signal } = setUp();
    const both = ['a', 'b'].map((key) => ({ policy: 'one', key }) as const);
    await limiter.check(both);
    const first = limiter.acquire(both, { signal });
    const second = limiter.acquire(both);
    const before = decisions.length;
    stop.abort('over');
    expect(await outcomes([first])).toEqual(['over']);
    expect(decisions.slice(before)).toEqual([false]);
    await limiter.close();
    expect(await outcomes([second])).toHaveLength(1);
  });

  it('a waiter that arrives during a decision is denied after the reply', async () => {
    const { limiter } = setUp(promisesOnly());
    await limiter.check('one', 'a');
    await limiter.check('one', 'b');
    // Both arrive while the store decides for the first waiters, and are estimated afterwards.
    const unbounded = ['a', 'b'].map((key) => limiter.acquire('one', key));
    const both = ['a', 'b'].map((key) => ({ policy: 'one', key }) as const);
    const bounded = [
      limiter.acquire(both, { maxWaitMs: 1500 }),
      limiter.acquire('one', 'a', { maxWaitMs: 1500 }),
    ];
    expect(await outcomes(bounded)).toEqual([false, false]);
    await limiter.close();
    expect(await outcomes(unbounded)).toHaveLength(2);
  });
});
