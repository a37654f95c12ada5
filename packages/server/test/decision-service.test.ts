import { memoryStore, type Store } from 'sluice';
import { withFailurePolicy } from 'sluice/failure';
import { describe, expect, test } from 'vitest';
import {
  DecisionService,
  type LimitRequest,
  type ServiceDecision,
} from '../src/decision-service.ts';
import { receiptOf } from '../src/receipts.ts';
import { policy } from './running.ts';

const POLICIES = [
  policy('few', 3, '1m'),
  policy('many', 10, '1h', { costs: { search: 5 } }),
  policy('watched', 1, '1m', { shadow: true }),
];

function asyncStore(): Store {
  const store = memoryStore();
  return withFailurePolicy({
    decide: (checks) => store.decide(checks),
    adjust: (adjustments) => store.adjust(adjustments),
    adjustOnce: (id, adjustments) => store.adjustOnce!(id, adjustments),
    reset: (policy, key) => store.reset(policy, key),
    inspect: async (policy, params, key) => store.inspectSync(policy, params, key, Date.now()),
    close: () => store.close(),
  });
}

/** One store replies synchronously, the other asynchronously. */
const stores: readonly [string, () => Store][] = [
  ['that replies synchronously', () => memoryStore()],
  ['that replies asynchronously', asyncStore],
];

const decide = async (
  decisionService: DecisionService,
  ...requests: LimitRequest[]
): Promise<ServiceDecision> => decisionService.decide(decisionService.limits(requests));

