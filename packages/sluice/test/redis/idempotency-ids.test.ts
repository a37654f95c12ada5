/** A call that is repeated under its id gets the first decision and is charged once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { startFaultProxy } from '../../../../tools/servers/fault-proxy.mjs';
import { createLimiter, type Decision, memoryStore, type Store } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { connect, isFull, newPrefix, silent, useRedis } from './campaign.ts';

expectNoUnhandledRejections();
const world = useRedis();

const CALLS = isFull ? 10_000 : 500;
const CUTS = isFull ? 500 : 20;
const policies = {
  many: '1000000/1h',
  other: { limit: 1_000_000, window: '1h', algorithm: 'token-bucket' },
  few: '3/1h',
  brief: '5/300ms',
} as const;

const copyOf = <T>(value: T): T => JSON.parse(JSON.stringify(value));

interface Opened {
  readonly store: Store;
  /** Loses the reply to the next command, which is executed. */
  lose(): void;
}

function openRedis(): Opened {
  let losesReply = false;
  const store = redisStore(
    async (args, key) => {
      const reply = await world.send(args, key);
      if (!losesReply) return reply;
      losesReply = false;
      throw new Error('Connection is closed.');
    },
    { prefix: newPrefix(), onFailure: 'throw', deadlineMs: 10_000 },
  );
  return {
    store,
    lose() {
      losesReply = true;
    },
  };
}

// The memory store has no replies to lose: the caller ignores the result.
const openMemory = (): Opened => ({ store: memoryStore(), lose() {} });

const stores: [name: string, open: () => Opened][] = [
  ['redis', openRedis],
  ['memory', openMemory],
];

