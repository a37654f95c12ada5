/**
 * The contract of stores, as named cases that any test runner can run:
 *
 *     for (const { name, run } of storeContract) it(name, () => run(() => myStore()));
 *
 * The cases of concurrency limits and blocks pass without a test if `features` of the store does
 * not list them.
 */

import { type WindowAlgorithmName, windowAlgorithmNames } from '../algorithms/index.ts';
import { ManualClock } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { createLimiter } from '../limiter.ts';
import { definePolicy, type PolicyOptions } from '../policy.ts';
import type { Adjustment, Store } from '../store.ts';
import { type ContractCase, equal, START_MS } from './contract-case.ts';
import { blockContract, concurrencyContract } from './feature-contract.ts';

export type { ContractCase } from './contract-case.ts';

/** Creates a limiter with two policies and a manual clock. */
function setUp(store: Store, algorithm: WindowAlgorithmName) {
  const clock = new ManualClock(START_MS);
  const main: PolicyOptions = { limit: 5, window: 1000, algorithm };
  const other: PolicyOptions = { limit: 2, window: 1000 };
  const limiter = createLimiter({ policies: { main, other }, store, clock });
  return { clock, limiter, store };
}

type SetUp = ReturnType<typeof setUp>;

/** Returns the adjustments that settle each charge of a decision at `actual`. */
function adjustmentsOf(
  algorithm: WindowAlgorithmName,
  decision: Decision,
  actual: number,
): Adjustment[] {
  const policies = {
    main: definePolicy('main', { limit: 5, window: 1000, algorithm }),
    other: definePolicy('other', { limit: 2, window: 1000 }),
  };
  return decision.receipt!.charges.map((charge) => {
    const policy = policies[charge.policy as 'main' | 'other'];
    return { policy, params: policy.paramsFor(charge.key), charge, delta: actual - charge.cost };
  });
}

/** Creates one case for each algorithm. */
function forEach(
  name: string,
  test: (world: SetUp, algorithm: WindowAlgorithmName) => Promise<void>,
): ContractCase[] {
  return windowAlgorithmNames.map((algorithm) => ({
    name: `${algorithm}: ${name}`,
    async run(openStore) {
      const store = await openStore();
      try {
        await test(setUp(store, algorithm), algorithm);
      } finally {
        await store.close();
      }
    },
  }));
}

