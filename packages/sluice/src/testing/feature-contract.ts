/** The part of the store contract about concurrency limits and blocks. */
import type { Policies } from '../api.ts';
import { ManualClock } from '../clock.ts';
import { createLimiter } from '../limiter.ts';
import type { Store, StoreFeature } from '../store.ts';
import { type ContractCase, equal, receiptOf, START_MS } from './contract-case.ts';

/** Creates a limiter with a concurrency limit, a window limit and one with a block. */
function setUpFeatures(store: Store) {
  const clock = new ManualClock(START_MS);
  const policies = {
    ...(store.features!.includes('concurrency') && { held: { concurrency: 3, lease: 1000 } }),
    ...(store.features!.includes('block') && {
      blocked: { limit: 2, window: 1000, block: { for: 2000, factor: 2, max: 6000, forget: 5000 } },
    }),
    other: { limit: 2, window: 1000 },
  } as Policies;
  return { clock, store, limiter: createLimiter({ policies, store, clock }) };
}

function withFeature(
  feature: StoreFeature,
  name: string,
  test: (world: ReturnType<typeof setUpFeatures>) => Promise<void>,
): ContractCase {
  return {
    name: `${feature}: ${name}`,
    async run(openStore) {
      const store = await openStore();
      try {
        if (store.features?.includes(feature)) await test(setUpFeatures(store));
      } finally {
        await store.close();
      }
    },
  };
}

export const concurrencyContract: readonly ContractCase[] = [
  withFeature('concurrency', 'holds count until their lease ends', async ({ limiter, clock }) => {
    equal('taken', (await limiter.check('held', 'a', { cost: 2 })).remaining, 1);
    clock.advance(400);
    equal('second', (await limiter.check('held', 'a')).remaining, 0);
    const denied = await limiter.check('held', 'a', { cost: 3 });
    equal('denied', [denied.allowed, denied.retryAfterMs, denied.fence], [false, 1000, undefined]);
    clock.advance(599);
    equal('too early', (await limiter.check('held', 'a', { cost: 2 })).allowed, false);
    clock.advance(1);
    equal('in time', (await limiter.check('held', 'a', { cost: 2 })).allowed, true);
  }),

  withFeature('concurrency', 'a hold is released once, and no other', async ({ limiter }) => {
    const first = receiptOf(await limiter.check('held', 'a'));
    await limiter.check('held', 'a');
    equal('released', await limiter.release(first), true);
    equal('again', await limiter.release(JSON.parse(JSON.stringify(first))), false);
    equal('refund', await limiter.refund(first), 0);
    equal('remaining', (await limiter.peek('held', 'a')).remaining, 2);
  }),

  withFeature('concurrency', 'a release after the lease frees nothing', async (world) => {
    const { limiter, clock } = world;
    const old = receiptOf(await limiter.check('held', 'a', { cost: 3 }));
    clock.advance(1000);
    await limiter.check('held', 'a', { cost: 3 });
    equal('released', await limiter.release(old), false);
    equal('renewed', await limiter.renew(old), false);
    equal('remaining', (await limiter.peek('held', 'a')).remaining, 0);
  }),

  withFeature('concurrency', 'renew starts the lease again', async ({ limiter, clock }) => {
    const receipt = receiptOf(await limiter.check('held', 'a', { cost: 2 }));
    for (let renewal = 0; renewal < 3; renewal++) {
      clock.advance(999);
      equal('renewed', await limiter.renew(receipt), true);
    }
    equal('reset', (await limiter.peek('held', 'a')).resetAfterMs, 1000);
    equal('released', await limiter.release(receipt), true);
    equal('renewed', await limiter.renew(receipt), false);
    equal('unused', (await limiter.peek('held', 'a')).resetAfterMs, 0);
  }),

  withFeature('concurrency', 'fences increase strictly', async ({ limiter, clock }) => {
    let last = 0;
    for (const ms of [0, 0, 1, 0, 5000, 0]) {
      clock.advance(ms);
      const decision = await limiter.check('held', 'a');
      if (!(decision.fence! > last)) throw new Error(`expected above ${last}: ${decision.fence}`);
      last = decision.fence!;
      await limiter.release(receiptOf(decision));
    }
  }),

  withFeature('concurrency', 'a check with a window charges all or none', async ({ limiter }) => {
    const both = [
      { policy: 'held', key: 'a' },
      { policy: 'other', key: 'a' },
    ];
    const first = await limiter.check(both);
    equal(
      'fences',
      first.limits.map(({ fence }) => typeof fence),
      ['number', 'undefined'],
    );
    equal('fence', first.fence, first.limits[0].fence);
    await limiter.check('other', 'a');
    equal('denied', (await limiter.check(both)).allowed, false);
    equal('held', (await limiter.peek('held', 'a')).remaining, 2);
    equal('settled', await limiter.settle(receiptOf(first), 2), 1);
    equal('refunded', await limiter.refund(receiptOf(first)), 1);
    equal('free', (await limiter.peek('held', 'a')).remaining, 3);
  }),

  withFeature('concurrency', 'a repeated id has the fence of the first call', async (world) => {
    const { limiter } = world;
    const first = await limiter.check('held', 'a', { id: 'x' });
    equal('fence', (await limiter.check('held', 'a', { id: 'x' })).fence, first.fence);
    equal('held', (await limiter.peek('held', 'a')).remaining, 2);
  }),

  withFeature('concurrency', 'inspect lists the holds with labels', async (world) => {
    const { limiter, clock } = world;
    const { fence } = await limiter.check('held', 'a', { cost: 2, label: 'job 7' });
    clock.advance(10);
    await limiter.check('held', 'a');
    const state = await limiter.inspect('held', 'a');
    equal('used', [state?.algorithm, state?.used, state?.holds?.length], ['concurrency', 3, 2]);
    const hold = { fence, cost: 2, atMs: START_MS, expiresAtMs: START_MS + 1000, label: 'job 7' };
    equal('first', state?.holds?.[0], hold);
  }),

  withFeature('concurrency', 'reset ends all holds of a key', async ({ limiter }) => {
    const old = receiptOf(await limiter.check('held', 'a', { cost: 3 }));
    await limiter.reset('held', 'a');
    equal('fits', (await limiter.check('held', 'a', { cost: 3 })).allowed, true);
    equal('released', await limiter.release(old), false);
    equal('remaining', (await limiter.peek('held', 'a')).remaining, 0);
  }),

  withFeature('concurrency', 'concurrent checks never hold more than the limit', async (world) => {
    const checks = Array.from({ length: 50 }, () => world.limiter.check('held', 'hot'));
    const admitted = (await Promise.all(checks)).filter(({ allowed }) => allowed);
    equal('admitted', admitted.length, 3);
    const released = await Promise.all(
      admitted.map((each) => world.limiter.release(receiptOf(each))),
    );
    equal('released', released, [true, true, true]);
    equal('free', (await world.limiter.peek('held', 'hot')).remaining, 3);
  }),
];