describe.each(stores)('DecisionService with a store %s', (_, open) => {
  const decisionServiceOf = (): DecisionService => new DecisionService(open(), POLICIES);
  const few = { policy: 'few', key: 'a' };
  const many = { policy: 'many', key: 'a' };
  const watched = { policy: 'watched', key: 'a' };

  test('DecisionService charges all limits or none', async () => {
    const decisionService = decisionServiceOf();
    for (let call = 0; call < 3; call++)
      expect((await decide(decisionService, few, many)).allowed).toBe(true);
    const denied = await decide(decisionService, few, many);
    expect(denied.allowed).toBe(false);
    expect(denied.result?.limits.map(({ allowed }) => allowed)).toEqual([false, true]);
    expect((await decisionService.inspect('many', 'a'))?.used).toBe(3);
  });

  test('DecisionService charges the cost of an operation', async () => {
    const decisionService = decisionServiceOf();
    const { result } = await decide(decisionService, {
      policy: 'many',
      key: 'a',
      operation: 'search',
    });
    expect(result?.remaining).toBe(5);
  });

  test('a denied shadow limit does not deny the call', async () => {
    const decisionService = decisionServiceOf();
    await decide(decisionService, few, watched);
    const { allowed, result, shadow } = await decide(decisionService, few, watched);
    expect(allowed).toBe(true);
    expect(result?.limits.map((each) => each.policy)).toEqual(['few']);
    expect(shadow.map((each) => [each.policy, each.allowed])).toEqual([['watched', false]]);
  });

  test('DecisionService charges a shadow limit only for allowed calls', async () => {
    const decisionService = decisionServiceOf();
    await decide(decisionService, { ...few, cost: 3 });
    const denied = await decide(decisionService, few, watched);
    expect(denied.shadow).toEqual([]);
    expect(await decisionService.inspect('watched', 'a')).toBeUndefined();
    await decide(decisionService, { ...few, key: 'b' }, watched);
    expect((await decisionService.inspect('watched', 'a'))?.used).toBe(1);
  });

  test('DecisionService allows a call with only shadow limits', async () => {
    const decisionService = decisionServiceOf();
    await decide(decisionService, watched);
    const { allowed, result, shadow } = await decide(decisionService, watched);
    expect(allowed).toBe(true);
    expect(result).toBeUndefined();
    expect(shadow[0].allowed).toBe(false);
  });

  test('a receipt refunds the charges of all limits once', async () => {
    const decisionService = decisionServiceOf();
    const receipt = receiptOf(await decide(decisionService, few, many, watched))!;
    expect(receipt.charges.map((charge) => charge.policy)).toEqual(['few', 'many', 'watched']);
    expect(await decisionService.refund(receipt)).toEqual({ change: -3, used: false });
    expect(await decisionService.refund(structuredClone(receipt))).toEqual({
      change: 0,
      used: true,
    });
    expect((await decisionService.inspect('few', 'a'))?.used ?? 0).toBe(0);
  });

  test('equal charges have different receipts', async () => {
    const decisionService = decisionServiceOf();
    const first = receiptOf(await decide(decisionService, few))!;
    const second = receiptOf(await decide(decisionService, few))!;
    expect((await decisionService.refund(first)).change).toBe(-1);
    expect((await decisionService.refund(second)).change).toBe(-1);
    expect((await decisionService.inspect('few', 'a'))?.used ?? 0).toBe(0);
  });

  test('all receipts of a repeated id can be used once in total', async () => {
    const decisionService = decisionServiceOf();
    const once = async (): Promise<ServiceDecision> =>
      decisionService.decide(decisionService.limits([few]), { id: 'call-1' });
    const receipts = [receiptOf(await once(), 'call-1')!, receiptOf(await once(), 'call-1')!];
    expect((await decisionService.inspect('few', 'a'))?.used).toBe(1);
    expect((await decisionService.refund(receipts[0])).change).toBe(-1);
    expect((await decisionService.refund(receipts[1])).used).toBe(true);
  });

  test('settle can exceed the limit, and the next call is denied', async () => {
    const decisionService = decisionServiceOf();
    const receipt = receiptOf(await decide(decisionService, many))!;
    expect(await decisionService.settle(receipt, 12)).toEqual({ change: 11, used: false });
    expect((await decide(decisionService, many)).allowed).toBe(false);
  });

  test('an override applies from the next decision until it is deleted', async () => {
    const decisionService = decisionServiceOf();
    await decide(decisionService, few);
    decisionService.overrides.set({ policy: 'few', key: 'a', limit: 1 });
    const denied = await decide(decisionService, few);
    expect([denied.allowed, denied.result?.limit]).toEqual([false, 1]);
    expect((await decide(decisionService, { ...few, key: 'b' })).result?.limit).toBe(3);
    decisionService.overrides.delete('few', 'a');
    expect((await decide(decisionService, few)).result).toMatchObject({
      allowed: true,
      limit: 3,
      remaining: 1,
    });
  });

  test('DecisionService rejects a cost above the override', () => {
    const decisionService = decisionServiceOf();
    decisionService.overrides.set({ policy: 'few', key: 'vip:*', limit: 2 });
    const request = { policy: 'few', key: 'vip:1', cost: 3 };
    expect(() => decisionService.limits([request])).toThrow(/at most 2 for `few`/);
    expect(decisionService.limits([{ ...request, key: 'x' }])).toHaveLength(1);
  });

  test('counters survive a change of policies', async () => {
    const decisionService = decisionServiceOf();
    await decide(decisionService, { ...few, cost: 2 });
    decisionService.use([policy('few', 2, '1m')]);
    expect((await decide(decisionService, few)).allowed).toBe(false);
    expect(() => decisionService.limits([many])).toThrow(/one of: few/);
    decisionService.use([policy('few', 5, '1m')]);
    expect((await decide(decisionService, few)).result?.remaining).toBe(2);
  });

  test('an inline limit has its own counter', async () => {
    const decisionService = decisionServiceOf();
    const inlineLimit = () =>
      decisionService.inlineLimit('visit', { limit: 1, window: '1m' }, 'a', 1);
    expect((await decisionService.decide([inlineLimit()])).allowed).toBe(true);
    expect((await decisionService.decide([inlineLimit()])).allowed).toBe(false);
    expect((await decide(decisionService, few)).result?.remaining).toBe(2);
  });

  test('listeners are called for every decision except peeks', async () => {
    const decisionService = decisionServiceOf();
    const seen: boolean[] = [];
    decisionService.watch(({ allowed }) => seen.push(allowed));
    await decide(decisionService, { ...few, cost: 3 });
    await decisionService.decide(decisionService.limits([few], true), { peek: true });
    await decide(decisionService, few);
    expect(seen).toEqual([true, false]);
  });

  test('peek charges nothing', async () => {
    const decisionService = decisionServiceOf();
    const { result } = await decisionService.decide(decisionService.limits([few], true), {
      peek: true,
    });
    expect(result).toMatchObject({ allowed: true, remaining: 3, cost: 0 });
    expect(await decisionService.inspect('few', 'a')).toBeUndefined();
  });

  test('probe resolves to true if the store is available', async () => {
    expect(await decisionServiceOf().probe()).toBe(true);
  });

  test.each([
    ['an unknown policy', { policy: 'none', key: 'a' }, 'ERR_UNKNOWN_POLICY'],
    ['a reserved policy name', { policy: 'sluice.none', key: 'a' }, 'ERR_UNKNOWN_POLICY'],
    ['an empty key', { policy: 'few', key: '' }, 'ERR_INVALID_KEY'],
    ['a cost of 0', { policy: 'few', key: 'a', cost: 0 }, 'ERR_INVALID_COST'],
    ['a cost above the limit', { policy: 'few', key: 'a', cost: 4 }, 'ERR_COST_ABOVE_LIMIT'],
    ['an unknown operation', { policy: 'many', key: 'a', operation: 'x' }, 'ERR_UNKNOWN_OPERATION'],
  ])('DecisionService rejects %s', (_description, request, code) => {
    expect(() => decisionServiceOf().limits([request])).toThrow(expect.objectContaining({ code }));
  });
});

