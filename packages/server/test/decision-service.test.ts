import { memoryStore, type Store } from 'sluice';
import { withFailurePolicy } from 'sluice/failure';
import { describe, expect, test } from 'vitest';
import {
  DecisionService,
  type LimitRequest,
  receiptOf,
  type ServiceDecision,
} from '../src/decision-service.ts';
import { policy } from './running.ts';

const POLICIES = [
  policy('few', 3, '1m'),
  policy('many', 10, '1h', { costs: { search: 5 } }),
  policy('watched', 1, '1m', { shadow: true }),
];

function laterStore(): Store {
  const store = memoryStore();
  return withFailurePolicy({
    decide: (checks) => store.decide(checks),
    adjust: (adjustments) => store.adjust(adjustments),
    adjustOnce: (id, adjustments) => store.adjustOnce!(id, adjustments),
    reset: (policy, key) => store.reset(policy, key),
    inspect: async (...asked) => store.inspectSync(asked[0], asked[1], asked[2], Date.now()),
    close: () => store.close(),
  });
}

/** The same store, once answering at once and once later. */
const stores: readonly [string, () => Store][] = [
  ['in this process', () => memoryStore()],
  ['that answers later', laterStore],
];

const ask = async (
  decisionService: DecisionService,
  ...requests: LimitRequest[]
): Promise<ServiceDecision> => decisionService.decide(decisionService.limits(requests));

