import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLimiter, ManualClock, memoryStore, type Store } from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';
import { turn } from './rejections.ts';

const START_MS = 1_745_000_100_000;

function setUp() {
  const clock = new ManualClock(START_MS);
  const limiter = createLimiter({
    policies: {
      perSecond: { limit: 2, window: '1s' },
      perMinute: { limit: 10, window: '1m' },
      quota: { limit: 500, window: '1d', costs: { search: 100, list: 1 } },
    },
    clock,
  });
  return { clock, limiter };
}

describe('a decision', () => {
  it('a decision of one limit has all documented fields', async () => {
    const { limiter } = setUp();
    const decision = await limiter.check('perSecond', 'a');
    expect(JSON.parse(JSON.stringify(decision))).toEqual({
      policy: 'perSecond',
      key: 'a',
      cost: 1,
      allowed: true,
      limit: 2,
      remaining: 1,
      retryAfterMs: 0,
      resetAfterMs: 1000,
      atMs: START_MS,
      limits: [
        {
          policy: 'perSecond',
          key: 'a',
          cost: 1,
          allowed: true,
          limit: 2,
          remaining: 1,
          retryAfterMs: 0,
          resetAfterMs: 1000,
          atMs: START_MS,
        },
      ],
      receipt: { charges: [{ policy: 'perSecond', key: 'a', cost: 1, atMs: START_MS }] },
    });
  });

  it('an allowed decision names the limit with the least remaining', () => {
    const { limiter } = setUp();
    const { policy, limit, remaining, resetAfterMs } = limiter.checkSync([
      { policy: 'perMinute', key: 'a' },
      { policy: 'perSecond', key: 'a' },
    ]);
    expect({ policy, limit, remaining, resetAfterMs }).toEqual({
      policy: 'perSecond',
      limit: 2,
      remaining: 1,
      resetAfterMs: 60_000,
    });
  });

  it('a denied decision names the limit with the longest wait', () => {
    const { limiter } = setUp();
    limiter.checkSync('perSecond', 'a', { cost: 2 });
    limiter.checkSync('perMinute', 'a', { cost: 10 });
    const { policy, retryAfterMs, remaining } = limiter.checkSync([
      { policy: 'perSecond', key: 'a' },
      { policy: 'perMinute', key: 'a' },
    ]);
    expect({ policy, retryAfterMs, remaining }).toEqual({
      policy: 'perMinute',
      retryAfterMs: 60_000,
      remaining: 0,
    });
  });

  it('if several limits are equally restrictive, a decision names the first', () => {
    const { limiter } = setUp();
    const limits = [
      { policy: 'perSecond', key: 'b' },
      { policy: 'perSecond', key: 'a' },
    ] as const;
    expect(limiter.checkSync(limits).key).toBe('b');
    limiter.checkSync(limits);
    expect(limiter.checkSync(limits)).toMatchObject({ allowed: false, key: 'b' });
  });

  it('keys of different parts are counted separately', () => {
    const { limiter } = setUp();
    limiter.checkSync('perSecond', ['a:b', 'c'], { cost: 2 });
    expect(limiter.checkSync('perSecond', ['a', 'b:c']).allowed).toBe(true);
    expect(limiter.checkSync('perSecond', ['a:b', 'c']).allowed).toBe(false);
  });
});

describe('costs', () => {
  it('an operation is charged the cost that the policy lists', () => {
    const { limiter } = setUp();
    expect(limiter.checkSync('quota', 'job', { operation: 'search' }).remaining).toBe(400);
    expect(limiter.checkSync('quota', 'job', { operation: 'list' }).remaining).toBe(399);
    expect(limiter.peekSync('quota', 'job', { operation: 'search' }).allowed).toBe(true);
  });

  it('a limit function determines the limit of each key at every check', () => {
    const plans = new Map([['big', 5]]);
    const limiter = createLimiter({
      policies: { p: { limit: (key) => plans.get(key) ?? 1, window: '1m' } },
      clock: new ManualClock(START_MS),
    });
    expect(limiter.checkSync('p', 'big', { cost: 5 }).allowed).toBe(true);
    expect(limiter.checkSync('p', 'small').allowed).toBe(true);
    expect(limiter.checkSync('p', 'small').allowed).toBe(false);
    plans.set('small', 3);
    expect(limiter.checkSync('p', 'small')).toMatchObject({
      allowed: true,
      limit: 3,
      remaining: 1,
    });
    expect(() => limiter.checkSync('p', 'other', { cost: 2 })).toThrow(
      expect.objectContaining({ code: 'ERR_COST_ABOVE_LIMIT' }),
    );
  });
});

