/** The store charges a call after the fallback decided it: both charges are settled together. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { jointDecision } from '../../src/decision.ts';
import { type FailureOptions, withFailurePolicy } from '../../src/failure/index.ts';
import { LateCharges } from '../../src/failure/late-charges.ts';
import {
  createLimiter,
  definePolicy,
  type LimitDecision,
  ManualClock,
  type Receipt,
  type WindowAlgorithmName,
} from '../../src/index.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { fakeStore, pass, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

const copyOf = <T>(value: T): T => JSON.parse(JSON.stringify(value));
const algorithms: WindowAlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];

function setUp(options: FailureOptions = {}, algorithm: WindowAlgorithmName = 'sliding-log') {
  const inner = fakeStore('hold');
  const store = withFailurePolicy(inner, { deadlineMs: 20, onFailure: 'local', ...options });
  const policies = {
    p: { limit: 10_000, window: '1h', algorithm },
    q: { limit: 10_000, window: '1h', algorithm },
  } as const;
  const limiter = createLimiter({ policies, store });
  /** Makes a call that times out: the store charges it and does not reply. */
  const reserve = async (cost = 4000): Promise<Receipt> => {
    const pending = limiter.check('p', 'a', { cost });
    await pass(20);
    const { receipt, degraded } = await pending;
    expect([degraded!.reason, inner.used('a')]).toEqual(['timeout', cost]);
    return receipt!;
  };
  /** Sends the held replies. From now on the store replies at once. */
  const reply = async (): Promise<void> => {
    inner.mode = 'reply';
    inner.release();
    await turn();
    await turn();
  };
  /** Returns what remains in the local fallback. */
  const localRemaining = async (): Promise<number> => {
    inner.mode = 'reject';
    const { remaining, degraded } = await limiter.peek('p', 'a', { onFailure: 'local' });
    expect(degraded!.action).toBe('local');
    inner.mode = 'reply';
    return remaining;
  };
  return { inner, store, limiter, reserve, reply, localRemaining };
}

const forms: [form: string, formOf: (receipt: Receipt) => Receipt][] = [
  ['unchanged', (receipt) => receipt],
  ['as JSON', copyOf],
];

describe.each(forms)('the receipt of a call that timed out, passed %s', (_form, formOf) => {
  it.each(algorithms)(
    'after the late reply, a call is settled locally and in the store (%s)',
    async (name) => {
      const { inner, limiter, reserve, reply, localRemaining } = setUp({}, name);
      const receipt = formOf(await reserve());
      await reply();
      expect(await limiter.settle(receipt, 100)).toBe(-3900);
      await turn();
      expect(inner.used('a')).toBe(100);
      expect((await limiter.peek('p', 'a')).remaining).toBe(9900);
      expect(await localRemaining()).toBe(9900);
    },
  );

  it.each(algorithms)(
    'before the late reply, a call is settled locally and in the store (%s)',
    async (name) => {
      const { inner, limiter, reserve, reply, localRemaining } = setUp({}, name);
      const receipt = formOf(await reserve());
      expect(await limiter.settle(receipt, 100)).toBe(-3900);
      expect(inner.used('a')).toBe(4000);
      await reply();
      expect(inner.used('a')).toBe(100);
      expect(await localRemaining()).toBe(9900);
    },
  );

  it.each(['before', 'after'])(
    '%s the late reply, a call is refunded locally and in the store',
    async (when) => {
      const { inner, limiter, reserve, reply, localRemaining } = setUp();
      const receipt = formOf(await reserve());
      if (when === 'after') await reply();
      expect(await limiter.refund(receipt)).toBe(4000);
      if (when === 'before') await reply();
      await turn();
      expect(inner.used('a')).toBe(0);
      expect(await localRemaining()).toBe(10_000);
    },
  );

  it.each(['before', 'after'])(
    '%s the late reply, a call settled to a higher cost is charged in the store',
    async (when) => {
      const { inner, limiter, reserve, reply } = setUp();
      const receipt = formOf(await reserve());
      if (when === 'after') await reply();
      expect(await limiter.settle(receipt, 7000)).toBe(3000);
      if (when === 'before') await reply();
      await turn();
      expect(inner.used('a')).toBe(7000);
    },
  );

  it('a call with a late reply is settled in the store once', async () => {
    const { inner, limiter, reserve, reply } = setUp();
    const receipt = await reserve();
    const copies = [formOf(receipt), copyOf(receipt), copyOf(receipt)];
    await limiter.settle(copies[0], 100);
    await limiter.settle(copies[1], 100);
    await reply();
    await limiter.settle(copies[2], 0);
    await turn();
    expect(inner.used('a')).toBe(100);
  });

  it('a call that `allow` admitted before the late reply is settled in the store', async () => {
    const { inner, limiter, reserve, reply } = setUp({ onFailure: 'allow' });
    const receipt = formOf(await reserve());
    await reply();
    expect(await limiter.settle(receipt, 100)).toBe(0);
    await turn();
    expect(inner.used('a')).toBe(100);
  });
});