export const storeContract: readonly ContractCase[] = [
  ...forEach('admits calls up to the limit and denies the next', async ({ limiter }) => {
    for (let left = 4; left >= 0; left--) {
      const { allowed, remaining } = await limiter.check('main', 'a');
      equal('decision', [allowed, remaining], [true, left]);
    }
    const denied = await limiter.check('main', 'a');
    equal('sixth', [denied.allowed, denied.remaining, denied.receipt], [false, 0, undefined]);
    equal('another key', (await limiter.check('main', 'b')).remaining, 4);
  }),

  ...forEach('charges nothing for a denied check of any cost', async ({ limiter }) => {
    await limiter.check('main', 'a', { cost: 3 });
    equal('heavy', (await limiter.check('main', 'a', { cost: 5 })).allowed, false);
    equal('light', (await limiter.check('main', 'a', { cost: 2 })).allowed, true);
  }),

  ...forEach('admits after retryAfterMs and not 1 ms earlier', async ({ limiter, clock }) => {
    await limiter.check('main', 'a', { cost: 5 });
    clock.advance(137);
    const { retryAfterMs, atMs } = await limiter.check('main', 'a', { cost: 2 });
    clock.set(atMs + retryAfterMs - 1);
    equal('too early', (await limiter.check('main', 'a', { cost: 2 })).allowed, false);
    clock.advance(1);
    equal('in time', (await limiter.check('main', 'a', { cost: 2 })).allowed, true);
  }),

  ...forEach('peek changes nothing', async ({ limiter }) => {
    equal('new key', (await limiter.peek('main', 'a')).remaining, 5);
    await limiter.check('main', 'a', { cost: 4 });
    const first = await limiter.peek('main', 'a', { cost: 2 });
    equal('would not fit', first.allowed, false);
    equal(
      'again',
      JSON.stringify(await limiter.peek('main', 'a', { cost: 2 })),
      JSON.stringify(first),
    );
    equal('still fits', (await limiter.check('main', 'a')).allowed, true);
  }),

  ...forEach('charges all limits of a check or none', async ({ limiter }) => {
    const both = [
      { policy: 'main', key: 'a' },
      { policy: 'other', key: 'a' },
    ] as const;
    equal('first', (await limiter.check(both)).remaining, 1);
    equal('second', (await limiter.check(both)).remaining, 0);
    const third = await limiter.check(both);
    equal('third', [third.allowed, third.policy], [false, 'other']);
    equal(
      'each alone',
      third.limits.map((limit) => limit.allowed),
      [true, false],
    );
    equal('main', (await limiter.peek('main', 'a')).remaining, 3);
  }),

  ...forEach('refunds a charge once', async ({ limiter }) => {
    const admitted = await limiter.check('main', 'a', { cost: 4 });
    if (!admitted.allowed) throw new Error('expected to be admitted');
    equal('refunded', await limiter.refund(admitted.receipt), 4);
    equal('again', await limiter.refund(admitted.receipt), 0);
    const result = await limiter.peek('main', 'a');
    equal('unused', [result.remaining, result.resetAfterMs], [5, 0]);
  }),

  ...forEach('settle adjusts the reserved cost to the actual cost', async ({ limiter }) => {
    const small = await limiter.check('main', 'a', { cost: 4 });
    if (!small.allowed) throw new Error('expected to be admitted');
    equal('less', await limiter.settle(small.receipt, 1), -3);
    equal('room', (await limiter.peek('main', 'a')).remaining, 4);
    const large = await limiter.check('main', 'a', { cost: 1 });
    if (!large.allowed) throw new Error('expected to be admitted');
    equal('more', await limiter.settle(large.receipt, 9), 8);
    const over = await limiter.peek('main', 'a');
    equal('over', [over.allowed, over.remaining], [false, 0]);
  }),

  ...forEach(
    'denies until an overcharge has expired, to the millisecond',
    async ({ limiter, clock }) => {
      const admitted = await limiter.check('main', 'a', { cost: 1 });
      if (!admitted.allowed) throw new Error('expected to be admitted');
      await limiter.settle(admitted.receipt, 8);
      const { retryAfterMs } = await limiter.check('main', 'a');
      clock.advance(retryAfterMs - 1);
      equal('too early', (await limiter.check('main', 'a')).allowed, false);
      clock.advance(1);
      equal('in time', (await limiter.check('main', 'a')).allowed, true);
    },
  ),

  ...forEach('charges a call repeated under its id once', async ({ limiter, clock }) => {
    const options = { cost: 2, id: 'call-1' };
    const first = JSON.stringify(await limiter.check('main', 'a', options));
    clock.advance(10);
    equal('again', JSON.stringify(await limiter.check('main', 'a', options)), first);
    equal('charged', (await limiter.peek('main', 'b')).remaining, 5);
    equal(
      'another id',
      (await limiter.check('main', 'a', { cost: 2, id: 'call-2' })).allowed,
      true,
    );
    equal('another key', (await limiter.check('main', 'b', options)).remaining, 3);
    equal('denied', (await limiter.check('main', 'a', { cost: 5, id: 'call-3' })).allowed, false);
    await limiter.reset('main', 'a');
    equal(
      'after a reset',
      (await limiter.check('main', 'a', { cost: 5, id: 'call-3' })).allowed,
      true,
    );
  }),

  ...forEach('reset deletes one key and no other', async ({ limiter }) => {
    await limiter.check('main', 'a', { cost: 5 });
    await limiter.check('main', 'b', { cost: 5 });
    await limiter.reset('main', 'a');
    equal('a', (await limiter.peek('main', 'a')).remaining, 5);
    equal('b', (await limiter.peek('main', 'b')).remaining, 0);
  }),

  ...forEach('admits nothing twice if the clock steps back', async ({ limiter, clock }) => {
    await limiter.check('main', 'a', { cost: 5 });
    clock.set(START_MS - 900);
    equal('before', (await limiter.check('main', 'a')).allowed, false);
  }),

  ...forEach('ignores a state written far in the future', async ({ limiter, clock }) => {
    clock.set(START_MS + 86_400_000);
    await limiter.check('main', 'a', { cost: 5 });
    clock.set(START_MS);
    equal('fits', (await limiter.check('main', 'a', { cost: 5 })).allowed, true);
    equal('counts', (await limiter.check('main', 'a')).allowed, false);
  }),

  ...forEach('concurrent checks never admit more than the limit', async ({ limiter }) => {
    const checks = Array.from({ length: 50 }, () => limiter.check('main', 'hot'));
    const admitted = (await Promise.all(checks)).filter((decision) => decision.allowed);
    equal('admitted', admitted.length, 5);
  }),

  ...forEach('inspect returns the state of a key', async ({ limiter, clock }, algorithm) => {
    equal('nothing', await limiter.inspect('main', 'a'), undefined);
    await limiter.check('main', 'a', { cost: 3 });
    const state = await limiter.inspect('main', 'a');
    equal('held', [state?.algorithm, state?.used, state?.remaining], [algorithm, 3, 2]);
    equal('cells', state?.cells.map(Number.isSafeInteger), [true, true, true]);
    clock.advance(5000);
    equal('expired', await limiter.inspect('main', 'a'), undefined);
  }),

  ...forEach(
    'a different call under the same id does not affect the first',
    async (world, algorithm) => {
      const { limiter, clock, store } = world;
      if (store.adjustOnce === undefined) return;
      const first = JSON.stringify(await limiter.check('main', 'a', { id: 'x' }));
      const limits = [
        { policy: 'main', key: 'a' },
        { policy: 'other', key: 'a' },
      ] as const;
      equal('other cost', (await limiter.check('main', 'a', { id: 'x', cost: 2 })).remaining, 2);
      equal('other limits', (await limiter.check(limits, { id: 'x' })).limits[0].remaining, 1);
      for (const changed of [
        { limit: 5, window: 1000, algorithm: otherThan(algorithm) },
        { limit: 5, window: 2000, algorithm },
      ]) {
        const policies = { main: changed, other: '2/1s' } as const;
        const reloaded = createLimiter({ policies, store, clock });
        equal('other policy', (await reloaded.check('main', 'a', { id: 'x' })).remaining, 4);
      }
      equal('the first', JSON.stringify(await limiter.check('main', 'a', { id: 'x' })), first);
    },
  ),

  ...forEach('reset deletes the ids of a key', async ({ limiter, store }) => {
    if (store.adjustOnce === undefined) return;
    const both = [
      { policy: 'main', key: 'a' },
      { policy: 'other', key: 'a' },
    ] as const;
    await limiter.check(both, { id: 'x' });
    await limiter.check('main', 'b', { id: 'x', cost: 2 });
    await limiter.reset('main', 'b');
    equal('alone', (await limiter.check('main', 'b', { id: 'x', cost: 2 })).remaining, 3);
    equal('charged again', (await limiter.peek('main', 'b')).remaining, 3);
    await limiter.reset('other', 'a');
    await limiter.check(both, { id: 'x' });
    equal('through the second limit', (await limiter.peek('main', 'a')).remaining, 3);
  }),

  ...forEach(
    'applies the adjustments of a receipt once',
    async ({ limiter, store, clock }, algorithm) => {
      if (store.adjustOnce === undefined) return;
      const both = [
        { policy: 'main', key: 'a', cost: 2 },
        { policy: 'other', key: 'a' },
      ] as const;
      const adjustments = adjustmentsOf(algorithm, await limiter.check(both), 0);
      await limiter.check(both);
      equal('first', await store.adjustOnce('r', adjustments, clock.now()), [-2, -1]);
      equal('again', await store.adjustOnce('r', adjustments, clock.now()), undefined);
      equal('main', (await limiter.peek('main', 'a')).remaining, 3);
      equal('other', (await limiter.peek('other', 'a')).remaining, 1);
      equal('another', await store.adjustOnce('r2', adjustments, clock.now()), [-2, -1]);
    },
  ),

  ...forEach('reset deletes the used receipts of a key', async (world, algorithm) => {
    const { limiter, store, clock } = world;
    if (store.adjustOnce === undefined) return;
    const once = async (): Promise<readonly number[] | undefined> => {
      const decision = await limiter.check('main', 'a', { cost: 3 });
      return store.adjustOnce!('r', adjustmentsOf(algorithm, decision, 1), clock.now());
    };
    equal('first', await once(), [-2]);
    equal('used', await once(), undefined);
    await limiter.reset('main', 'a');
    equal('after a reset', await once(), [-2]);
  }),

  ...concurrencyContract,
  ...blockContract,
];

const otherThan = (algorithm: WindowAlgorithmName): WindowAlgorithmName =>
  algorithm === 'fixed-window' ? 'sliding-log' : 'fixed-window';
