/** A call that is repeated under its id is answered again, and charged once, whatever was lost. */
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
  /** What is sent next is done, and its answer lost on the way. */
  lose(): void;
}

function openRedis(): Opened {
  let isLosing = false;
  const store = redisStore(
    async (args, key) => {
      const reply = await world.send(args, key);
      if (!isLosing) return reply;
      isLosing = false;
      throw new Error('Connection is closed.');
    },
    { prefix: newPrefix(), onFailure: 'throw', deadlineMs: 10_000 },
  );
  return {
    store,
    lose() {
      isLosing = true;
    },
  };
}

// Nothing is lost on the way to this process's memory: the caller just does not listen.
const openMemory = (): Opened => ({ store: memoryStore(), lose() {} });

const stores: [name: string, open: () => Opened][] = [
  ['redis', openRedis],
  ['memory', openMemory],
];

describe.each(stores)('with the store in %s', (name, open) => {
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
    /** Asks without ever hearing the answer. */
    const lost = async (ask: () => Promise<Decision>): Promise<void> => {
      lose();
      const heard = await ask().catch(({ code }) => code);
      if (name === 'redis') expect(heard).toBe('ERR_STORE_UNAVAILABLE');
      // One good call for each bad one and its repetition, so that the store goes on being asked.
      await limiter.peek('many', 'nobody');
    };
    const used = async (policy: 'many' | 'other' | 'few', key: string): Promise<number> =>
      (await limiter.inspect(policy, key))?.used ?? 0;
    return { limiter, joint, lost, used };
  }

  it(`of ${CALLS} calls whose answers were lost none is charged twice`, async () => {
    const { limiter, lost, used } = setUp();
    for (let call = 0; call < CALLS; call++) {
      const ask = () => limiter.check('many', 'a', { id: `${call}` });
      await lost(ask);
      const again = await ask();
      expect(again).toMatchObject({ allowed: true, cost: 1 });
      if (call % 10 === 0) expect(copyOf(await ask())).toEqual(copyOf(again));
    }
    expect(await used('many', 'a')).toBe(CALLS);
  });

  it(`of ${CALLS} joint calls whose answers were lost none is charged twice`, async () => {
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
    // A token bucket gains tokens meanwhile, one in 3.6 ms, until the answer has come.
    const gained = Math.ceil((Date.now() - before) / 3.6) + 1;
    expect(spent).toBeLessThanOrEqual(CALLS);
    expect(spent).toBeGreaterThanOrEqual(CALLS - gained);
  });

  it('the repeated answer is the first one, whatever has happened since then', async () => {
    const { limiter, joint } = setUp();
    const ask = () => limiter.check('many', 'a', { id: 'x', cost: 3 });
    const first = [await ask(), await joint('b', 'y')];
    await sleep(5);
    await limiter.check('many', 'a', { cost: 7 });
    await limiter.check('many', 'b', { cost: 7 });
    const again = [await ask(), await joint('b', 'y')];
    expect(copyOf(again)).toEqual(copyOf(first));
  });

  it('the repeated answer can be given back', async () => {
    const { limiter, lost, used } = setUp();
    const ask = () => limiter.check('many', 'a', { id: 'x', cost: 3 });
    await lost(ask);
    const { receipt } = await ask();
    expect(await limiter.refund(receipt!)).toBe(3);
    expect(await used('many', 'a')).toBe(0);
  });

  it('calls under one id at the same time are one call', async () => {
    const { limiter, joint, used } = setUp();
    const asks = Array.from({ length: 100 }, () => limiter.check('many', 'a', { id: 'x' }));
    const [first, ...others] = (await Promise.all(asks)).map(copyOf);
    for (const other of others) expect(other).toEqual(first);
    await Promise.all(Array.from({ length: 100 }, () => joint('b', 'x')));
    expect([await used('many', 'a'), await used('many', 'b')]).toEqual([1, 2]);
  });

  it('an id that was denied is decided anew', async () => {
    const { limiter, used } = setUp();
    const { receipt } = await limiter.check('few', 'a', { cost: 2 });
    const ask = () => limiter.check('few', 'a', { id: 'x', cost: 2 });
    expect((await ask()).allowed).toBe(false);
    expect((await ask()).allowed).toBe(false);
    await limiter.refund(receipt!);
    expect((await ask()).allowed).toBe(true);
    expect((await ask()).allowed).toBe(true);
    expect(await used('few', 'a')).toBe(2);
  });

  it('a joint call that was denied is decided anew', async () => {
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

  it('ids of different keys, policies and spellings do not meet', async () => {
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

  it('is forgotten when the window is over, and not before', async () => {
    const { limiter } = setUp();
    const ask = () => limiter.check('brief', 'a', { id: 'x' });
    const first = await ask();
    const again = await ask();
    // On a machine that stood still for a window it would be right to have forgotten.
    if (Date.now() - first.atMs < 300) expect(again.atMs).toBe(first.atMs);
    await sleep(350);
    const anew = await ask();
    expect(anew.allowed).toBe(true);
    expect(anew.atMs).toBeGreaterThan(first.atMs);
  });
});

it('in Redis nothing is remembered for longer than the longest window of the call', async () => {
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

it(`${CUTS} connections cut between question and answer charge nothing twice`, async () => {
  const proxy = await startFaultProxy({ port: world.server.port });
  const client = await connect(proxy.port);
  const store = redisStore(client, {
    ...silent,
    prefix: newPrefix(),
    onFailure: 'deny',
    // The client never tells what became of a command whose connection was lost.
    deadlineMs: 40,
  });
  const limiter = createLimiter({ policies, store });
  await limiter.check('many', 'a', { id: 'first' });
  for (let cut = 1; cut < CUTS; cut++) {
    const ask = () => limiter.check('many', 'a', { id: `${cut}` });
    let drops = 0;
    proxy.onReply(() => (drops++ === 0 ? null : undefined));
    expect((await ask()).degraded!.action).toBe('deny');
    await vi.waitUntil(async () => (await ask()).allowed, { timeout: 20_000, interval: 30 });
    for (let good = 0; good < 3; good++) await ask();
  }
  proxy.heal();
  expect((await limiter.inspect('many', 'a'))!.used).toBe(CUTS);
  client.disconnect();
  await proxy.stop();
});

describe('ids in Redis', () => {
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

  it('survive other calls under the same id', async () => {
    const { limiter, limiterOf } = setUp();
    const first = await limiter.check('p', 'a', { id: 'x' });
    await limiter.check('p', 'a', { id: 'x', cost: 2 });
    await limiter.check(joint(1), { id: 'x' });
    await limiterOf('fixed-window', '1h').check('p', 'a', { id: 'x' });
    await limiterOf('sliding-log', '2h').check('p', 'a', { id: 'x' });
    expect(copyOf(await limiter.check('p', 'a', { id: 'x' }))).toEqual(copyOf(first));
  });

  it.each(['p', 'q'] as const)('are new after a reset of %s', async (policy) => {
    const { limiter } = setUp();
    await limiter.check(joint(3), { id: 'x' });
    await limiter.reset(policy, 'a');
    await limiter.check(joint(3), { id: 'x' });
    const used = await Promise.all([limiter.inspect('p', 'a'), limiter.inspect('q', 'a')]);
    expect(used.map((state) => state!.used)).toEqual(policy === 'p' ? [3, 2] : [6, 1]);
  });
});
