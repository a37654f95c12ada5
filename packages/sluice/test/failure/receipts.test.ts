/** Charges of calls that the store did not decide, or decided too late. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FailureOptions, withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter, type FailureAction, type WindowAlgorithmName } from '../../src/index.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { fakeStore, OUTAGE, pass, type StoreMode, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

function setUp(
  options: FailureOptions,
  mode: StoreMode,
  algorithm: WindowAlgorithmName = 'sliding-log',
) {
  const inner = fakeStore(mode);
  const store = withFailurePolicy(inner, { deadlineMs: 20, ...options });
  const policies = {
    p: { limit: 10, window: '1m', algorithm },
    q: { limit: 10, window: '1m', algorithm },
  } as const;
  return { inner, store, limiter: createLimiter({ policies, store }) };
}

const copyOf = <T>(value: T): T => JSON.parse(JSON.stringify(value));
const unavailable = { code: 'ERR_STORE_UNAVAILABLE' };
const algorithms: WindowAlgorithmName[] = ['fixed-window', 'sliding-log', 'token-bucket'];

describe('a receipt of a degraded decision', () => {
  it.each(algorithms)(
    'a charge of the local fallback is refunded in the fallback (%s)',
    async (algorithm) => {
      const { inner, limiter } = setUp({ onFailure: 'local' }, 'reject', algorithm);
      const { receipt } = await limiter.check('p', 'a', { cost: 7 });
      expect((await limiter.check('p', 'a', { cost: 7 })).allowed).toBe(false);
      inner.mode = 'reply';
      inner.calls.length = 0;
      expect(await limiter.refund(receipt!)).toBe(7);
      expect(await limiter.refund(receipt!)).toBe(0);
      expect(inner.calls).toEqual([]);
      inner.mode = 'reject';
      expect((await limiter.check('p', 'a', { cost: 10 })).allowed).toBe(true);
    },
  );

  it('a charge of the local fallback is settled in the fallback for each limit', async () => {
    const { inner, limiter } = setUp({ onFailure: 'local' }, 'reject');
    const { receipt } = await limiter.check([
      { policy: 'p', key: 'a', cost: 4 },
      { policy: 'q', key: 'b', cost: 6 },
    ]);
    inner.mode = 'reply';
    inner.calls.length = 0;
    expect(await limiter.settle(receipt!, [1, 8])).toBe(-1);
    expect(inner.calls).toEqual([]);
    inner.mode = 'reject';
    expect((await limiter.peek('p', 'a')).remaining).toBe(9);
    expect((await limiter.peek('q', 'b')).remaining).toBe(2);
  });

  it.each(algorithms)('a refund of an `allow` decision returns 0 (%s)', async (algorithm) => {
    const { inner, limiter } = setUp({ onFailure: 'local' }, 'reject', algorithm);
    const alone = await limiter.check('p', 'b', { onFailure: 'allow' });
    expect(await limiter.refund(alone.receipt!)).toBe(0);
    // The local fallback has a charge of the same key and time, which must not change.
    await limiter.check('p', 'a', { cost: 10 });
    const allowed = await limiter.check('p', 'a', { cost: 5, onFailure: 'allow' });
    inner.calls.length = 0;
    expect(await limiter.refund(copyOf(allowed.receipt!))).toBe(0);
    expect(await limiter.refund(allowed.receipt!)).toBe(0);
    expect(inner.calls).toEqual([]);
    expect((await limiter.check('p', 'a')).allowed).toBe(false);
  });

  it('a receipt is still marked as degraded after JSON serialization', async () => {
    const { inner, limiter } = setUp({ onFailure: 'local' }, 'reject');
    const decision = copyOf(await limiter.check('p', 'a', { cost: 3 }));
    expect(decision.receipt!.charges).toMatchObject([{ key: 'a', cost: 3, degraded: true }]);
    inner.mode = 'reply';
    inner.calls.length = 0;
    expect(await limiter.refund(decision.receipt!)).toBe(3);
    const allowed = copyOf(await limiter.check('p', 'b', { onFailure: 'allow' }));
    expect('degraded' in allowed.receipt!.charges[0]).toBe(false);
    inner.mode = 'reject';
    const { receipt } = copyOf(await limiter.check('p', 'c', { onFailure: 'allow' }));
    inner.calls.length = 0;
    expect(await limiter.refund(receipt!)).toBe(0);
    expect(inner.calls).toEqual([]);
  });

  it('a charge of the local fallback is settled while the breaker is open', async () => {
    const { limiter, store } = setUp({ onFailure: 'local' }, 'reject');
    for (let time = 0; time < 5; time++) await limiter.check('p', 'trip');
    expect(store.breaker).toBe('open');
    const { receipt } = await limiter.check('p', 'a', { cost: 10 });
    expect(await limiter.settle(receipt!, 4)).toBe(-6);
    expect((await limiter.check('p', 'a', { cost: 6 })).allowed).toBe(true);
  });

  it('a degraded denial and a degraded peek have no receipt', async () => {
    const { limiter } = setUp({ onFailure: 'local' }, 'reject');
    await limiter.check('p', 'a', { cost: 10 });
    expect((await limiter.check('p', 'a')).receipt).toBe(undefined);
    expect((await limiter.check('p', 'b', { onFailure: 'deny' })).receipt).toBe(undefined);
    const peeks = (['local', 'allow'] as const).map((onFailure) =>
      limiter.peek('p', 'b', { onFailure }),
    );
    for (const result of await Promise.all(peeks)) {
      expect((result as { receipt?: unknown }).receipt).toBe(undefined);
    }
    expect((await limiter.peek('p', 'b')).remaining).toBe(10);
  });
});

describe('idempotency ids', () => {
  it('a call repeated under its id gets the same decision of the local fallback', async () => {
    const { limiter } = setUp({ onFailure: 'local' }, 'reject');
    const first = await limiter.check('p', 'a', { id: '1', cost: 4 });
    await pass(7);
    const again = await limiter.check('p', 'a', { id: '1', cost: 4 });
    expect(copyOf(again)).toEqual(copyOf(first));
    expect((await limiter.peek('p', 'a')).remaining).toBe(6);
    expect(await limiter.refund(again.receipt!)).toBe(4);
    expect(await limiter.refund(first.receipt!)).toBe(0);
    const joint = [
      { policy: 'p', key: 'b' },
      { policy: 'q', key: 'b' },
    ] as const;
    const one = await limiter.check(joint, { id: '1' });
    expect(copyOf(await limiter.check(joint, { id: '1' }))).toEqual(copyOf(one));
    expect((await limiter.peek('q', 'b')).remaining).toBe(9);
  });

  it('a retry under the same id gets the late admission of the store', async () => {
    const { inner, limiter } = setUp({ onFailure: 'deny' }, 'hold');
    const pending = limiter.check('p', 'a', { id: '1' });
    await pass(20);
    expect((await pending).allowed).toBe(false);
    inner.mode = 'reply';
    inner.release();
    await turn();
    expect(inner.calls).toEqual(['decide']);
    expect((await limiter.check('p', 'a', { id: '1' })).allowed).toBe(true);
    expect((await limiter.inspect('p', 'a'))!.used).toBe(1);
  });
});

describe('a late reply', () => {
  const late = async (onFailure: FailureAction, options: FailureOptions = {}, cost = 3) => {
    const world = setUp({ onFailure, ...options }, 'hold');
    const pending = world.limiter.check('p', 'a', { cost }).catch((error) => error);
    await pass(20);
    const decision = await pending;
    expect(world.inner.used('a')).toBe(cost);
    world.inner.mode = 'reply';
    world.inner.release();
    await turn();
    return { ...world, decision };
  };

  it.each(['deny', 'throw'] as const)(
    'a late charge is refunded if the call was denied or rejected (%s)',
    async (how) => {
      const { inner, decision } = await late(how);
      expect(decision.allowed ?? decision.code).toBe(
        how === 'deny' ? false : 'ERR_STORE_UNAVAILABLE',
      );
      expect(inner.used('a')).toBe(0);
    },
  );

  it.each(['allow', 'local'] as const)(
    'a late charge is kept if the caller was admitted (%s)',
    async (how) => {
      const { inner, decision } = await late(how);
      expect(decision.allowed).toBe(true);
      expect(inner.calls).toEqual(['decide']);
      expect(inner.used('a')).toBe(3);
    },
  );

  it('a late charge is refunded if the local fallback denied the call', async () => {
    const { inner, decision } = await late('local', { localShare: 0.2 });
    expect(decision).toMatchObject({ allowed: false, degraded: { action: 'local' } });
    expect(inner.used('a')).toBe(0);
  });

  it('a late charge is refunded for each limit of a check', async () => {
    const { inner, limiter } = setUp({ onFailure: 'deny' }, 'hold');
    const pending = limiter.check([
      { policy: 'p', key: 'a', cost: 2 },
      { policy: 'q', key: 'b', cost: 5 },
    ]);
    await pass(20);
    expect((await pending).allowed).toBe(false);
    expect([inner.used('a'), inner.used('b')]).toEqual([2, 5]);
    inner.mode = 'reply';
    inner.release();
    await turn();
    expect([inner.used('a'), inner.used('b')]).toEqual([0, 0]);
  });

  it('a late charge is refunded while the breaker is open', async () => {
    const { inner, limiter, store } = setUp({ onFailure: 'deny' }, 'hold');
    const pending = Array.from({ length: 10 }, () => limiter.check('p', 'a'));
    await pass(20);
    for (const { allowed } of await Promise.all(pending)) expect(allowed).toBe(false);
    expect([store.breaker, inner.used('a')]).toEqual(['open', 10]);
    inner.mode = 'reply';
    inner.release();
    await turn();
    expect(inner.used('a')).toBe(0);
  });

  it('a late denial, peek or failure changes nothing', async () => {
    const { inner, limiter } = setUp({ onFailure: 'deny' }, 'reply');
    await limiter.check('p', 'a', { cost: 10 });
    inner.mode = 'hold';
    const pending = Promise.all([limiter.check('p', 'a'), limiter.peek('p', 'b')]);
    await pass(20);
    await pending;
    inner.mode = 'reply';
    inner.release();
    await turn();
    expect(inner.calls).toEqual(['decide', 'decide', 'decide']);
  });

  it.each(['reject', 'throw', 'silent', 'invalid'] as const)(
    'a failed refund of a late charge is not reported to the caller (%s)',
    async (mode) => {
      const { inner, limiter } = setUp({ onFailure: 'deny' }, 'hold');
      const pending = limiter.check('p', 'a');
      await pass(20);
      await pending;
      inner.mode = mode;
      inner.release();
      await turn();
      await turn();
      expect(inner.calls).toEqual(['decide', 'adjust']);
    },
  );

  it('a malformed or failed late reply is ignored', async () => {
    const held: ((value: never) => void)[] = [];
    const decide = () => new Promise<never>((resolve) => held.push(resolve));
    const inner = { ...fakeStore(), decide };
    const store = withFailurePolicy(inner, { onFailure: 'deny', deadlineMs: 20 });
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    const late = [undefined, null, [], [{}]].map((value) => async () => value);
    for (const replyWith of [...late, () => Promise.reject(OUTAGE)]) {
      const pending = limiter.check('p', 'a');
      await pass(20);
      expect((await pending).degraded!.action).toBe('deny');
      held.pop()!(replyWith() as never);
      await turn();
    }
  });
});

describe('a refund that the store did not confirm', () => {
  const spend = async (mode: StoreMode) => {
    const world = setUp({ maxInFlight: 5 }, 'reply');
    const { receipt } = await world.limiter.check('p', 'a', { cost: 4 });
    world.inner.mode = mode;
    return { ...world, receipt: receipt! };
  };
  const failing = async (pending: Promise<number>): Promise<void> => {
    const result = pending.catch((error) => error);
    await pass(20);
    expect(await result).toMatchObject(unavailable);
  };

  it.each(['silent', 'reject', 'hold'] as const)(
    'a refund that the store may have applied cannot be retried (%s)',
    async (mode) => {
      const { inner, limiter, receipt } = await spend(mode);
      await failing(limiter.refund(receipt));
      inner.mode = 'reply';
      inner.release();
      inner.calls.length = 0;
      expect(await limiter.refund(receipt)).toBe(0);
      expect(await limiter.settle(receipt, 2)).toBe(0);
    },
  );

  it('a refund can be retried if the breaker was open', async () => {
    const { inner, limiter, store, receipt } = await spend('reject');
    for (let time = 0; time < 5; time++) await limiter.check('p', 'trip');
    expect(store.breaker).toBe('open');
    await failing(limiter.refund(receipt));
    await failing(limiter.settle(receipt, 1));
    inner.mode = 'reply';
    await pass(250);
    expect(await limiter.refund(receipt)).toBe(4);
    expect(await limiter.refund(receipt)).toBe(0);
  });

  it('a refund can be retried after an overload', async () => {
    const { inner, limiter, receipt } = await spend('hold');
    const others = [1, 2, 3, 4, 5].map((key) => limiter.check('p', `${key}`));
    await turn();
    await expect(limiter.refund(receipt)).rejects.toMatchObject(unavailable);
    inner.mode = 'reply';
    inner.release();
    await Promise.all(others);
    expect(await limiter.refund(receipt)).toBe(4);
  });

  it('a refund can be retried if the store reports that it was not done', async () => {
    const { inner, limiter, receipt } = await spend('reply');
    const adjust = inner.adjust;
    inner.adjust = () => Promise.reject(Object.assign(new Error('LOADING'), { notDone: true }));
    await expect(limiter.refund(receipt)).rejects.toMatchObject(unavailable);
    inner.adjust = adjust;
    expect(await limiter.refund(receipt)).toBe(4);
  });
});
