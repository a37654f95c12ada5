/** Results and errors of calls while the store does not reply, by failure action. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FailureOptions, withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter, definePolicy, type FailureAction, SluiceError } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { fakeStore, OUTAGE, pass, type StoreMode, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

function setUp(options: FailureOptions = {}, mode: StoreMode = 'reply') {
  const inner = fakeStore(mode);
  const store = withFailurePolicy(inner, { deadlineMs: 20, ...options });
  const limiter = createLimiter({
    policies: {
      p: '5/1m',
      allowing: { limit: 5, window: '1m', onFailure: 'allow' },
      denying: { limit: 5, window: '1m', onFailure: 'deny' },
      throwing: { limit: 5, window: '1m', onFailure: 'throw' },
      localized: { limit: 5, window: '1m', onFailure: 'local' },
    },
    store,
  });
  /** Opens the breaker with failing calls. */
  const trip = async (): Promise<void> => {
    const before = inner.mode;
    inner.mode = 'reject';
    for (let time = 0; time < 5; time++) await limiter.check('p', 'trip').catch(() => {});
    expect(store.breaker).toBe('open');
    inner.mode = before;
  };
  return { inner, store, limiter, trip };
}

const unavailable = { name: 'SluiceError', code: 'ERR_STORE_UNAVAILABLE' };

describe('a working store', () => {
  it('decisions of a working store are not degraded', async () => {
    const { limiter, inner } = setUp();
    const decision = await limiter.check('p', 'a', { cost: 2 });
    expect(decision).toMatchObject({ allowed: true, remaining: 3 });
    expect('degraded' in decision).toBe(false);
    expect(JSON.stringify(decision)).not.toContain('degraded');
    expect('degraded' in (await limiter.peek('p', 'a'))).toBe(false);
    expect(await limiter.refund(decision.receipt!)).toBe(2);
    expect(await limiter.inspect('p', 'a')).toBe(undefined);
    await limiter.reset('p', 'a');
    expect(inner.calls).toEqual(['decide', 'decide', 'adjust', 'inspect', 'reset']);
    expect(vi.getTimerCount()).toBeLessThanOrEqual(1);
  });

  it('a guarded store decides several checks in order', async () => {
    const { store } = setUp();
    const policy = definePolicy('p', '1/1s');
    const check = { limits: [{ policy, params: policy.params!, key: 'a', cost: 1 }], peek: false };
    const results = await store.decide([check, check]);
    expect(results.map(({ allowed }) => allowed)).toEqual([true, false]);
  });
});

