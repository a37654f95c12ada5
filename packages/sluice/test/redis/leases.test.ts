/** Borrowed units on real Redis: admission without a command, reports, refunds, failures. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createLimiter, type Decision, type Limiter } from '../../src/index.ts';
import type { RedisStoreOptions } from '../../src/stores/redis/create-store.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { newPrefix, silent, useRedis } from './campaign.ts';

const world = useRedis();

/** Leases of these policies last up to 600 ms. */
const POLICIES = {
  hot: { limit: 10_000, window: '20s', lease: true },
  other: { limit: 1000, window: '20s', lease: { maxShare: 0.1 } },
  buckets: { limit: 10_000, window: '20s', algorithm: 'sliding-buckets', lease: true },
  plain: { limit: 10_000, window: '20s' },
  small: { limit: 40, window: '20s', lease: true },
  long: { limit: 10_000, window: '5m', lease: true },
} as const;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()));
});

function open(options: RedisStoreOptions = {}, send: Send = world.send) {
  const { prefix = newPrefix() } = options;
  let commands = 0;
  const counting: Send = (args, key) => {
    commands++;
    return send(args, key);
  };
  const leases = { maxMs: 600 };
  const rest = { onFailure: 'throw', deadlineMs: 10_000 } as const;
  const store = redisStore(counting, { ...silent, ...rest, leases, ...options, prefix });
  opened.push(store);
  const limiter = createLimiter({ policies: POLICIES, store });
  return { prefix, store, limiter, commands: () => commands };
}

type Checks = Pick<Limiter<typeof POLICIES>, 'check'>;

/** Checks until a decision is leased. Returns all decisions. */
async function warmUp(
  limiter: Checks,
  policy: keyof typeof POLICIES = 'hot',
  key = 'k',
): Promise<Decision[]> {
  const decisions: Decision[] = [];
  for (let count = 0; count < 2000; count++) {
    const decision = await limiter.check(policy, key);
    decisions.push(decision);
    if (decision.leased) return decisions;
  }
  throw new Error('no decision was leased');
}

/** Waits until the store reports `used` units and no leases. */
async function settled(limiter: Limiter<typeof POLICIES>, policy: keyof typeof POLICIES = 'hot') {
  for (;;) {
    const state = await limiter.inspect(policy, 'k');
    if (state?.leases === undefined) return state?.used ?? 0;
    await sleep(20);
  }
}

const admitted = (decisions: readonly Decision[]): number =>
  decisions.filter(({ allowed }) => allowed).length;

