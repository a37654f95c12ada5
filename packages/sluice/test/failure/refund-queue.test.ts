/** Refunds that no caller waits for are sent until they are done or no longer matter. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { monotonicClock } from '../../src/clock.ts';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { RefundBudget, RefundQueue } from '../../src/failure/refund-queue.ts';
import { type AlgorithmName, createLimiter, definePolicy, type Store } from '../../src/index.ts';
import type { Adjustment } from '../../src/store.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { fakeStore, type Mood, OUTAGE, pass, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

const FAILING: readonly Mood[] = ['reject', 'throw'];

function setUp(onFailure: 'deny' | 'local' | 'allow' | 'throw' = 'deny') {
  const inner = fakeStore('hold');
  const store = withFailurePolicy(inner, { deadlineMs: 20, onFailure });
  const limiter = createLimiter({ policies: { p: '10/1m', q: '10/1m' }, store });
  return { inner, store, limiter };
}

describe('a caller that was denied', () => {
  const deniedLate = async (mood: Mood) => {
    const world = setUp();
    const asking = world.limiter.check('p', 'a', { cost: 3 });
    await pass(20);
    expect((await asking).allowed).toBe(false);
    expect(world.inner.used('a')).toBe(3);
    // The reply comes, and the refund fails.
    world.inner.mood = mood;
    world.inner.release();
    await turn();
    await turn();
    expect(world.inner.used('a')).toBe(3);
    return world;
  };

  it.each(FAILING)('a timer retries the refund of a denied caller (%s)', async (mood) => {
    const { inner } = await deniedLate(mood);
    await pass(5000);
    expect(inner.used('a')).toBe(3);
    inner.mood = 'answer';
    await pass(1000);
    expect(inner.used('a')).toBe(0);
    inner.asked.length = 0;
    await pass(60_000);
    expect(inner.asked).toEqual([]);
  });

  it.each(FAILING)(
    'a successful call triggers the refund of a denied caller (%s)',
    async (mood) => {
      const { inner, limiter } = await deniedLate(mood);
      await pass(999);
      inner.mood = 'answer';
      await pass(0);
      await limiter.check('p', 'b');
      await pass(1);
      expect(inner.used('a')).toBe(0);
    },
  );

  it('drops a refund when its charge no longer counts', async () => {
    const { inner } = await deniedLate('reject');
    await pass(120_000);
    inner.asked.length = 0;
    inner.mood = 'answer';
    await pass(600_000);
    expect([inner.asked, vi.getTimerCount()]).toEqual([[], 0]);
  });

  it('attempts at most one refund per second while the store fails', async () => {
    const { inner, limiter } = await deniedLate('reject');
    // Everything but refunds works: each success could be taken for a sign to try again.
    const adjust = inner.adjust;
    inner.adjust = (...args) => {
      inner.mood = 'reject';
      return adjust(...args);
    };
    inner.asked.length = 0;
    for (let time = 0; time < 1000; time++) {
      inner.mood = 'answer';
      await limiter.check('p', `${time}`);
      await vi.advanceTimersByTimeAsync(10);
    }
    const attempts = inner.asked.filter((what) => what === 'adjust').length;
    expect(attempts).toBeGreaterThan(5);
    expect(attempts).toBeLessThanOrEqual(11);
  });

  it('closing the store sends waiting refunds', async () => {
    const { inner, store } = await deniedLate('reject');
    inner.mood = 'answer';
    await store.close();
    await turn();
    expect([inner.used('a'), vi.getTimerCount()]).toEqual([0, 0]);
  });
});

describe('an acquire that is called off', () => {
  const ways = ['abort', 'close'] as const;
  const actions = ['deny', 'local', 'allow', 'throw'] as const;

  /** Called off while the store is being asked. */
  const callOff = async (how: (typeof ways)[number], onFailure: (typeof actions)[number]) => {
    const world = setUp(onFailure);
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = world.limiter.acquire('p', 'a', { cost: 4, signal }).catch((error) => error);
    await turn();
    if (how === 'abort') controller.abort();
    else await world.limiter.close();
    expect(await waiting).toBeInstanceOf(Error);
    return world;
  };

  for (const how of ways) {
    for (const onFailure of actions) {
      it(`${how} of acquire leaves no charge, reply in time (${onFailure})`, async () => {
        const { inner } = await callOff(how, onFailure);
        inner.mood = 'answer';
        inner.release();
        await turn();
        await turn();
        expect(inner.used('a')).toBe(0);
      });

      it(`${how} of acquire leaves no charge, reply late (${onFailure})`, async () => {
        const { inner } = await callOff(how, onFailure);
        await pass(20);
        expect(inner.used('a')).toBe(4);
        inner.mood = 'answer';
        inner.release();
        await turn();
        await turn();
        expect(inner.used('a')).toBe(0);
      });

      it(`${how} of acquire leaves no charge, breaker opens (${onFailure})`, async () => {
        const { inner, store } = await callOff(how, onFailure);
        const policy = definePolicy('q', '10/1m');
        const limit = { policy, params: policy.params!, key: 'trip', cost: 1 };
        inner.mood = 'reject';
        for (let time = 0; time < 5; time++) {
          await store.decide([{ limits: [limit], peek: false, onFailure: 'deny' }]);
        }
        expect(store.breaker).toBe('open');
        // The reply is in time, and the refund fails.
        inner.release();
        await turn();
        await turn();
        expect(inner.used('a')).toBe(4);
        inner.mood = 'answer';
        await pass(1000);
        expect(inner.used('a')).toBe(0);
      });
    }
  }

  it('a refund from the queue wakes waiters', async () => {
    const { inner, limiter } = setUp();
    const controller = new AbortController();
    const { signal } = controller;
    const first = limiter.acquire('p', 'a', { cost: 10, signal }).catch((error) => error);
    await turn();
    controller.abort();
    await first;
    inner.mood = 'answer';
    const second = limiter.acquire('p', 'a', { cost: 10 });
    inner.release();
    await turn();
    await turn();
    await turn();
    expect((await second).allowed).toBe(true);
    expect(inner.used('a')).toBe(10);
  });
});