describe('a failing store', () => {
  const wrong: [what: string, mode: StoreMode, reason: string, cause: unknown][] = [
    ['rejects', 'reject', 'error', OUTAGE],
    ['throws', 'throw', 'error', OUTAGE],
    ['returns no promise', 'invalid', 'error', expect.any(TypeError)],
    ['is silent', 'silent', 'timeout', undefined],
    ['replies too late', 'hold', 'timeout', undefined],
  ];

  it.each(wrong)('a store that %s results in an `allow` decision', async (_what, mode, reason) => {
    const { limiter } = setUp({ onFailure: 'allow' }, mode);
    const pending = limiter.check('p', 'a', { cost: 2 });
    await pass(20);
    expect(JSON.parse(JSON.stringify(await pending))).toMatchObject({
      allowed: true,
      policy: 'p',
      key: 'a',
      cost: 2,
      limit: 5,
      remaining: 3,
      retryAfterMs: 0,
      degraded: { reason, action: 'allow' },
      limits: [{ policy: 'p', key: 'a', cost: 2, allowed: true }],
    });
  });

  it.each(wrong)('a store that %s results in a `deny` decision', async (_what, mode, reason) => {
    const { limiter } = setUp({ onFailure: 'deny' }, mode);
    const pending = limiter.check('p', 'a');
    await pass(20);
    const decision = await pending;
    expect(decision).toMatchObject({
      allowed: false,
      remaining: 0,
      receipt: undefined,
      degraded: { reason, action: 'deny' },
    });
    expect(decision.retryAfterMs).toBeGreaterThanOrEqual(1);
  });

  it.each(wrong)(
    'a store that %s results in a local decision by default',
    async (_what, mode, reason) => {
      const { limiter } = setUp({}, mode);
      const pending = limiter.check('p', 'a', { cost: 4 });
      await pass(20);
      expect(await pending).toMatchObject({
        allowed: true,
        remaining: 1,
        resetAfterMs: 60_000,
        degraded: { reason, action: 'local' },
      });
    },
  );

  it.each(wrong)(
    'a store that %s rejects the check with `throw`',
    async (_what, mode, _reason, cause) => {
      const { limiter } = setUp({ onFailure: 'throw' }, mode);
      const pending = limiter.check('p', 'a').catch((error) => error);
      await pass(20);
      const error = await pending;
      expect(error).toBeInstanceOf(SluiceError);
      expect(error).toMatchObject(unavailable);
      expect(error.cause).toEqual(cause);
      if (cause === OUTAGE) expect(error.message).toContain('the cable is cut');
    },
  );

  it.each(wrong.filter(([, mode]) => mode !== 'invalid'))(
    'a store that %s rejects refund, settle, reset and inspect in time',
    async (_what, mode) => {
      const { limiter, inner } = setUp();
      const { receipt } = await limiter.check('p', 'a', { cost: 2 });
      const { receipt: other } = await limiter.check('p', 'a', { cost: 2 });
      inner.mode = mode;
      const pending = Promise.allSettled([
        limiter.refund(receipt!),
        limiter.settle(other!, 1),
        limiter.reset('p', 'a'),
        limiter.inspect('p', 'a'),
      ]);
      await pass(20);
      for (const { status, reason } of (await pending) as PromiseRejectedResult[]) {
        expect(status).toBe('rejected');
        expect(reason).toMatchObject(unavailable);
      }
    },
  );

  it('a call to a silent store waits exactly until the deadline', async () => {
    const { limiter } = setUp({ onFailure: 'deny' }, 'silent');
    const settled = vi.fn();
    const pending = limiter.check('p', 'a').then(settled);
    await pass(19);
    expect(settled).not.toHaveBeenCalled();
    await pass(1);
    await pending;
    expect(settled).toHaveBeenCalledOnce();
  });

  it('the default deadline is 50 ms', async () => {
    const limiter = createLimiter({
      policies: { p: '5/1m' },
      store: withFailurePolicy(fakeStore('silent')),
    });
    const settled = vi.fn();
    void limiter.check('p', 'a').then(settled);
    await pass(49);
    expect(settled).not.toHaveBeenCalled();
    await pass(1);
    expect(settled).toHaveBeenCalledOnce();
  });

  it('a peek has the same fallbacks as a check and is marked as degraded', async () => {
    const { limiter } = setUp({}, 'reject');
    for (const onFailure of ['allow', 'deny', 'local'] as const) {
      const result = await limiter.peek('p', 'a', { onFailure });
      expect(result).toMatchObject({
        allowed: onFailure !== 'deny',
        degraded: { action: onFailure },
      });
      expect('receipt' in result && result.receipt).toBe(undefined);
    }
    await expect(limiter.peek('p', 'a', { onFailure: 'throw' })).rejects.toMatchObject(unavailable);
  });
});

it.each([undefined, null, 7, [], [undefined]])('a store reply of %o is an error', async (reply) => {
  const inner = { ...fakeStore(), decide: async () => reply as never };
  const limiter = createLimiter({ policies: { p: '5/1m' }, store: withFailurePolicy(inner) });
  expect((await limiter.check('p', 'a')).degraded).toEqual({ reason: 'error', action: 'local' });
});