it('a limit function may call the limiter', () => {
  const limiter = createLimiter({
    policies: { outer: { limit: (key): number => inner(key), window: '1m' }, inner: '5/1m' },
    clock: new ManualClock(START_MS),
  });
  const inner = (key: string): number => limiter.checkSync('inner', key).limit;
  expect(limiter.checkSync('outer', 'a')).toMatchObject({ policy: 'outer', remaining: 4 });
  expect(limiter.peekSync('inner', 'a').remaining).toBe(4);
});

it('retryAfterMs of a token bucket is exact after its limit changed', () => {
  let limit = 10;
  const clock = new ManualClock(START_MS);
  const policies = { p: { limit: () => limit, window: 1000, algorithm: 'token-bucket' } } as const;
  const limiter = createLimiter({ policies, clock });
  limiter.checkSync('p', 'a', { cost: 10 });
  limit = 100;
  const { retryAfterMs } = limiter.checkSync('p', 'a', { cost: 6 });
  expect(retryAfterMs).toBe(60);
  clock.advance(59);
  expect(limiter.peekSync('p', 'a', { cost: 6 }).allowed).toBe(false);
  clock.advance(1);
  expect(limiter.checkSync('p', 'a', { cost: 6 }).allowed).toBe(true);
});

describe('receipts', () => {
  it('a receipt can be used again if the store failed', async () => {
    const adjust = vi
      .fn()
      .mockRejectedValueOnce(new Error('store is down'))
      .mockResolvedValue([-1]);
    const store: Store = { ...promisesOnly(), adjust };
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    const decision = await limiter.check('p', 'a');
    if (!decision.allowed) throw new Error('expected to be admitted');
    await expect(limiter.refund(decision.receipt)).rejects.toThrow('store is down');
    expect(await limiter.refund(decision.receipt)).toBe(1);
  });

  it('a receipt can be used only once, also after JSON serialization', async () => {
    const { limiter } = setUp();
    const decision = limiter.checkSync('perMinute', 'a', { cost: 4 });
    if (!decision.allowed) throw new Error('expected to be admitted');
    expect(decision.receipt).toBe(decision.receipt);
    const copy = JSON.parse(JSON.stringify(decision.receipt));
    expect(await limiter.settle(copy, 3)).toBe(-1);
    expect(await limiter.settle(copy, 0)).toBe(0);
    expect(limiter.peekSync('perMinute', 'a').remaining).toBe(7);
  });

  it('a receipt of several limits can be settled to one cost per limit, or refunded', () => {
    const { limiter } = setUp();
    const limits = [
      { policy: 'perMinute', key: 'a', cost: 4 },
      { policy: 'quota', key: 'a', cost: 100 },
    ] as const;
    const first = limiter.checkSync(limits);
    if (!first.allowed) throw new Error('expected to be admitted');
    expect(limiter.settleSync(first.receipt, [1, 50])).toBe(-53);
    expect(limiter.peekSync('perMinute', 'a').remaining).toBe(9);
    expect(limiter.peekSync('quota', 'a').remaining).toBe(450);
    const second = limiter.checkSync(limits);
    if (!second.allowed) throw new Error('expected to be admitted');
    expect(limiter.refundSync(second.receipt)).toBe(104);
  });

  it('a receipt of an expired window changes nothing', () => {
    const { clock, limiter } = setUp();
    const decision = limiter.checkSync('perSecond', 'a', { cost: 2 });
    if (!decision.allowed) throw new Error('expected to be admitted');
    clock.advance(1000);
    limiter.checkSync('perSecond', 'a');
    expect(limiter.refundSync(decision.receipt)).toBe(0);
    expect(limiter.peekSync('perSecond', 'a').remaining).toBe(1);
  });

  it('each of two limiters on one store can use a receipt once', async () => {
    const store = memoryStore();
    const clock = new ManualClock(START_MS);
    const [one, other] = [0, 1].map(() => createLimiter({ policies: { p: '9/1s' }, store, clock }));
    const { receipt } = one.checkSync('p', 'a', { cost: 3 });
    one.checkSync('p', 'a', { cost: 5 });
    expect([one.refundSync(receipt!), one.refundSync(receipt!)]).toEqual([3, 0]);
    expect([other.refundSync(receipt!), other.refundSync(receipt!)]).toEqual([3, 0]);
  });

  it('after a refund, a call repeated under its id is not charged again', async () => {
    const { limiter } = setUp();
    const call = () => limiter.check('perMinute', 'a', { cost: 3, id: 'order-7' });
    const { receipt } = await call();
    expect(await limiter.refund(receipt!)).toBe(3);
    const again = await call();
    expect(again.allowed).toBe(true);
    expect(limiter.peekSync('perMinute', 'a').remaining).toBe(10);
    expect(await limiter.refund(again.receipt!)).toBe(0);
  });

  it('a receipt can be used after a rejected settlement', () => {
    const { limiter } = setUp();
    const decision = limiter.checkSync('perMinute', 'a', { cost: 4 });
    if (!decision.allowed) throw new Error('expected to be admitted');
    const { receipt } = decision;
    expect(() => limiter.settleSync(receipt, -1)).toThrow('Expected the actual cost');
    expect(limiter.settleSync(receipt, 0)).toBe(-4);
  });
});