describe('a refund queue', () => {
  const adjustmentOf = (algorithm: AlgorithmName = 'sliding-log', key = 'a'): Adjustment => {
    const policy = definePolicy('p', { limit: 10, window: '1h', algorithm });
    const charge = { policy: 'p', key, cost: 1, atMs: Date.now() };
    return { policy, params: policy.params!, charge, delta: -1 };
  };

  function queueOn(store: Partial<Store>) {
    const budget = new RefundBudget(store as Store, monotonicClock);
    return { budget, queue: new RefundQueue(budget), other: new RefundQueue(budget) };
  }

  it('uses one id for all attempts where the store applies an adjustment once', async () => {
    const ids: string[] = [];
    const adjustOnce = vi.fn(async (id: string) => {
      ids.push(id);
      if (ids.length % 3 !== 0) throw OUTAGE;
      return [-1];
    });
    const { queue } = queueOn({ adjustOnce });
    const [first, second] = [queue.add([adjustmentOf()], 1), queue.add([adjustmentOf()], 2)];
    await pass(5000);
    await Promise.all([first, second]);
    expect(new Set(ids).size).toBe(2);
    expect(adjustOnce.mock.calls.length).toBeGreaterThan(3);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('resends a refund without a reply only if the store has adjustOnce', async () => {
    const silent = (): Promise<never> => new Promise(() => {});
    const adjustOnce = vi.fn(silent);
    const adjust = vi.fn(silent);
    queueOn({ adjustOnce }).queue.add([adjustmentOf()], undefined);
    queueOn({ adjust }).queue.add([adjustmentOf()], undefined);
    await pass(10_500);
    expect(adjustOnce).toHaveBeenCalledTimes(11);
    expect(adjust).toHaveBeenCalledTimes(1);
  });

  it('keeps at most 10,000 adjustments over all domains, and drops the oldest', async () => {
    const { queue, other, budget } = queueOn({ adjust: async () => Promise.reject(OUTAGE) });
    const dropped: number[] = [];
    for (let each = 0; each < 12_000; each++) {
      const target = each % 2 === 0 ? queue : other;
      void target.add([adjustmentOf()], undefined).then(() => dropped.push(each));
    }
    await pass(0);
    expect(budget.waiting).toBe(10_000);
    expect(dropped).toHaveLength(2000);
    expect(Math.max(...dropped)).toBeLessThan(12_000);
  });

  it('the bound of the refund queue counts adjustments, not calls', async () => {
    const { queue, budget } = queueOn({ adjust: async () => Promise.reject(OUTAGE) });
    const many = Array.from({ length: 64 }, () => adjustmentOf());
    for (let each = 0; each < 200; each++) void queue.add(many, undefined);
    await pass(0);
    expect(budget.waiting).toBeLessThanOrEqual(10_000);
    expect(budget.waiting).toBeGreaterThan(10_000 - 64);
  });

  it('drops the refund of a key with an unreadable value', async () => {
    const adjust = vi.fn(async () => Promise.reject(Object.assign(OUTAGE, { isOfKey: true })));
    const { queue, budget } = queueOn({ adjust });
    await queue.add([adjustmentOf()], undefined);
    await pass(5000);
    expect([adjust.mock.calls.length, budget.waiting]).toEqual([1, 0]);
    Reflect.deleteProperty(OUTAGE, 'isOfKey');
  });

  it('sends all waiting refunds when the client has connected', async () => {
    let isUp = false;
    const adjust = vi.fn(async () => (isUp ? [-1] : Promise.reject(OUTAGE)));
    const { queue, budget } = queueOn({ adjust });
    const done = Promise.all(
      Array.from({ length: 200 }, () => queue.add([adjustmentOf()], undefined)),
    );
    await pass(0);
    expect(budget.waiting).toBe(200);
    isUp = true;
    queue.ready();
    await done;
    expect(budget.waiting).toBe(0);
  });
});