export const blockContract: readonly ContractCase[] = [
  withFeature('block', 'a denial starts a block that retries do not extend', async (world) => {
    const { limiter, clock } = world;
    await limiter.check('blocked', 'a', { cost: 2 });
    const denied = await limiter.check('blocked', 'a');
    equal('denied', [denied.retryAfterMs, denied.blockedUntilMs], [2000, START_MS + 2000]);
    clock.advance(1999);
    const again = await limiter.check('blocked', 'a');
    equal('blocked', [again.allowed, again.remaining, again.retryAfterMs], [false, 0, 1]);
    clock.advance(1);
    equal('ended', (await limiter.check('blocked', 'a')).allowed, true);
  }),

  withFeature('block', 'blocks in a row become longer', async ({ limiter, clock }) => {
    const waits: number[] = [];
    for (const pauseMs of [0, 0, 5000, 5001]) {
      await limiter.check('blocked', 'a', { cost: 2 });
      const { retryAfterMs } = await limiter.check('blocked', 'a');
      waits.push(retryAfterMs);
      clock.advance(retryAfterMs + pauseMs);
    }
    await limiter.check('blocked', 'a', { cost: 2 });
    waits.push((await limiter.check('blocked', 'a')).retryAfterMs);
    equal('waits', waits, [2000, 4000, 6000, 6000, 2000]);
  }),

  withFeature('block', 'only a limit that did not fit is blocked', async ({ limiter }) => {
    const both = [
      { policy: 'blocked', key: 'a' },
      { policy: 'other', key: 'a' },
    ];
    await limiter.check('other', 'a', { cost: 2 });
    equal('denied', (await limiter.check(both)).blockedUntilMs, undefined);
    equal('not blocked', (await limiter.check('blocked', 'a', { cost: 2 })).allowed, true);
    const denied = await limiter.check(both);
    equal('blocked', [denied.policy, denied.retryAfterMs], ['blocked', 2000]);
  }),

  withFeature('block', 'peek starts no block', async ({ limiter }) => {
    await limiter.check('blocked', 'a', { cost: 2 });
    equal('peek', (await limiter.peek('blocked', 'a', { cost: 1 })).retryAfterMs, 1000);
    equal('again', (await limiter.peek('blocked', 'a')).allowed, true);
  }),

  withFeature('block', 'keys are blocked and unblocked by calls', async ({ limiter, clock }) => {
    await limiter.block('blocked', 'a', 500);
    equal('blocked', (await limiter.check('blocked', 'a')).retryAfterMs, 500);
    const state = await limiter.inspect('blocked', 'a');
    equal('state', [state?.blockedUntilMs, state?.remaining], [START_MS + 500, 0]);
    await limiter.unblock('blocked', 'a');
    equal('unblocked', (await limiter.check('blocked', 'a', { cost: 2 })).allowed, true);
    equal('first', (await limiter.check('blocked', 'a')).retryAfterMs, 2000);
    equal('blocks', (await limiter.inspect('blocked', 'a'))?.blocks, 1);
    await limiter.reset('blocked', 'a');
    equal('reset', (await limiter.check('blocked', 'a')).allowed, true);
    clock.advance(1);
  }),
];