test('a probe adds no key to the memory store', async () => {
  const store = memoryStore();
  expect(await new DecisionService(store, POLICIES).probe()).toBe(true);
  expect(store.size).toBe(0);
});

describe('DecisionService with an unavailable store', () => {
  const broken = (): Store => ({
    decide: () => Promise.reject(new Error('unavailable')),
    adjust: () => Promise.reject(new Error('unavailable')),
    adjustOnce: () => Promise.reject(new Error('unavailable')),
    reset: () => Promise.reject(new Error('unavailable')),
    close: async () => {},
  });
  const decisionServiceOf = (onFailure: 'allow' | 'deny' | 'throw'): DecisionService =>
    new DecisionService(withFailurePolicy(broken(), { onFailure }), POLICIES);
  const few = { policy: 'few', key: 'a' };

  test('without the store, a decision applies the failure action and is degraded', async () => {
    expect(await decide(decisionServiceOf('allow'), few)).toMatchObject({ allowed: true });
    const denied = await decide(decisionServiceOf('deny'), few);
    expect(denied).toMatchObject({ allowed: false, result: { degraded: { action: 'deny' } } });
    await expect(decide(decisionServiceOf('throw'), few)).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });

  test('without the store, a call with only shadow limits is allowed', async () => {
    const { allowed, shadow } = await decide(decisionServiceOf('throw'), {
      policy: 'watched',
      key: 'a',
    });
    expect([allowed, shadow]).toEqual([true, []]);
  });

  test('probe resolves to false if the store is unavailable', async () => {
    expect(await decisionServiceOf('allow').probe()).toBe(false);
  });

  test('a receipt can be refunded after a first refund failed in the store', async () => {
    const store = memoryStore();
    const working = new DecisionService(store, POLICIES);
    const receipt = receiptOf(await decide(working, few))!;
    const adjustOnce = () => Promise.reject(Object.assign(new Error('no'), { notDone: true }));
    const failing = new DecisionService({ ...broken(), adjustOnce }, POLICIES);
    await expect(failing.refund(receipt)).rejects.toThrow('no');
    expect(await working.refund(receipt)).toEqual({ change: -1, used: false });
  });
});

test('DecisionService rejects a store without adjustOnce', () => {
  const { decide, adjust, reset, close } = memoryStore();
  const store: Store = { decide, adjust, reset, close };
  expect(() => new DecisionService(store, POLICIES)).toThrow(
    expect.objectContaining({
      code: 'ERR_INVALID_OPTION',
      message: 'Expected a store with `adjustOnce`, got a store without it',
    }),
  );
});