describe('leases', () => {
  it.each(['hot', 'buckets'] as const)(
    'frequent keys of %s are decided without commands',
    async (policy) => {
      const { limiter, commands } = open();
      const decisions = await warmUp(limiter, policy);
      const before = commands();
      for (let count = 0; count < 20; count++) decisions.push(await limiter.check(policy, 'k'));
      expect(decisions.slice(-20).every(({ leased }) => leased === true)).toBe(true);
      // At most a renewal.
      expect(commands() - before).toBeLessThanOrEqual(2);
    },
  );

  it('a rare key has no lease, and uses single decisions', async () => {
    const { limiter } = open();
    const decisions: Decision[] = [];
    for (let count = 0; count < 5; count++) decisions.push(await limiter.check('hot', 'k'));
    expect(decisions.some(({ leased }) => leased)).toBe(false);
    expect(await limiter.inspect('hot', 'k')).toMatchObject({ used: 5 });
  });

  it('a leased decision has lower bounds, and its receipt names the lease', async () => {
    const { limiter } = open();
    const last = (await warmUp(limiter)).at(-1)!;
    const { leases = [] } = (await limiter.inspect('hot', 'k'))!;
    expect(last).toMatchObject({ allowed: true, leased: true, lease: leases[0].id });
    expect(last.receipt?.charges[0]).toMatchObject({ lease: leases[0].id, cost: 1 });
    expect(last.remaining).toBeLessThanOrEqual(leases[0].units);
    expect(last.resetAfterMs).toBeGreaterThan(20_000);
    expect(last.retryAfterMs).toBe(0);
  });

  it('without the option of the store, nothing is borrowed', async () => {
    const { prefix, limiter } = open();
    await warmUp(limiter);
    const other = createLimiter({
      policies: POLICIES,
      store: redisStore(world.send, { ...silent, prefix, onFailure: 'throw', deadlineMs: 10_000 }),
    });
    for (let count = 0; count < 100; count++) {
      expect((await other.check('hot', 'k')).leased).toBeUndefined();
    }
    // The lease of the first process may have ended meanwhile.
    const { leases = [] } = (await other.inspect('hot', 'k'))!;
    expect(leases.length).toBeLessThanOrEqual(1);
  });

  it('a policy without the option is decided by its fast script, and has no records', async () => {
    const { prefix, limiter } = open();
    for (let count = 0; count < 100; count++) await limiter.check('plain', 'k');
    expect(await world.client.keys(`${prefix}*`)).toEqual([`${prefix}{k}plainL20s`]);
  });

  it('lent units count in the decisions of all processes', async () => {
    const { prefix, limiter } = open();
    const decisions = await warmUp(limiter, 'small');
    const { leases = [], used, remaining } = (await limiter.inspect('small', 'k'))!;
    expect(leases[0].units).toBeGreaterThan(0);
    expect(used + remaining).toBe(40);
    const other = open({ prefix, leases: undefined }).limiter;
    const rest = await Promise.all(Array.from({ length: 50 }, () => other.check('small', 'k')));
    expect(admitted(decisions) + admitted(rest)).toBeLessThanOrEqual(40);
    const { retryAfterMs } = rest.find(({ allowed }) => !allowed)!;
    expect(retryAfterMs).toBeGreaterThan(0);
    const counted = await settled(limiter, 'small');
    expect(counted).toBeGreaterThanOrEqual(admitted(decisions) + admitted(rest));
    expect(counted).toBeLessThanOrEqual(40);
  });

  it('an unused lease is returned before it ends, and counts only what was spent', async () => {
    // Long leases, so that a busy machine returns it in time.
    const { limiter } = open({ leases: { maxMs: 3000 } });
    const decisions = await warmUp(limiter, 'long');
    expect(await settled(limiter, 'long')).toBe(decisions.length);
  });

  it('close returns all units', async () => {
    const { prefix, limiter, store } = open();
    const decisions = await warmUp(limiter);
    await store.close();
    const other = open({ prefix }).limiter;
    const state = await other.inspect('hot', 'k');
    expect(state?.used).toBe(decisions.length);
    expect(state?.leases).toBeUndefined();
  });

  it('units of a dead process count until one window after the end of its lease', async () => {
    let isDead = false;
    const dying: Send = (args, key) => (isDead ? new Promise(() => {}) : world.send(args, key));
    const { prefix, limiter } = open({}, dying);
    const decisions = await warmUp(limiter);
    isDead = true;
    const other = open({ prefix }).limiter;
    const { leases = [] } = (await other.inspect('hot', 'k'))!;
    const state = async () => (await other.inspect('hot', 'k'))!;
    while ((await state()).leases !== undefined) await sleep(20);
    // The units that were lent but not spent count too: the store cannot know.
    const { used, entries } = await state();
    expect(used).toBeGreaterThanOrEqual(decisions.length);
    await other.check('hot', 'k');
    const [end] = leases.map(({ endsAtMs }) => endsAtMs);
    expect((await state()).entries.map(({ atMs }) => atMs)).toContain(end);
    expect(entries.at(-1)).toMatchObject({ atMs: end, cost: leases[0].units });
  });

  it('a call that costs more than the units left is decided by the store', async () => {
    const { limiter } = open();
    await warmUp(limiter);
    const large = await limiter.check('hot', 'k', { cost: 5000 });
    expect(large).toMatchObject({ allowed: true });
    expect(large.leased).toBeUndefined();
  });

  it('peeks and calls with an id are decided by the store', async () => {
    const { limiter } = open();
    await warmUp(limiter);
    expect((await limiter.peek('hot', 'k')).leased).toBeUndefined();
    const first = await limiter.check('hot', 'k', { id: 'a' });
    expect(first.leased).toBeUndefined();
    expect(await limiter.check('hot', 'k', { id: 'a' })).toMatchObject({ atMs: first.atMs });
  });

  it('several limits are decided locally only if all of them are leased', async () => {
    const { limiter } = open();
    const both = [
      { policy: 'hot', key: 'k' },
      { policy: 'other', key: 'k' },
    ] as const;
    let joint: Decision | undefined;
    for (let count = 0; count < 1000 && !joint?.leased; count++) joint = await limiter.check(both);
    expect(joint).toMatchObject({ allowed: true, leased: true });
    expect(joint?.receipt?.charges.every(({ lease }) => lease !== undefined)).toBe(true);
    const mixed = await limiter.check([both[0], { policy: 'plain', key: 'k' }]);
    expect(mixed).toMatchObject({ allowed: true });
    expect(mixed.leased).toBeUndefined();
  });

  it('no window exceeds the limit when two processes compete for a small limit', async () => {
    const { prefix, limiter } = open();
    const { limiter: other } = open({ prefix });
    let count = 0;
    for (let round = 0; round < 200; round++) {
      count += admitted(
        await Promise.all([
          ...[limiter, limiter].map((each) => each.check('small', 'k')),
          ...[other, other].map((each) => each.check('small', 'k')),
        ]),
      );
    }
    expect(count).toBeLessThanOrEqual(40);
    // All of it can be used: units that one process returns, another one gets.
    while (count < 40) {
      count += admitted([await limiter.check('small', 'k'), await other.check('small', 'k')]);
      await sleep(5);
    }
    expect(count).toBe(40);
  });
});