describe('onDecision', () => {
  it('onDecision reports decisions and not peeks until the listener is removed', async () => {
    const { limiter } = setUp();
    const seen: boolean[] = [];
    const stop = limiter.onDecision(({ allowed }) => seen.push(allowed));
    limiter.checkSync('perSecond', 'a', { cost: 2 });
    await limiter.check('perSecond', 'a');
    limiter.checkSync([{ policy: 'perMinute', key: 'a' }]);
    await limiter.acquire('perMinute', 'a');
    await limiter.peek('perSecond', 'a');
    stop();
    stop();
    limiter.checkSync('perMinute', 'a');
    expect(seen).toEqual([true, false, true, true]);
  });

  it('onDecision reports one decision for an acquire that waited', async () => {
    const clock = new ManualClock(0);
    const limiter = createLimiter({ policies: { one: '1/1s' }, clock });
    const seen: [string, boolean][] = [];
    limiter.onDecision(({ key, allowed }) => void seen.push([key, allowed]));
    await limiter.acquire('one', 'a');
    const waiting = limiter.acquire('one', 'a');
    const hurried = limiter.acquire('one', 'a', { maxWaitMs: 100 });
    clock.advance(1000);
    await Promise.all([waiting, hurried]);
    expect(seen).toEqual([
      ['a', true],
      ['a', false],
      ['a', true],
    ]);
  });

  it.each([
    ['a synchronous store', () => memoryStore()],
    ['an asynchronous store', () => promisesOnly()],
  ])('onDecision runs in the asynchronous context of the caller, on %s', async (_, open) => {
    const caller = new AsyncLocalStorage<string>();
    const clock = new ManualClock(0);
    const limiter = createLimiter({ policies: { one: '1/1s' }, clock, store: open() });
    const seen: unknown[] = [];
    limiter.onDecision(({ allowed }) => void seen.push([caller.getStore(), allowed]));
    const first = await caller.run('first', () => limiter.check('one', 'a'));
    const second = caller.run('second', () => limiter.acquire('one', 'a'));
    await turn();
    // The refund of another caller wakes the waiter.
    await caller.run('third', () => limiter.refund(first.receipt!));
    await second;
    expect(seen).toEqual([
      ['first', true],
      ['second', true],
    ]);
  });

  it('a listener that is added after some checks is called for each later check', () => {
    const { limiter } = setUp();
    limiter.checkSync('perMinute', 'a');
    limiter.checkSync('perMinute', 'a');
    const listener = vi.fn();
    const stop = limiter.onDecision(listener);
    limiter.checkSync('perMinute', 'a');
    limiter.checkSync('perMinute', 'a');
    expect(listener).toHaveBeenCalledTimes(2);
    stop();
    limiter.checkSync('perMinute', 'a');
    limiter.checkSync('perMinute', 'a');
    expect(listener).toHaveBeenCalledTimes(2);
  });

  it('a listener that was added twice and removed once is called once per decision', () => {
    const { limiter } = setUp();
    const listener = vi.fn();
    const stop = limiter.onDecision(listener);
    limiter.onDecision(listener);
    stop();
    limiter.checkSync('perMinute', 'a');
    expect(listener).toHaveBeenCalledOnce();
  });

  const fail = (error: unknown): never => {
    throw error;
  };
  const throwing: [how: string, listener: () => void, message: string][] = [
    ['throws an error', () => fail(new Error('broken metrics')), 'Error: broken metrics'],
    ['rejects', () => Promise.reject(new Error('broken metrics')), 'Error: broken metrics'],
    ['throws undefined', () => fail(undefined), 'undefined'],
    ['throws an object without a text', () => fail(Object.create(null)), 'undefined'],
  ];

  it.each(throwing)('a listener that %s causes one warning', async (_how, listener, message) => {
    const { limiter } = setUp();
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const second = vi.fn();
    limiter.onDecision(listener);
    limiter.onDecision(second);
    expect(limiter.checkSync('perSecond', 'a').allowed).toBe(true);
    expect((await limiter.check('perSecond', 'b')).allowed).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(second).toHaveBeenCalledTimes(2);
    const options = { type: 'SluiceWarning', code: 'WARN_CALLBACK' };
    expect(warned.mock.calls).toEqual([[expect.stringContaining(message), options]]);
    warned.mockRestore();
  });
});