describe.each(stores)('ids in the %s store', (name, open) => {
  function setUp() {
    const { store, lose } = open();
    const limiter = createLimiter({ policies, store });
    const joint = (key: string, id: string): Promise<Decision> =>
      limiter.check(
        [
          { policy: 'many', key, cost: 2 },
          { policy: 'other', key },
        ],
        { id },
      );
    /** Makes a call whose reply is lost. */
    const lost = async (call: () => Promise<Decision>): Promise<void> => {
      lose();
      const result = await call().catch(({ code }) => code);
      if (name === 'redis') expect(result).toBe('ERR_STORE_UNAVAILABLE');
      // A successful call for each failed one, so that the breaker stays closed.
      await limiter.peek('many', 'other key');
    };
    const used = async (policy: 'many' | 'other' | 'few', key: string): Promise<number> =>
      (await limiter.inspect(policy, key))?.used ?? 0;
    return { limiter, joint, lost, used };
  }

  it(`in the ${name} store, ${CALLS} calls with lost replies are charged once each`, async () => {
    const { limiter, lost, used } = setUp();
    for (let call = 0; call < CALLS; call++) {
      const check = () => limiter.check('many', 'a', { id: `${call}` });
      await lost(check);
      const again = await check();
      expect(again).toMatchObject({ allowed: true, cost: 1 });
      if (call % 10 === 0) expect(copyOf(await check())).toEqual(copyOf(again));
    }
    expect(await used('many', 'a')).toBe(CALLS);
  });

  it(`in the ${name} store, ${CALLS} repeated calls of two limits are charged once`, async () => {
    const { joint, lost, used } = setUp();
    const before = Date.now();
    for (let call = 0; call < CALLS; call++) {
      await lost(() => joint('a', `${call}`));
      const again = await joint('a', `${call}`);
      expect(again.limits.map(({ allowed, cost }) => [allowed, cost])).toEqual([
        [true, 2],
        [true, 1],
      ]);
    }
    expect(await used('many', 'a')).toBe(2 * CALLS);
    const spent = await used('other', 'a');
    // Meanwhile, the token bucket refills one token every 3.6 ms.
    const gained = Math.ceil((Date.now() - before) / 3.6) + 1;
    expect(spent).toBeLessThanOrEqual(CALLS);
    expect(spent).toBeGreaterThanOrEqual(CALLS - gained);
  });

  it(`in the ${name} store, a call repeated under its id gets the first decision`, async () => {
    const { limiter, joint } = setUp();
    const check = () => limiter.check('many', 'a', { id: 'x', cost: 3 });
    const first = [await check(), await joint('b', 'y')];
    await sleep(5);
    await limiter.check('many', 'a', { cost: 7 });
    await limiter.check('many', 'b', { cost: 7 });
    const again = [await check(), await joint('b', 'y')];
    expect(copyOf(again)).toEqual(copyOf(first));
  });

  it(`in the ${name} store, the receipt of a repeated call refunds the first charge`, async () => {
    const { limiter, lost, used } = setUp();
    const check = () => limiter.check('many', 'a', { id: 'x', cost: 3 });
    await lost(check);
    const { receipt } = await check();
    expect(await limiter.refund(receipt!)).toBe(3);
    expect(await used('many', 'a')).toBe(0);
  });

  it(`in the ${name} store, concurrent calls under one id are charged once`, async () => {
    const { limiter, joint, used } = setUp();
    const calls = Array.from({ length: 100 }, () => limiter.check('many', 'a', { id: 'x' }));
    const [first, ...others] = (await Promise.all(calls)).map(copyOf);
    for (const other of others) expect(other).toEqual(first);
    await Promise.all(Array.from({ length: 100 }, () => joint('b', 'x')));
    expect([await used('many', 'a'), await used('many', 'b')]).toEqual([1, 2]);
  });

  it(`in the ${name} store, a denied call repeated under its id is decided again`, async () => {
    const { limiter, used } = setUp();
    const { receipt } = await limiter.check('few', 'a', { cost: 2 });
    const check = () => limiter.check('few', 'a', { id: 'x', cost: 2 });
    expect((await check()).allowed).toBe(false);
    expect((await check()).allowed).toBe(false);
    await limiter.refund(receipt!);
    expect((await check()).allowed).toBe(true);
    expect((await check()).allowed).toBe(true);
    expect(await used('few', 'a')).toBe(2);
  });

  it(`in the ${name} store, a denied call of two limits is decided again if repeated`, async () => {
    const { limiter, used } = setUp();
    const { receipt } = await limiter.check('few', 'a', { cost: 3 });
    const limits = [
      { policy: 'many', key: 'a' },
      { policy: 'few', key: 'a' },
    ] as const;
    expect((await limiter.check(limits, { id: 'x' })).allowed).toBe(false);
    await limiter.refund(receipt!);
    expect((await limiter.check(limits, { id: 'x' })).allowed).toBe(true);
    expect((await limiter.check(limits, { id: 'x' })).allowed).toBe(true);
    expect([await used('many', 'a'), await used('few', 'a')]).toEqual([1, 1]);
  });

  it(`in the ${name} store, equal ids of different keys and policies do not collide`, async () => {
    const { limiter, used } = setUp();
    const keys = ['a', 'b', 'a=x', 'a:x', 'a%', '{a}', 'a}', '\ud800', '\ud801'];
    const ids = ['x', 'y', '=x', 'x:', ':', '%', '%003a', '{x}', '\ud800', '\ud801', 'l1h'];
    for (const key of keys) {
      for (const id of ids) {
        expect((await limiter.check('many', key, { id })).allowed).toBe(true);
        await limiter.check('other', key, { id });
      }
    }
    for (const key of keys) expect(await used('many', key)).toBe(ids.length);
  });

  it(`in the ${name} store, an id expires after one window`, async () => {
    const { limiter } = setUp();
    const check = () => limiter.check('brief', 'a', { id: 'x' });
    const first = await check();
    const again = await check();
    // If the machine was blocked for a window, the id has expired.
    if (Date.now() - first.atMs < 300) expect(again.atMs).toBe(first.atMs);
    await sleep(350);
    const later = await check();
    expect(later.allowed).toBe(true);
    expect(later.atMs).toBeGreaterThan(first.atMs);
  });
});

