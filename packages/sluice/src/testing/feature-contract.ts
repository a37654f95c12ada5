/** The part of the store contract about concurrency limits and blocks. */
import type { Policies } from '../api.ts';
import { ManualClock } from '../clock.ts';
import { createLimiter } from '../limiter.ts';
import type { Store, StoreFeature } from '../store.ts';
import { type ContractCase, equal, receiptOf, START_MS } from './contract-case.ts';

/** Creates a limiter with a concurrency limit, a window limit, and a window limit with a block. */
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
    equal(
      'remaining with cost 2 held',
      (await limiter.check('held', 'a', { cost: 2 })).remaining,
      1,
    );
    clock.advance(400);
    equal('remaining with cost 3 held', (await limiter.check('held', 'a')).remaining, 0);
    const denied = await limiter.check('held', 'a', { cost: 3 });
    const { allowed, retryAfterMs, fence } = denied;
    equal('the denial of cost 3', [allowed, retryAfterMs, fence], [false, 1000, undefined]);
    clock.advance(599);
    equal('allowed too early', (await limiter.check('held', 'a', { cost: 2 })).allowed, false);
    clock.advance(1);
    equal('allowed in time', (await limiter.check('held', 'a', { cost: 2 })).allowed, true);
  }),

  withFeature('concurrency', 'a hold is released once, and no other', async ({ limiter }) => {
    const first = receiptOf(await limiter.check('held', 'a'));
    await limiter.check('held', 'a');
    equal('the first release', await limiter.release(first), true);
    const copy = JSON.parse(JSON.stringify(first));
    equal('a second release of the receipt', await limiter.release(copy), false);
    equal('a refund of the released receipt', await limiter.refund(first), 0);
    equal('remaining with one hold', (await limiter.peek('held', 'a')).remaining, 2);
  }),

  withFeature('concurrency', 'a release after the lease frees nothing', async (world) => {
    const { limiter, clock } = world;
    const old = receiptOf(await limiter.check('held', 'a', { cost: 3 }));
    clock.advance(1000);
    await limiter.check('held', 'a', { cost: 3 });
    equal('a release of the expired hold', await limiter.release(old), false);
    equal('a renewal of the expired hold', await limiter.renew(old), false);
    equal('remaining with cost 3 held', (await limiter.peek('held', 'a')).remaining, 0);
  }),

  withFeature('concurrency', 'renew starts the lease again', async ({ limiter, clock }) => {
    const receipt = receiptOf(await limiter.check('held', 'a', { cost: 2 }));
    for (let renewal = 0; renewal < 3; renewal++) {
      clock.advance(999);
      equal('a renewal before the lease ends', await limiter.renew(receipt), true);
    }
    const { resetAfterMs } = await limiter.peek('held', 'a');
    equal('resetAfterMs of a renewed hold', resetAfterMs, 1000);
    equal('the release', await limiter.release(receipt), true);
    equal('a renewal after the release', await limiter.renew(receipt), false);
    equal('resetAfterMs without holds', (await limiter.peek('held', 'a')).resetAfterMs, 0);
  }),

  withFeature('concurrency', 'fences increase strictly', async ({ limiter, clock }) => {
    let last = 0;
    for (const ms of [0, 0, 1, 0, 5000, 0]) {
      clock.advance(ms);
      const decision = await limiter.check('held', 'a');
      if (!(decision.fence! > last))
        throw new Error(`expected a fence above ${last}, got ${decision.fence}`);
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
      'types of the fences by limit',
      first.limits.map(({ fence }) => typeof fence),
      ['number', 'undefined'],
    );
    equal('fence of the decision', first.fence, first.limits[0].fence);
    await limiter.check('other', 'a');
    equal('allowed above the window limit', (await limiter.check(both)).allowed, false);
    equal('remaining with one hold', (await limiter.peek('held', 'a')).remaining, 2);
    const receipt = receiptOf(first);
    equal('the change of the window by settle', await limiter.settle(receipt, 2), 1);
    equal('the change of the hold by refund', await limiter.refund(receipt), 1);
    equal('remaining without holds', (await limiter.peek('held', 'a')).remaining, 3);
  }),

  withFeature('concurrency', 'a repeated id has the fence of the first call', async (world) => {
    const { limiter } = world;
    const first = await limiter.check('held', 'a', { id: 'x' });
    const again = await limiter.check('held', 'a', { id: 'x' });
    equal('fence of the retry', again.fence, first.fence);
    equal('remaining with one hold', (await limiter.peek('held', 'a')).remaining, 2);
  }),

  withFeature('concurrency', 'inspect lists the holds with labels', async (world) => {
    const { limiter, clock } = world;
    const { fence } = await limiter.check('held', 'a', { cost: 2, label: 'job 7' });
    clock.advance(10);
    await limiter.check('held', 'a');
    const state = await limiter.inspect('held', 'a');
    const described = [state?.algorithm, state?.used, state?.holds?.length];
    equal('algorithm, used and number of holds', described, ['concurrency', 3, 2]);
    const hold = { fence, cost: 2, atMs: START_MS, expiresAtMs: START_MS + 1000, label: 'job 7' };
    equal('the first hold', state?.holds?.[0], hold);
  }),

  withFeature('concurrency', 'reset ends all holds of a key', async ({ limiter }) => {
    const old = receiptOf(await limiter.check('held', 'a', { cost: 3 }));
    await limiter.reset('held', 'a');
    const { allowed } = await limiter.check('held', 'a', { cost: 3 });
    equal('the whole limit is allowed after the reset', allowed, true);
    equal('a release of a hold from before the reset', await limiter.release(old), false);
    equal('remaining with cost 3 held', (await limiter.peek('held', 'a')).remaining, 0);
  }),

  withFeature('concurrency', 'concurrent checks never hold more than the limit', async (world) => {
    const checks = Array.from({ length: 50 }, () => world.limiter.check('held', 'hot'));
    const admitted = (await Promise.all(checks)).filter(({ allowed }) => allowed);
    equal('the number of admitted checks', admitted.length, 3);
    const released = await Promise.all(
      admitted.map((each) => world.limiter.release(receiptOf(each))),
    );
    equal('releases of the admitted checks', released, [true, true, true]);
    equal('remaining without holds', (await world.limiter.peek('held', 'hot')).remaining, 3);
  }),
];

