/** The breaker counts failed commands of the store. It ignores errors of callers. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter, definePolicy } from '../../src/index.ts';
import type { Check } from '../../src/store.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';
import { fakeStore, pass, useFakeTime } from './fake-store.ts';

expectNoUnhandledRejections();
beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

type Reply = (args: readonly string[]) => unknown;

/** Replies to checks like a server that admits all of them. */
const admits: Reply = (args) => {
  const count = Number(args[2]);
  return [Date.now(), ...Array.from({ length: count }, () => [0, 4, 60_000]).flat()];
};
const lost: Reply = () => new Promise(() => {});
const failing: Reply = () => Promise.reject(new Error('Connection is closed.'));

function setUp(first: Reply) {
  const world = { reply: first, commands: 0 };
  const send: Send = async (args) => {
    world.commands++;
    return world.reply(args);
  };
  const store = redisStore(send, { onFailure: 'deny', deadlineMs: 20, denyCache: false });
  const limiter = createLimiter({ policies: { p: '5/1m' }, store });
  /** Nine checks in two commands: one check that is sent at once, and eight that follow it. */
  const nine = async (): Promise<(string | undefined)[]> => {
    const pending = Array.from({ length: 9 }, (_, key) => limiter.check('p', `${key}`));
    // Until no reply to the second command is expected either, which was sent some ms later.
    await pass(25);
    return (await Promise.all(pending)).map(({ degraded }) => degraded?.reason);
  };
  return { world, store, limiter, nine };
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe('one command with eight checks', () => {
  it.each([
    ['is lost', lost, 'timeout'],
    ['fails', failing, 'error'],
    ['has a reply that is no list', () => 'OK', 'error'],
    ['has a reply without decisions', () => [Date.now()], 'error'],
    ['has no promise for a reply', () => undefined, 'error'],
  ])('a command with eight checks that %s counts as one failure', async (_how, reply, reason) => {
    const { store, world, nine } = setUp(reply);
    for (let commands = 2; commands <= 4; commands += 2) {
      expect(await nine()).toEqual(times(9, reason));
      expect([world.commands, store.breaker]).toEqual([commands, 'closed']);
    }
    expect(await nine()).toEqual(times(9, reason));
    expect([world.commands, store.breaker]).toEqual([6, 'open']);
  });

  it('a successful command counts as one success, regardless of the number of checks', async () => {
    const { store, world, nine } = setUp(admits);
    // With one success per check, ten failures could not be half of the last twenty.
    for (let commands = 0; commands < 10; commands += 2) {
      world.reply = admits;
      await nine();
      expect(store.breaker).toBe('closed');
      world.reply = failing;
      await nine();
    }
    expect(store.breaker).toBe('open');
  });

  it('a command with a truncated reply counts as one failure', async () => {
    const { store, nine } = setUp((args) => (admits(args) as unknown[]).slice(0, -2));
    for (let commands = 1; commands <= 5; commands += 2) {
      expect(store.breaker).toBe('closed');
      expect((await nine()).at(-1)).toBe('error');
    }
    expect(store.breaker).toBe('open');
  });
});

describe('one lost command', () => {
  const { policy, params } = (() => {
    const defined = definePolicy('p', '5/1m');
    return { policy: defined, params: defined.params! };
  })();

  it.each(['adjust', 'reset', 'inspect'] as const)(
    'eight lost calls of %s in two commands count as two failures',
    async (method) => {
      const { store, world } = setUp(lost);
      const charge = { policy: 'p', key: 'a', cost: 1, atMs: Date.now() };
      const call = {
        adjust: () => store.adjust([{ policy, params, charge, delta: -1 }]),
        reset: () => store.reset(policy, 'a'),
        inspect: () => store.inspect!(policy, params, 'a'),
      }[method];
      const pending = Promise.allSettled(Array.from({ length: 8 }, () => call()));
      await pass(20);
      for (const { status } of await pending) expect(status).toBe('rejected');
      expect([world.commands, store.breaker]).toEqual([2, 'closed']);
    },
  );
});

it('if a store does not report commands, the breaker counts each call', async () => {
  const store = withFailurePolicy(fakeStore('silent'), { onFailure: 'deny', deadlineMs: 20 });
  const limiter = createLimiter({ policies: { p: '5/1m' }, store });
  const pending = Array.from({ length: 4 }, () => limiter.check('p', 'a'));
  await pass(20);
  await Promise.all(pending);
  expect(store.breaker).toBe('closed');
  const fifth = limiter.check('p', 'a');
  await pass(20);
  await fifth;
  expect(store.breaker).toBe('open');
});

describe('an error of a caller', () => {
  const policy = definePolicy('p', '5/1m');
  const checkOf = (change: object = {}, limit: object = {}): Check => ({
    limits: [{ policy, params: policy.params!, key: 'a', cost: 1, ...limit }],
    peek: false,
    ...change,
  });
  const wrong: [what: string, check: Check][] = [
    ['an array as id', checkOf({ id: ['x'] })],
    ['a number as id', checkOf({ id: 7 })],
    ['an object as id', checkOf({ id: {} })],
    ['a symbol as key', checkOf({}, { key: Symbol('key') })],
    ['a symbol as cost', checkOf({}, { cost: Symbol('cost') })],
    ['no limit parameters', checkOf({}, { params: undefined })],
    ['no limits', checkOf({ limits: [] })],
    ['a cost that throws', checkOf({}, { cost: { toString: () => expect.fail('thrown') } })],
  ];

  it.each(wrong)(
    'a check with %s rejects and affects neither other checks nor the breaker',
    async (_what, check) => {
      const { store, limiter } = setUp(admits);
      for (let time = 0; time < 30; time++) {
        const bad = store.decide([check]).then(
          () => 'decided',
          (error) => (error.code === 'ERR_STORE_UNAVAILABLE' ? 'unavailable' : 'rejected'),
        );
        const good = Promise.all([limiter.check('p', 'b'), limiter.check('p', 'c')]);
        await turn();
        expect(await bad).toBe('rejected');
        for (const decision of await good) expect(decision.degraded).toBe(undefined);
        expect(store.breaker).toBe('closed');
      }
    },
  );

  it('the limiter rejects an array as id with an error code', async () => {
    const { store, limiter, world } = setUp(admits);
    for (let time = 0; time < 10; time++) {
      const id = ['a', 'b'] as unknown as string;
      await expect(limiter.check('p', 'a', { id })).rejects.toMatchObject({
        code: 'ERR_INVALID_KEY',
      });
    }
    expect([world.commands, store.breaker]).toEqual([0, 'closed']);
  });

  it('an error thrown before a command is sent does not count as a failure', async () => {
    const store = withFailurePolicy(fakeStore('throw'), { onFailure: 'deny', deadlineMs: 20 });
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    for (let time = 0; time < 30; time++) {
      expect((await limiter.check('p', 'a')).degraded!.reason).toBe('error');
      await expect(limiter.reset('p', 'a')).rejects.toMatchObject({ notDone: true });
    }
    expect(store.breaker).toBe('closed');
  });
});

describe('wall clock', () => {
  it.each([-7_200_000, 7_200_000])(
    'setting the wall clock by %i ms changes no deadline and no pause of the breaker',
    async (jumpMs) => {
      const { store, world, limiter, nine } = setUp(lost);
      const pending = limiter.check('p', 'a');
      await turn();
      await turn();
      vi.setSystemTime(Date.now() + jumpMs);
      const settled = vi.fn();
      void pending.then(settled);
      await pass(19);
      expect(settled).not.toHaveBeenCalled();
      await pass(1);
      expect(settled).toHaveBeenCalledOnce();
      for (let commands = 1; commands < 5; commands += 2) await nine();
      expect(store.breaker).toBe('open');
      vi.setSystemTime(Date.now() + jumpMs);
      world.reply = admits;
      await pass(100);
      expect((await limiter.check('p', 'a')).degraded!.reason).toBe('open');
      await pass(150);
      const probe = limiter.check('p', 'a');
      await turn();
      expect((await probe).degraded).toBe(undefined);
      expect(store.breaker).toBe('closed');
    },
  );
});
