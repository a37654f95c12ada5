/**
 * The contract of stores, as named cases that any test runner can run:
 *
 *     for (const { name, run } of storeContract) it(name, () => run(() => myStore()));
 *
 * If the `features` of the store do not list concurrency limits or blocks, the cases about them
 * pass without a test.
 */

import { type WindowAlgorithmName, windowAlgorithmNames } from '../algorithms/index.ts';
import { ManualClock } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { createLimiter } from '../limiter.ts';
import { definePolicy, type PolicyOptions } from '../policy.ts';
import type { Adjustment, Store } from '../store.ts';
import { type ContractCase, equal, receiptOf, START_MS } from './contract-case.ts';
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

/** Creates one case for each algorithm with a window. */
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
    for (let expected = 4; expected >= 0; expected--) {
      const { allowed, remaining } = await limiter.check('main', 'a');
      equal('allowed and remaining', [allowed, remaining], [true, expected]);
    }
    const { allowed, remaining, receipt } = await limiter.check('main', 'a');
    equal('denial of the sixth check', [allowed, remaining, receipt], [false, 0, undefined]);
    equal('remaining of another key', (await limiter.check('main', 'b')).remaining, 4);
  }),

  ...forEach('charges nothing for a denied check of any cost', async ({ limiter }) => {
    await limiter.check('main', 'a', { cost: 3 });
    equal('cost 5 is allowed', (await limiter.check('main', 'a', { cost: 5 })).allowed, false);
    equal('cost 2 is allowed', (await limiter.check('main', 'a', { cost: 2 })).allowed, true);
  }),

  ...forEach('admits after retryAfterMs and not 1 ms earlier', async ({ limiter, clock }) => {
    await limiter.check('main', 'a', { cost: 5 });
    clock.advance(137);
    const { retryAfterMs, atMs } = await limiter.check('main', 'a', { cost: 2 });
    clock.set(atMs + retryAfterMs - 1);
    equal('allowed too early', (await limiter.check('main', 'a', { cost: 2 })).allowed, false);
    clock.advance(1);
    equal('allowed in time', (await limiter.check('main', 'a', { cost: 2 })).allowed, true);
  }),

  ...forEach('peek changes nothing', async ({ limiter }) => {
    equal('remaining of a new key', (await limiter.peek('main', 'a')).remaining, 5);
    await limiter.check('main', 'a', { cost: 4 });
    const first = await limiter.peek('main', 'a', { cost: 2 });
    equal('peek allows a cost above the remaining 1', first.allowed, false);
    equal(
      'a second peek with the same cost',
      JSON.stringify(await limiter.peek('main', 'a', { cost: 2 })),
      JSON.stringify(first),
    );
    equal('a check of the remaining 1', (await limiter.check('main', 'a')).allowed, true);
  }),

  ...forEach('charges all limits of a check or none', async ({ limiter }) => {
    const both = [
      { policy: 'main', key: 'a' },
      { policy: 'other', key: 'a' },
    ] as const;
    equal('remaining after the first check', (await limiter.check(both)).remaining, 1);
    equal('remaining after the second check', (await limiter.check(both)).remaining, 0);
    const third = await limiter.check(both);
    equal('the third check', [third.allowed, third.policy], [false, 'other']);
    equal(
      '`allowed` of each limit of the third check',
      third.limits.map((limit) => limit.allowed),
      [true, false],
    );
    equal('remaining of `main`', (await limiter.peek('main', 'a')).remaining, 3);
  }),

  ...forEach('refunds a charge once', async ({ limiter }) => {
    const receipt = receiptOf(await limiter.check('main', 'a', { cost: 4 }));
    equal('the first refund', await limiter.refund(receipt), 4);
    equal('a second refund of the same receipt', await limiter.refund(receipt), 0);
    const { remaining, resetAfterMs } = await limiter.peek('main', 'a');
    equal('the state after the refund', [remaining, resetAfterMs], [5, 0]);
  }),

  ...forEach('settle adjusts the reserved cost to the actual cost', async ({ limiter }) => {
    const first = receiptOf(await limiter.check('main', 'a', { cost: 4 }));
    equal('the change from cost 4 to 1', await limiter.settle(first, 1), -3);
    equal('remaining at cost 1', (await limiter.peek('main', 'a')).remaining, 4);
    const second = receiptOf(await limiter.check('main', 'a', { cost: 1 }));
    equal('the change from cost 1 to 9', await limiter.settle(second, 9), 8);
    const { allowed, remaining } = await limiter.peek('main', 'a');
    equal('the state above the limit', [allowed, remaining], [false, 0]);
  }),

  ...forEach(
    'denies until an overcharge has expired, to the millisecond',
    async ({ limiter, clock }) => {
      const receipt = receiptOf(await limiter.check('main', 'a', { cost: 1 }));
      await limiter.settle(receipt, 8);
      const { retryAfterMs } = await limiter.check('main', 'a');
      clock.advance(retryAfterMs - 1);
      equal('allowed too early', (await limiter.check('main', 'a')).allowed, false);
      clock.advance(1);
      equal('allowed in time', (await limiter.check('main', 'a')).allowed, true);
    },
  ),

  ...forEach('charges a retry with the same id once', async ({ limiter, clock }) => {
    const allows = async (cost: number, id: string): Promise<boolean> =>
      (await limiter.check('main', 'a', { cost, id })).allowed;
    const options = { cost: 2, id: 'call-1' };
    const first = JSON.stringify(await limiter.check('main', 'a', options));
    clock.advance(10);
    equal('the retry', JSON.stringify(await limiter.check('main', 'a', options)), first);
    equal('remaining of another key', (await limiter.peek('main', 'b')).remaining, 5);
    equal('a check with another id is allowed', await allows(2, 'call-2'), true);
    const other = await limiter.check('main', 'b', options);
    equal('remaining of another key, with the same id', other.remaining, 3);
    equal('a cost above the remaining 1 is allowed', await allows(5, 'call-3'), false);
    await limiter.reset('main', 'a');
    equal('a retry of the denial, after a reset, is allowed', await allows(5, 'call-3'), true);
  }),

  ...forEach('reset deletes one key and no other', async ({ limiter }) => {
    await limiter.check('main', 'a', { cost: 5 });
    await limiter.check('main', 'b', { cost: 5 });
    await limiter.reset('main', 'a');
    equal('remaining of the key', (await limiter.peek('main', 'a')).remaining, 5);
    equal('remaining of another key', (await limiter.peek('main', 'b')).remaining, 0);
  }),

  ...forEach('admits nothing twice if the clock steps back', async ({ limiter, clock }) => {
    await limiter.check('main', 'a', { cost: 5 });
    clock.set(START_MS - 900);
    equal('allowed at the earlier time', (await limiter.check('main', 'a')).allowed, false);
  }),

  ...forEach('ignores a state written far in the future', async ({ limiter, clock }) => {
    clock.set(START_MS + 86_400_000);
    await limiter.check('main', 'a', { cost: 5 });
    clock.set(START_MS);
    equal(
      'the whole limit is allowed',
      (await limiter.check('main', 'a', { cost: 5 })).allowed,
      true,
    );
    equal('more than the limit is allowed', (await limiter.check('main', 'a')).allowed, false);
  }),

  ...forEach('concurrent checks never admit more than the limit', async ({ limiter }) => {
    const checks = Array.from({ length: 50 }, () => limiter.check('main', 'hot'));
    const admitted = (await Promise.all(checks)).filter((decision) => decision.allowed);
    equal('the number of admitted checks', admitted.length, 5);
  }),

  ...forEach('inspect returns the state of a key', async ({ limiter, clock }, algorithm) => {
    equal('the state of a new key', await limiter.inspect('main', 'a'), undefined);
    await limiter.check('main', 'a', { cost: 3 });
    const state = await limiter.inspect('main', 'a');
    const described = [state?.algorithm, state?.used, state?.remaining];
    equal('algorithm, used and remaining', described, [algorithm, 3, 2]);
    const areIntegers = state?.cells.map(Number.isSafeInteger);
    equal('whether each cell is an integer', areIntegers, [true, true, true]);
    clock.advance(5000);
    equal('the state of an expired key', await limiter.inspect('main', 'a'), undefined);
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
      const otherCost = await limiter.check('main', 'a', { id: 'x', cost: 2 });
      equal('remaining with another cost', otherCost.remaining, 2);
      const otherLimits = await limiter.check(limits, { id: 'x' });
      equal('remaining with other limits', otherLimits.limits[0].remaining, 1);
      for (const changed of [
        { limit: 5, window: 1000, algorithm: otherThan(algorithm) },
        { limit: 5, window: 2000, algorithm },
      ]) {
        const policies = { main: changed, other: '2/1s' } as const;
        const reloaded = createLimiter({ policies, store, clock });
        const decision = await reloaded.check('main', 'a', { id: 'x' });
        equal('remaining with another policy', decision.remaining, 4);
      }
      const again = JSON.stringify(await limiter.check('main', 'a', { id: 'x' }));
      equal('a retry of the first call', again, first);
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
    const again = await limiter.check('main', 'b', { id: 'x', cost: 2 });
    equal('remaining of a retry after the reset', again.remaining, 3);
    equal('remaining after this retry', (await limiter.peek('main', 'b')).remaining, 3);
    await limiter.reset('other', 'a');
    await limiter.check(both, { id: 'x' });
    const { remaining } = await limiter.peek('main', 'a');
    equal('remaining after a retry with two limits, one of them reset', remaining, 3);
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
      const once = (id: string) => store.adjustOnce!(id, adjustments, clock.now());
      equal('the changes of the first use', await once('r'), [-2, -1]);
      equal('the changes of a second use', await once('r'), undefined);
      equal('remaining of `main`', (await limiter.peek('main', 'a')).remaining, 3);
      equal('remaining of `other`', (await limiter.peek('other', 'a')).remaining, 1);
      equal('the changes of another receipt', await once('r2'), [-2, -1]);
    },
  ),

  ...forEach('reset deletes the used receipts of a key', async (world, algorithm) => {
    const { limiter, store, clock } = world;
    if (store.adjustOnce === undefined) return;
    const once = async (): Promise<readonly number[] | undefined> => {
      const decision = await limiter.check('main', 'a', { cost: 3 });
      return store.adjustOnce!('r', adjustmentsOf(algorithm, decision, 1), clock.now());
    };
    equal('the changes of the first use', await once(), [-2]);
    equal('the changes of a second use', await once(), undefined);
    await limiter.reset('main', 'a');
    equal('the changes of a use after a reset', await once(), [-2]);
  }),

  ...concurrencyContract,
  ...blockContract,
];

const otherThan = (algorithm: WindowAlgorithmName): WindowAlgorithmName =>
  algorithm === 'fixed-window' ? 'sliding-log' : 'fixed-window';