describe('a store that keeps failing', () => {
  it('while the breaker is open, calls are not sent and have the reason `open`', async () => {
    const { limiter, inner, trip } = setUp({ onFailure: 'deny' });
    await trip();
    const before = inner.calls.length;
    const { degraded, retryAfterMs } = await limiter.check('p', 'a');
    expect(degraded).toEqual({ reason: 'open', action: 'deny' });
    expect(retryAfterMs).toBeGreaterThan(1);
    expect(retryAfterMs).toBeLessThanOrEqual(250);
    await expect(limiter.inspect('p', 'a')).rejects.toMatchObject(unavailable);
    expect(inner.calls).toHaveLength(before);
  });

  it('one probe after 250 ms closes the breaker if it succeeds', async () => {
    const { limiter, store, trip } = setUp({ onFailure: 'deny' });
    await trip();
    await pass(250);
    expect('degraded' in (await limiter.check('p', 'a'))).toBe(false);
    expect(store.breaker).toBe('closed');
  });

  it('no second call is sent while the probe of the breaker is in flight', async () => {
    const { limiter, inner, store, trip } = setUp({ onFailure: 'deny' });
    await trip();
    await pass(250);
    inner.mode = 'silent';
    const probe = limiter.check('p', 'a');
    expect(store.breaker).toBe('probing');
    const others = await Promise.all([limiter.check('p', 'b'), limiter.check('p', 'c')]);
    for (const { degraded } of others) expect(degraded!.reason).toBe('open');
    expect(inner.silentCalls).toBe(1);
    await pass(20);
    expect((await probe).degraded!.reason).toBe('timeout');
    expect(store.breaker).toBe('open');
  });

  it('an inspection can be the probe of the breaker', async () => {
    const { limiter, store, trip } = setUp();
    await trip();
    await pass(250);
    expect(await limiter.inspect('p', 'a')).toBe(undefined);
    expect(store.breaker).toBe('closed');
  });

  it('a cached denial does not affect the breaker', async () => {
    vi.useRealTimers();
    let isDead = false;
    // A server that denies all checks until it fails.
    const send = async (): Promise<unknown> => {
      if (isDead) throw OUTAGE;
      return [Date.now(), 30_000, 0, 30_000];
    };
    const denyCache = { maxMs: 60_000 };
    const store = redisStore(send, { onFailure: 'deny', denyCache });
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    await limiter.check('p', 'hot');
    isDead = true;
    for (let time = 0; time < 5; time++) {
      expect((await limiter.check('p', `${time}`)).degraded!.reason).toBe('error');
      if (time < 4) expect(await limiter.check('p', 'hot')).toMatchObject({ cached: true });
    }
    expect(store.breaker).toBe('open');
    await vi.waitFor(
      async () => expect(await limiter.check('p', 'hot')).toMatchObject({ cached: true }),
      { timeout: 10_000, interval: 5 },
    );
    expect(store.breaker).toBe('open');
  });
});

describe('calls beyond maxInFlight', () => {
  it('calls beyond maxInFlight are degraded with the reason `overload`', async () => {
    const { limiter, inner, store } = setUp({ onFailure: 'deny', maxInFlight: 3 }, 'hold');
    const first = [1, 2, 3].map((key) => limiter.check('p', `${key}`));
    await pass(0);
    const { degraded } = await limiter.check('p', 'd');
    expect(degraded).toEqual({ reason: 'overload', action: 'deny' });
    await expect(limiter.reset('p', 'a')).rejects.toMatchObject(unavailable);
    expect(inner.calls).toHaveLength(3);
    inner.release();
    for (const decision of await Promise.all(first)) expect(decision.allowed).toBe(true);
    expect(store.breaker).toBe('closed');
  });

  it.each(['reply', 'reject', 'throw', 'silent'] as const)(
    'a completed call makes room for the next one (%s)',
    async (mode) => {
      const { limiter, inner } = setUp({ onFailure: 'deny', maxInFlight: 2 }, mode);
      const first = Promise.all([limiter.check('p', 'a'), limiter.check('p', 'b')]);
      await pass(20);
      await first;
      inner.mode = 'reply';
      expect('degraded' in (await limiter.check('p', 'c'))).toBe(false);
    },
  );

  it('calls beyond maxInFlight are not failures of the store', async () => {
    const { limiter, store, inner } = setUp({ onFailure: 'deny', maxInFlight: 1 }, 'hold');
    const first = limiter.check('p', 'a');
    for (let time = 0; time < 50; time++) await limiter.check('p', 'b');
    expect(store.breaker).toBe('closed');
    inner.release();
    await first;
  });
});