describe('time', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('a limiter without the option `clock` follows fake timers', () => {
    vi.useFakeTimers({ now: START_MS });
    const limiter = createLimiter({ policies: { p: '1/1s' } });
    expect(limiter.checkSync('p', 'a').allowed).toBe(true);
    vi.setSystemTime(START_MS + 999);
    expect(limiter.checkSync('p', 'a').allowed).toBe(false);
    vi.setSystemTime(START_MS + 1000);
    expect(limiter.checkSync('p', 'a').allowed).toBe(true);
  });

  it.each([1, 31_536_000_000])('a window of %i ms is exact', (window) => {
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({ policies: { p: { limit: 3, window } }, clock });
    limiter.checkSync('p', 'a', { cost: 3 });
    clock.set(START_MS + window - 1);
    expect(limiter.checkSync('p', 'a')).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.set(START_MS + window);
    expect(limiter.checkSync('p', 'a', { cost: 3 }).allowed).toBe(true);
  });

  it('a clock that jumps a day ahead and back loses no charge', () => {
    const { clock, limiter } = setUp();
    limiter.checkSync('perMinute', 'a', { cost: 10 });
    clock.advance(86_400_000);
    limiter.checkSync('perMinute', 'b');
    clock.set(START_MS + 1000);
    expect(limiter.checkSync('perMinute', 'a')).toMatchObject({
      allowed: false,
      retryAfterMs: 59_000,
    });
    // A charge of a wrong clock, one day ahead, does not deny later calls.
    expect(limiter.checkSync('perMinute', 'b', { cost: 10 }).allowed).toBe(true);
  });
});

it('limiters on one store share counters if policy name and window are equal', () => {
  const store = memoryStore();
  const clock = new ManualClock(START_MS);
  const before = createLimiter({ policies: { p: '5/1m' }, store, clock });
  const after = createLimiter({ policies: { p: '7/1m' }, store, clock });
  const other = createLimiter({ policies: { p: '5/2m' }, store, clock });
  before.checkSync('p', 'a', { cost: 5 });
  expect(after.peekSync('p', 'a').remaining).toBe(2);
  expect(other.peekSync('p', 'a').remaining).toBe(5);
});