describe('adjustments of leased charges', () => {
  it('a refund returns the cost once, before and after the report', async () => {
    const { limiter } = open();
    const first = (await warmUp(limiter)).at(-1)!;
    const count = (await limiter.inspect('hot', 'k'))!.used;
    expect(await limiter.refund(first.receipt!)).toBe(1);
    expect(await limiter.refund(first.receipt!)).toBe(0);
    expect((await limiter.inspect('hot', 'k'))!.used).toBe(count - 1);
    const second = await limiter.check('hot', 'k');
    const used = await settled(limiter);
    expect(await limiter.refund(second.receipt!)).toBe(1);
    expect((await limiter.inspect('hot', 'k'))!.used).toBe(used - 1);
  });

  it('a receipt can be refunded by another process', async () => {
    const { prefix, limiter } = open();
    const { receipt } = (await warmUp(limiter)).at(-1)!;
    const { limiter: other } = open({ prefix });
    expect(await other.refund(JSON.parse(JSON.stringify(receipt)))).toBe(1);
  });

  it('settle charges the difference, or refunds it', async () => {
    const { limiter } = open();
    await warmUp(limiter);
    const before = (await limiter.inspect('hot', 'k'))!.used;
    const more = await limiter.check('hot', 'k');
    expect(more.leased).toBe(true);
    expect(await limiter.settle(more.receipt!, 5)).toBe(4);
    expect((await limiter.inspect('hot', 'k'))!.used).toBe(before + 4);
    const less = await limiter.check('hot', 'k', { cost: 3 });
    expect(await limiter.settle(less.receipt!, 1)).toBe(-2);
  });

  it('a reset deletes the charges, but not the units that are lent', async () => {
    const { limiter } = open();
    await warmUp(limiter);
    const { leases = [] } = (await limiter.inspect('hot', 'k'))!;
    await limiter.reset('hot', 'k');
    const after = (await limiter.inspect('hot', 'k'))!;
    expect(after.leases?.map(({ id }) => id)).toEqual(leases.map(({ id }) => id));
    expect(after.used).toBe(after.leases?.reduce((sum, { units }) => sum + units, 0));
    expect(after.entryCount).toBe(0);
  });
});

describe('leases and failures', () => {
  it('borrowed units are spent without the store, then the action applies', async () => {
    let isDown = false;
    const failing: Send = async (args, key) => {
      if (isDown) throw new Error('connection lost');
      return world.send(args, key);
    };
    const { limiter } = open({ onFailure: 'deny', deadlineMs: 50 }, failing);
    await warmUp(limiter);
    isDown = true;
    const decisions: Decision[] = [];
    while (decisions.at(-1)?.degraded === undefined)
      decisions.push(await limiter.check('hot', 'k'));
    expect(decisions.length).toBeGreaterThan(1);
    expect(decisions.slice(0, -1).every(({ leased }) => leased === true)).toBe(true);
    expect(decisions.at(-1)).toMatchObject({ allowed: false, degraded: { action: 'deny' } });
  });

  it('a lost reply to a request does not lose or double what was spent', async () => {
    let isLost = false;
    const losing: Send = async (args, key) => {
      const reply = await world.send(args, key);
      return isLost ? new Promise(() => {}) : reply;
    };
    const { prefix, limiter, store } = open({ deadlineMs: 100 }, losing);
    const decisions = await warmUp(limiter);
    isLost = true;
    for (let count = 0; count < 5; count++) {
      // If the lease is spent, a call waits for a reply that is lost.
      const decision = await limiter.check('hot', 'k').catch(() => undefined);
      if (decision?.leased) decisions.push(decision);
    }
    isLost = false;
    await store.close();
    const { limiter: other } = open({ prefix });
    const used = await settled(other);
    expect(used).toBeGreaterThanOrEqual(decisions.length);
  });

  it('a flush of the scripts does not stop borrowing', async () => {
    const { limiter } = open();
    await warmUp(limiter);
    await world.client.script('FLUSH');
    const decisions = await warmUp(limiter, 'hot', 'other');
    expect(decisions.at(-1)?.leased).toBe(true);
  });

  it('damaged leases fail only their own key', async () => {
    const { prefix, limiter } = open();
    await limiter.check('hot', 'k');
    await world.client.hset(`${prefix}{k}hotL20s=`, 'l', 'damaged');
    await expect(limiter.check('hot', 'k')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    expect(await limiter.check('hot', 'other')).toMatchObject({ allowed: true });
  });
});