it('each limit of a check with a late reply is settled to its own cost', async () => {
  const { inner, limiter, reply } = setUp();
  const pending = limiter.check([
    { policy: 'p', key: 'a', cost: 50 },
    { policy: 'q', key: 'b', cost: 70 },
  ]);
  await pass(20);
  const { receipt } = await pending;
  expect(await limiter.settle(copyOf(receipt!), [5, 90])).toBe(-25);
  await reply();
  expect([inner.used('a'), inner.used('b')]).toEqual([5, 90]);
});

it('a call with a late reply is settled in the store while the breaker is open', async () => {
  const { inner, store, limiter, reserve, reply } = setUp();
  const receipt = await reserve();
  const more = Array.from({ length: 5 }, () => limiter.check('p', 'b'));
  await pass(20);
  await Promise.all(more);
  expect(store.breaker).toBe('open');
  await limiter.settle(receipt, 100);
  await reply();
  expect(inner.used('a')).toBe(100);
});

it('a call that the store denies late is settled only locally', async () => {
  const { inner, limiter, reply } = setUp();
  inner.mode = 'reply';
  await limiter.check('p', 'a', { cost: 9000 });
  inner.mode = 'hold';
  const pending = limiter.check('p', 'a', { cost: 4000 });
  await pass(20);
  const { receipt, allowed } = await pending;
  expect(allowed).toBe(true);
  await limiter.settle(receipt!, 100);
  inner.calls.length = 0;
  await reply();
  expect([inner.calls, inner.used('a')]).toEqual([[], 9000]);
});

it('only the receipt of a call that timed out has the field `late`', async () => {
  const { inner, limiter } = setUp();
  for (const [mode, late] of [
    ['hold', expect.any(String)],
    ['reject', undefined],
    ['reply', undefined],
  ] as const) {
    inner.mode = mode;
    const pending = limiter.check('p', mode);
    await pass(20);
    expect((await pending).receipt!.charges[0].late).toEqual(late);
  }
});

it('a receipt whose field `late` is invalid changes nothing in the store', async () => {
  const { inner, limiter, reserve, reply } = setUp();
  const receipt = await reserve();
  await reply();
  inner.calls.length = 0;
  const [charge] = receipt.charges;
  for (const change of [{ late: 'x' }, { late: 7 as never }, { key: 'b' }, { cost: 3999 }]) {
    await limiter.refund({ charges: [{ ...charge, ...change }] });
  }
  await turn();
  expect([inner.calls, inner.used('a')]).toEqual([[], 4000]);
});

it('a call with a late reply that is repeated under its id is settled once', async () => {
  const { limiter, reply } = setUp();
  const check = async (): Promise<Receipt> => {
    const pending = limiter.check('p', 'a', { id: 'x', cost: 50 });
    await pass(20);
    return (await pending).receipt!;
  };
  const [first, second] = [await check(), await check()];
  expect(second).toEqual(first);
  await limiter.settle(copyOf(first), 5);
  await limiter.settle(copyOf(second), 5);
  await reply();
  expect((await limiter.inspect('p', 'a'))!.used).toBe(5);
});

describe('LateCharges', () => {
  const policy = definePolicy('p', '10/1h');
  const limit = { policy, params: policy.params!, key: 'a', cost: 1 };

  function setUpCharges() {
    const clock = new ManualClock();
    const adjusted: number[] = [];
    const charges = new LateCharges(clock, (_adjustments, nowMs) => adjusted.push(nowMs!));
    /** Adds a call that timed out and that the store then charged. */
    const open = (limits = 1): string => {
      const token = charges.nextToken();
      const result = jointDecision([decisionOf(limit)], true);
      charges.open(token, Array(limits).fill(limit)).charged(result);
      return token;
    };
    /** Returns whether the charge in the store is adjusted. */
    const isKept = (late: string): boolean => {
      const before = adjusted.length;
      const charge = { policy: 'p', key: 'a', cost: 1, atMs: 0, degraded: true, late } as const;
      charges.settle([{ policy, params: policy.params!, charge, delta: -1 }], 1);
      return adjusted.length > before;
    };
    return { clock, open, isKept };
  }

  const decisionOf = ({ key, cost }: typeof limit) =>
    ({ policy: 'p', key, cost, allowed: true, limit: 10, remaining: 9, atMs: 0 }) as LimitDecision;

  it('at least the last 10,000 late charges are kept, and at most 20,000', () => {
    const { open, isKept } = setUpCharges();
    const tokens = Array.from({ length: 50_000 }, () => open());
    expect(tokens.slice(-10_000).every(isKept)).toBe(true);
    expect(tokens.slice(0, 30_000).some(isKept)).toBe(false);
  });

  it('fewer calls with late replies are kept if each call has many limits', () => {
    const { open, isKept } = setUpCharges();
    const tokens = Array.from({ length: 1000 }, () => open(50));
    expect(tokens.slice(-200).every(isKept)).toBe(true);
    expect(tokens.slice(0, 590).some(isKept)).toBe(false);
  });

  it('late charges are kept for one hour, and dropped after two', () => {
    const { clock, open, isKept } = setUpCharges();
    const [first, second] = [open(), open()];
    clock.advance(3_600_000);
    open();
    expect(isKept(first)).toBe(true);
    clock.advance(3_600_000);
    open();
    expect(isKept(second)).toBe(false);
  });
});