export const blockContract: readonly ContractCase[] = [
  withFeature('block', 'a denial starts a block that retries do not extend', async (world) => {
    const { limiter, clock } = world;
    await limiter.check('blocked', 'a', { cost: 2 });
    const { retryAfterMs, blockedUntilMs } = await limiter.check('blocked', 'a');
    equal('the first denial', [retryAfterMs, blockedUntilMs], [2000, START_MS + 2000]);
    clock.advance(1999);
    const again = await limiter.check('blocked', 'a');
    const described = [again.allowed, again.remaining, again.retryAfterMs];
    equal('a denial 1 ms before the block ends', described, [false, 0, 1]);
    clock.advance(1);
    equal('allowed after the block', (await limiter.check('blocked', 'a')).allowed, true);
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
    equal('lengths of the blocks', waits, [2000, 4000, 6000, 6000, 2000]);
  }),

  withFeature('block', 'only a limit that lacked capacity is blocked', async ({ limiter }) => {
    const both = [
      { policy: 'blocked', key: 'a' },
      { policy: 'other', key: 'a' },
    ];
    await limiter.check('other', 'a', { cost: 2 });
    equal('block by another limit', (await limiter.check(both)).blockedUntilMs, undefined);
    const { allowed } = await limiter.check('blocked', 'a', { cost: 2 });
    equal('allowed without a block', allowed, true);
    const denied = await limiter.check(both);
    equal('policy and wait of the denial', [denied.policy, denied.retryAfterMs], ['blocked', 2000]);
  }),

  withFeature('block', 'peek starts no block', async ({ limiter }) => {
    await limiter.check('blocked', 'a', { cost: 2 });
    const { retryAfterMs } = await limiter.peek('blocked', 'a', { cost: 1 });
    equal('the wait of a denied peek', retryAfterMs, 1000);
    equal('a peek of cost 0 is allowed', (await limiter.peek('blocked', 'a')).allowed, true);
  }),

  withFeature(
    'block',
    '`block` blocks a key and `unblock` ends the block',
    async ({ limiter, clock }) => {
      await limiter.block('blocked', 'a', 500);
      equal('the wait of a blocked key', (await limiter.check('blocked', 'a')).retryAfterMs, 500);
      const state = await limiter.inspect('blocked', 'a');
      const described = [state?.blockedUntilMs, state?.remaining];
      equal('the inspected block and remaining', described, [START_MS + 500, 0]);
      await limiter.unblock('blocked', 'a');
      const { allowed } = await limiter.check('blocked', 'a', { cost: 2 });
      equal('allowed after `unblock`', allowed, true);
      const { retryAfterMs } = await limiter.check('blocked', 'a');
      equal('length of the first block by a denial', retryAfterMs, 2000);
      equal('number of blocks', (await limiter.inspect('blocked', 'a'))?.blocks, 1);
      await limiter.reset('blocked', 'a');
      equal('allowed after `reset`', (await limiter.check('blocked', 'a')).allowed, true);
      clock.advance(1);
    },
  ),
];