describe.each(stores)('DecisionService with a store %s', (_, open) => {
  const decisionServiceOf = (): DecisionService => new DecisionService(open(), POLICIES);
  const few = { policy: 'few', key: 'a' };
  const many = { policy: 'many', key: 'a' };
  const watched = { policy: 'watched', key: 'a' };

  test('charges all limits or none', async () => {
    const decisionService = decisionServiceOf();
    for (let call = 0; call < 3; call++)
      expect((await ask(decisionService, few, many)).allowed).toBe(true);
    const denied = await ask(decisionService, few, many);
    expect(denied.allowed).toBe(false);
    expect(denied.result?.limits.map(({ allowed }) => allowed)).toEqual([false, true]);
    expect((await decisionService.inspect('many', 'a'))?.used).toBe(3);
  });

  test('charges the cost of an operation', async () => {
    const decisionService = decisionServiceOf();
    const { result } = await ask(decisionService, {
      policy: 'many',
      key: 'a',
      operation: 'search',
    });
    expect(result?.remaining).toBe(5);
  });

  test('a denied shadow limit does not deny the call', async () => {
    const decisionService = decisionServiceOf();
    await ask(decisionService, few, watched);
    const { allowed, result, shadow } = await ask(decisionService, few, watched);
    expect(allowed).toBe(true);
    expect(result?.limits.map((each) => each.policy)).toEqual(['few']);
    expect(shadow.map((each) => [each.policy, each.allowed])).toEqual([['watched', false]]);
  });

  test('charges a shadow limit only for allowed calls', async () => {
    const decisionService = decisionServiceOf();
    await ask(decisionService, { ...few, cost: 3 });
    const denied = await ask(decisionService, few, watched);
    expect(denied.shadow).toEqual([]);
    expect(await decisionService.inspect('watched', 'a')).toBeUndefined();
    await ask(decisionService, { ...few, key: 'b' }, watched);
    expect((await decisionService.inspect('watched', 'a'))?.used).toBe(1);
  });

  test('allows a call with only shadow limits', async () => {
    const decisionService = decisionServiceOf();
    await ask(decisionService, watched);
    const { allowed, result, shadow } = await ask(decisionService, watched);
    expect(allowed).toBe(true);
    expect(result).toBeUndefined();
    expect(shadow[0].allowed).toBe(false);
  });

  test('a receipt refunds all limits once', async () => {
    const decisionService = decisionServiceOf();
    const receipt = receiptOf(await ask(decisionService, few, many, watched))!;
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
    const first = receiptOf(await ask(decisionService, few))!;
    const second = receiptOf(await ask(decisionService, few))!;
    expect((await decisionService.refund(first)).change).toBe(-1);
    expect((await decisionService.refund(second)).change).toBe(-1);
    expect((await decisionService.inspect('few', 'a'))?.used ?? 0).toBe(0);
  });

  test('a repeated id returns a receipt that can be used once in all', async () => {
    const decisionService = decisionServiceOf();
    const once = async (): Promise<ServiceDecision> =>
      decisionService.decide(decisionService.limits([few]), { id: 'call-1' });
    const receipts = [receiptOf(await once(), 'call-1')!, receiptOf(await once(), 'call-1')!];
    expect((await decisionService.inspect('few', 'a'))?.used).toBe(1);
    expect((await decisionService.refund(receipts[0])).change).toBe(-1);
    expect((await decisionService.refund(receipts[1])).used).toBe(true);
  });

  test('settle may exceed the limit, and the next call waits', async () => {
    const decisionService = decisionServiceOf();
    const receipt = receiptOf(await ask(decisionService, many))!;
    expect(await decisionService.settle(receipt, 12)).toEqual({ change: 11, used: false });
    expect((await ask(decisionService, many)).allowed).toBe(false);
  });

  test('an override applies from the next decision until it is deleted', async () => {
    const decisionService = decisionServiceOf();
    await ask(decisionService, few);
    decisionService.overrides.set({ policy: 'few', key: 'a', limit: 1 });
    const denied = await ask(decisionService, few);
    expect([denied.allowed, denied.result?.limit]).toEqual([false, 1]);
    expect((await ask(decisionService, { ...few, key: 'b' })).result?.limit).toBe(3);
    decisionService.overrides.delete('few', 'a');
    expect((await ask(decisionService, few)).result).toMatchObject({
      allowed: true,
      limit: 3,
      remaining: 1,
    });
  });

  test('rejects a cost above the override', () => {
    const decisionService = decisionServiceOf();
    decisionService.overrides.set({ policy: 'few', key: 'vip:*', limit: 2 });
    const request = { policy: 'few', key: 'vip:1', cost: 3 };
    expect(() => decisionService.limits([request])).toThrow(/at most 2 for `few`/);
    expect(decisionService.limits([{ ...request, key: 'x' }])).toHaveLength(1);
  });

  test('counters survive a change of policies', async () => {
    const decisionService = decisionServiceOf();
    await ask(decisionService, { ...few, cost: 2 });
    decisionService.use([policy('few', 2, '1m')]);
    expect((await ask(decisionService, few)).allowed).toBe(false);
    expect(() => decisionService.limits([many])).toThrow(/one of: few/);
    decisionService.use([policy('few', 5, '1m')]);
    expect((await ask(decisionService, few)).result?.remaining).toBe(2);
  });

  test('an inline limit has its own counter', async () => {
    const decisionService = decisionServiceOf();
    const inlinePolicies = () =>
      decisionService.inlineLimit('visit', { limit: 1, window: '1m' }, 'a', 1);
    expect((await decisionService.decide([inlinePolicies()])).allowed).toBe(true);
    expect((await decisionService.decide([inlinePolicies()])).allowed).toBe(false);
    expect((await ask(decisionService, few)).result?.remaining).toBe(2);
  });

  test('notifies listeners of every decision except peeks', async () => {
    const decisionService = decisionServiceOf();
    const seen: boolean[] = [];
    decisionService.watch(({ allowed }) => seen.push(allowed));
    await ask(decisionService, { ...few, cost: 3 });
    await decisionService.decide(decisionService.limits([few], true), { peek: true });
    await ask(decisionService, few);
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

  test('probe resolves to true', async () => {
    expect(await decisionServiceOf().probe()).toBe(true);
  });

  test.each([
    ['an unknown policy', { policy: 'none', key: 'a' }, 'ERR_UNKNOWN_POLICY'],
    ['a name of its own', { policy: 'sluice.none', key: 'a' }, 'ERR_UNKNOWN_POLICY'],
    ['an empty key', { policy: 'few', key: '' }, 'ERR_INVALID_KEY'],
    ['a cost of 0', { policy: 'few', key: 'a', cost: 0 }, 'ERR_INVALID_COST'],
    ['a cost above the limit', { policy: 'few', key: 'a', cost: 4 }, 'ERR_COST_ABOVE_LIMIT'],
    ['no such operation', { policy: 'many', key: 'a', operation: 'x' }, 'ERR_UNKNOWN_OPERATION'],
  ])('rejects %s', (_what, request, code) => {
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
    decide: () => Promise.reject(new Error('away')),
    adjust: () => Promise.reject(new Error('away')),
    adjustOnce: () => Promise.reject(new Error('away')),
    reset: () => Promise.reject(new Error('away')),
    close: async () => {},
  });
  const decisionServiceOf = (onFailure: 'allow' | 'deny' | 'throw'): DecisionService =>
    new DecisionService(withFailurePolicy(broken(), { onFailure }), POLICIES);
  const few = { policy: 'few', key: 'a' };

  test('applies the failure action and marks the decision as degraded', async () => {
    expect(await ask(decisionServiceOf('allow'), few)).toMatchObject({ allowed: true });
    const denied = await ask(decisionServiceOf('deny'), few);
    expect(denied).toMatchObject({ allowed: false, result: { degraded: { action: 'deny' } } });
    await expect(ask(decisionServiceOf('throw'), few)).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });

  test('allows a call with only shadow limits without the store', async () => {
    const { allowed, shadow } = await ask(decisionServiceOf('throw'), {
      policy: 'watched',
      key: 'a',
    });
    expect([allowed, shadow]).toEqual([true, []]);
  });

  test('probe resolves to false without the store', async () => {
    expect(await decisionServiceOf('allow').probe()).toBe(false);
  });

  test('a receipt can be refunded after the store failed', async () => {
    const store = memoryStore();
    const well = new DecisionService(store, POLICIES);
    const receipt = receiptOf(await ask(well, few))!;
    const adjustOnce = () => Promise.reject(Object.assign(new Error('no'), { notDone: true }));
    const half = new DecisionService({ ...broken(), adjustOnce }, POLICIES);
    await expect(half.refund(receipt)).rejects.toThrow('no');
    expect(await well.refund(receipt)).toEqual({ change: -1, used: false });
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
