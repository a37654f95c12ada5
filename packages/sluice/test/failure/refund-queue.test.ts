/** The refund queue: retries refunds until they succeed or the charge has expired. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { monotonicClock } from '../../src/clock.ts';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { RefundBudget, RefundQueue } from '../../src/failure/refund-queue.ts';
import {
  createLimiter,
  definePolicy,
  type Store,
  type WindowAlgorithmName,
} from '../../src/index.ts';
import type { Adjustment } from '../../src/store.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { fakeStore, OUTAGE, pass, type StoreMode, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

const FAILING: readonly StoreMode[] = ['reject', 'throw'];

function setUp(onFailure: 'deny' | 'local' | 'allow' | 'throw' = 'deny') {
  const inner = fakeStore('hold');
  const store = withFailurePolicy(inner, { deadlineMs: 20, onFailure });
  const limiter = createLimiter({ policies: { p: '10/1m', q: '10/1m' }, store });
  return { inner, store, limiter };
}

describe('the refund of a denied caller', () => {
  const deniedLate = async (mode: StoreMode) => {
    const world = setUp();
    const pending = world.limiter.check('p', 'a', { cost: 3 });
    await pass(20);
    expect((await pending).allowed).toBe(false);
    expect(world.inner.used('a')).toBe(3);
    // The reply arrives, and the refund fails.
    world.inner.mode = mode;
    world.inner.release();
    await turn();
    await turn();
    expect(world.inner.used('a')).toBe(3);
    return world;
  };

  it.each(FAILING)('a timer retries the failed refund of a denied call (%s)', async (mode) => {
    const { inner } = await deniedLate(mode);
    await pass(5000);
    expect(inner.used('a')).toBe(3);
    inner.mode = 'reply';
    await pass(1000);
    expect(inner.used('a')).toBe(0);
    inner.calls.length = 0;
    await pass(60_000);
    expect(inner.calls).toEqual([]);
  });

  it.each(FAILING)(
    'a successful call triggers the failed refund of a denied call (%s)',
    async (mode) => {
      const { inner, limiter } = await deniedLate(mode);
      await pass(999);
      inner.mode = 'reply';
      await pass(0);
      await limiter.check('p', 'b');
      await pass(1);
      expect(inner.used('a')).toBe(0);
    },
  );

  it('a refund is dropped when the charge has expired', async () => {
    const { inner } = await deniedLate('reject');
    await pass(120_000);
    inner.calls.length = 0;
    inner.mode = 'reply';
    await pass(600_000);
    expect([inner.calls, vi.getTimerCount()]).toEqual([[], 0]);
  });

  it('a refund is attempted at most once per second while the store fails', async () => {
    const { inner, limiter } = await deniedLate('reject');
    // All calls except refunds succeed. Each success could trigger a retry.
    const adjust = inner.adjust;
    inner.adjust = (...args) => {
      inner.mode = 'reject';
      return adjust(...args);
    };
    inner.calls.length = 0;
    for (let time = 0; time < 1000; time++) {
      inner.mode = 'reply';
      await limiter.check('p', `${time}`);
      await vi.advanceTimersByTimeAsync(10);
    }
    const attempts = inner.calls.filter((what) => what === 'adjust').length;
    expect(attempts).toBeGreaterThan(5);
    expect(attempts).toBeLessThanOrEqual(11);
  });

  it('close of the store sends waiting refunds', async () => {
    const { inner, store } = await deniedLate('reject');
    inner.mode = 'reply';
    await store.close();
    await turn();
    expect([inner.used('a'), vi.getTimerCount()]).toEqual([0, 0]);
  });
});

describe('an aborted acquire', () => {
  const ways = ['abort', 'close'] as const;
  const actions = ['deny', 'local', 'allow', 'throw'] as const;

  /** Aborts an acquire, or closes its limiter, while the store decides. */
  const abortAcquire = async (how: (typeof ways)[number], onFailure: (typeof actions)[number]) => {
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
      it(`${how} of acquire refunds a charge reported in time (${onFailure})`, async () => {
        const { inner } = await abortAcquire(how, onFailure);
        inner.mode = 'reply';
        inner.release();
        await turn();
        await turn();
        expect(inner.used('a')).toBe(0);
      });

      it(`${how} of acquire refunds a charge reported late (${onFailure})`, async () => {
        const { inner } = await abortAcquire(how, onFailure);
        await pass(20);
        expect(inner.used('a')).toBe(4);
        inner.mode = 'reply';
        inner.release();
        await turn();
        await turn();
        expect(inner.used('a')).toBe(0);
      });

      it(`${how} of acquire refunds a charge if the breaker opens (${onFailure})`, async () => {
        const { inner, store } = await abortAcquire(how, onFailure);
        const policy = definePolicy('q', '10/1m');
        const limit = { policy, params: policy.params!, key: 'trip', cost: 1 };
        inner.mode = 'reject';
        for (let time = 0; time < 5; time++) {
          await store.decide([{ limits: [limit], peek: false, onFailure: 'deny' }]);
        }
        expect(store.breaker).toBe('open');
        // The reply is in time, and the refund fails.
        inner.release();
        await turn();
        await turn();
        expect(inner.used('a')).toBe(4);
        inner.mode = 'reply';
        await pass(1000);
        expect(inner.used('a')).toBe(0);
      });
    }
  }

  it('the refund of an aborted acquire admits the next waiter', async () => {
    const { inner, limiter } = setUp();
    const controller = new AbortController();
    const { signal } = controller;
    const first = limiter.acquire('p', 'a', { cost: 10, signal }).catch((error) => error);
    await turn();
    controller.abort();
    await first;
    inner.mode = 'reply';
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
  const adjustmentOf = (algorithm: WindowAlgorithmName = 'sliding-log', key = 'a'): Adjustment => {
    const policy = definePolicy('p', { limit: 10, window: '1h', algorithm });
    const charge = { policy: 'p', key, cost: 1, atMs: Date.now() };
    return { policy, params: policy.params!, charge, delta: -1 };
  };

  function queueOn(store: Partial<Store>) {
    const budget = new RefundBudget(store as Store, monotonicClock);
    return { budget, queue: new RefundQueue(budget), other: new RefundQueue(budget) };
  }

  it('all attempts of a refund have one id if the store has adjustOnce', async () => {
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

  it('a refund without a reply is sent again only if the store has adjustOnce', async () => {
    const silent = (): Promise<never> => new Promise(() => {});
    const adjustOnce = vi.fn(silent);
    const adjust = vi.fn(silent);
    queueOn({ adjustOnce }).queue.add([adjustmentOf()], undefined);
    queueOn({ adjust }).queue.add([adjustmentOf()], undefined);
    await pass(10_500);
    expect(adjustOnce).toHaveBeenCalledTimes(11);
    expect(adjust).toHaveBeenCalledTimes(1);
  });

  it('the refund queue keeps at most 10,000 adjustments and drops the oldest', async () => {
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

  it('the refund of a key with an unreadable value is dropped', async () => {
    const adjust = vi.fn(async () => Promise.reject(Object.assign(OUTAGE, { isOfKey: true })));
    const { queue, budget } = queueOn({ adjust });
    await queue.add([adjustmentOf()], undefined);
    await pass(5000);
    expect([adjust.mock.calls.length, budget.waiting]).toEqual([1, 0]);
    Reflect.deleteProperty(OUTAGE, 'isOfKey');
  });

  it('all waiting refunds are sent when the client has connected', async () => {
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