it('in Redis, the id records of a check expire after the longest window of the check', async () => {
  const prefix = newPrefix();
  const store = redisStore(world.send, { prefix, onFailure: 'throw', deadlineMs: 10_000 });
  const limiter = createLimiter({ policies, store });
  await limiter.check('many', 'a', { id: 'one' });
  await limiter.check(
    [
      { policy: 'brief', key: 'a' },
      { policy: 'few', key: 'b' },
    ],
    { id: 'two' },
  );
  const names = await world.client.keys(`${prefix}*=`);
  expect(names.sort()).toEqual([
    `${prefix}{a}briefL300ms=`,
    `${prefix}{a}manyL1h=`,
    `${prefix}{b}fewL1h=`,
  ]);
  for (const name of names) {
    const leftMs = await world.client.pttl(name);
    expect(leftMs).toBeGreaterThan(3_600_000 - 60_000);
    expect(leftMs).toBeLessThanOrEqual(3_600_000);
  }
  for (const name of await world.client.keys(`${prefix}*`)) {
    expect(await world.client.pttl(name)).toBeGreaterThan(0);
  }
});

it(`${CUTS} calls whose connection closes before the reply are charged once each`, async () => {
  const proxy = await startFaultProxy({ port: world.server.port });
  const client = await connect(proxy.port);
  const store = redisStore(client, {
    ...silent,
    prefix: newPrefix(),
    onFailure: 'deny',
    // The client does not report commands of a lost connection.
    deadlineMs: 40,
  });
  const limiter = createLimiter({ policies, store });
  await limiter.check('many', 'a', { id: 'first' });
  for (let cut = 1; cut < CUTS; cut++) {
    const check = () => limiter.check('many', 'a', { id: `${cut}` });
    let drops = 0;
    proxy.onReply(() => (drops++ === 0 ? null : undefined));
    expect((await check()).degraded!.action).toBe('deny');
    await vi.waitUntil(async () => (await check()).allowed, { timeout: 20_000, interval: 30 });
    for (let good = 0; good < 3; good++) await check();
  }
  proxy.heal();
  expect((await limiter.inspect('many', 'a'))!.used).toBe(CUTS);
  client.disconnect();
  await proxy.stop();
});

describe('id records in Redis', () => {
  const setUp = () => {
    const options = { prefix: newPrefix(), onFailure: 'throw', deadlineMs: 10_000 } as const;
    const limiterOf = (algorithm: 'sliding-log' | 'fixed-window', window: string) =>
      createLimiter({
        policies: { p: { limit: 100, window, algorithm }, q: '100/1h' },
        store: redisStore(world.send, options),
      });
    return { limiterOf, limiter: limiterOf('sliding-log', '1h') };
  };
  const joint = (cost: number) =>
    [
      { policy: 'p', key: 'a', cost },
      { policy: 'q', key: 'a' },
    ] as const;

  it('different calls with the same id do not replace the first decision', async () => {
    const { limiter, limiterOf } = setUp();
    const first = await limiter.check('p', 'a', { id: 'x' });
    await limiter.check('p', 'a', { id: 'x', cost: 2 });
    await limiter.check(joint(1), { id: 'x' });
    await limiterOf('fixed-window', '1h').check('p', 'a', { id: 'x' });
    await limiterOf('sliding-log', '2h').check('p', 'a', { id: 'x' });
    expect(copyOf(await limiter.check('p', 'a', { id: 'x' }))).toEqual(copyOf(first));
  });

  it.each(['p', 'q'] as const)(
    'after a reset of policy %s, a check repeated under its id is charged again',
    async (policy) => {
      const { limiter } = setUp();
      await limiter.check(joint(3), { id: 'x' });
      await limiter.reset(policy, 'a');
      await limiter.check(joint(3), { id: 'x' });
      const used = await Promise.all([limiter.inspect('p', 'a'), limiter.inspect('q', 'a')]);
      expect(used.map((state) => state!.used)).toEqual(policy === 'p' ? [3, 2] : [6, 1]);
    },
  );
});