describe('precedence of onFailure', () => {
  const actionOf = async (pending: Promise<{ degraded?: { action: string } }>): Promise<string> =>
    pending.then(
      ({ degraded }) => degraded!.action,
      ({ code }) => (code === 'ERR_STORE_UNAVAILABLE' ? 'throw' : code),
    );

  it('onFailure of the call overrides the policy, which overrides the store', async () => {
    for (const onFailure of ['allow', 'deny', 'local', 'throw'] as const) {
      const { limiter } = setUp({ onFailure }, 'reject');
      expect(await actionOf(limiter.check('p', 'a'))).toBe(onFailure);
      expect(await actionOf(limiter.check('denying', 'a'))).toBe('deny');
      expect(await actionOf(limiter.check('denying', 'a', { onFailure: 'allow' }))).toBe('allow');
      expect(await actionOf(limiter.check('p', 'a', { onFailure: 'local' }))).toBe('local');
    }
  });

  it('the strictest onFailure of several limits applies, unless the call has one', async () => {
    const order = ['allow', 'local', 'deny', 'throw'] as const;
    const names = ['allowing', 'localized', 'denying', 'throwing'] as const;
    for (let one = 0; one < 4; one++) {
      for (let other = 0; other < 4; other++) {
        const { limiter } = setUp({}, 'reject');
        const limits = [
          { policy: names[one], key: 'a' },
          { policy: names[other], key: 'b' },
        ];
        expect(await actionOf(limiter.check(limits))).toBe(order[Math.max(one, other)]);
        expect(await actionOf(limiter.check(limits, { onFailure: 'allow' }))).toBe('allow');
        expect(await actionOf(limiter.peek(limits, { onFailure: 'deny' }))).toBe('deny');
      }
    }
  });

  it('a policy without onFailure uses onFailure of the store', async () => {
    const { limiter } = setUp({ onFailure: 'deny' }, 'reject');
    const limits = [
      { policy: 'p', key: 'a' },
      { policy: 'allowing', key: 'a' },
    ] as const;
    expect(await actionOf(limiter.check(limits))).toBe('deny');
  });
});

describe('invalid options', () => {
  it.each([
    { deadlineMs: 0 },
    { deadlineMs: 1.5 },
    { deadlineMs: Number.NaN },
    { deadlineMs: '50' },
    { maxInFlight: 0 },
    { maxInFlight: Number.POSITIVE_INFINITY },
    { localShare: 0 },
    { localShare: 1.1 },
    { localShare: Number.NaN },
    { localShare: '1' },
    { onFailure: 'open' },
    { onFailure: null },
    { onFailures: 'deny' },
    null,
  ])('the failure options %o are rejected', (options) => {
    const error = expect.objectContaining({ code: 'ERR_INVALID_OPTION' });
    const invalid = options as unknown as FailureOptions;
    expect(() => withFailurePolicy(fakeStore(), invalid)).toThrow(error);
    expect(() => redisStore(async () => null, invalid)).toThrow(error);
  });

  it('withFailurePolicy rejects a value that is not a store', () => {
    for (const store of [undefined, null, {}, () => {}]) {
      expect(() => withFailurePolicy(store as never)).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
      );
    }
  });

  it('an invalid onFailure of a call or of a policy is rejected', async () => {
    const { limiter } = setUp();
    const onFailure = 'open' as FailureAction;
    const error = { code: 'ERR_INVALID_OPTION' };
    await expect(limiter.check('p', 'a', { onFailure })).rejects.toMatchObject(error);
    await expect(limiter.peek('p', 'a', { onFailure })).rejects.toMatchObject(error);
    const policies = { p: { limit: 1, window: '1s', onFailure } };
    expect(() => createLimiter({ policies })).toThrow(expect.objectContaining(error));
  });
});
