/** Neighbours in a batch, and parts of a check on several nodes, when one of them goes wrong. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createLimiter, type Limiter, type Receipt } from '../../src/index.ts';
import { type RedisStoreOptions, redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { newPrefix, useRedis } from './campaign.ts';

expectNoUnhandledRejections();
const world = useRedis();

const policies = {
  one: '1/1h',
  ten: '10/1h',
  brief: '10/1s',
  fixed: { limit: 10, window: '100d', algorithm: 'fixed-window' },
} as const;

function setUp(send: Send, options: RedisStoreOptions = {}): Limiter<typeof policies> {
  const store = redisStore(send, {
    prefix: newPrefix(),
    onFailure: 'throw',
    deadlineMs: 5000,
    denyCache: false,
    ...options,
  });
  return createLimiter({ policies, store });
}

const real: Send = (args, key) => world.send(args, key);

/** One server that is asked as if each key lay on a node of its own; some of them are away. */
function nodes(options: RedisStoreOptions = {}) {
  const away = new Map<string, string>();
  let sent = 0;
  const send: Send = async (args, key) => {
    sent++;
    for (const [node, message] of away) if (key.includes(`{${node}}`)) throw new Error(message);
    return real(args, key);
  };
  const limiter = setUp(send, { cluster: true, ...options });
  return { away, limiter, sent: () => sent };
}

describe('an id that is used for two different checks', () => {
  const joint = [
    { policy: 'ten', key: 'a' },
    { policy: 'ten', key: 'b' },
  ] as const;

  it('for several limits and then for one: the neighbours get their own answers', async () => {
    const limiter = setUp(real);
    await limiter.check('one', 'full');
    await limiter.check(joint, { id: 'x' });
    const answers = await Promise.allSettled([
      limiter.check('ten', 'a', { id: 'x' }),
      limiter.check('one', 'full', { id: 'y' }),
      limiter.check('one', 'full'),
    ]);
    for (const answer of answers.slice(1)) {
      expect(answer).toMatchObject({ status: 'fulfilled', value: { allowed: false } });
    }
  });

  it('for one limit and then for several: the neighbours get their own answers', async () => {
    const limiter = setUp(real);
    await limiter.check('one', 'full');
    await limiter.check('ten', 'a', { id: 'x' });
    const answers = await Promise.allSettled([
      limiter.check(joint, { id: 'x' }),
      limiter.check('one', 'full', { id: 'y' }),
      limiter.check('one', 'full'),
    ]);
    for (const answer of answers.slice(1)) {
      expect(answer).toMatchObject({ status: 'fulfilled', value: { allowed: false } });
    }
  });
});

describe('a reply that is not what was agreed', () => {
  it('fails all operations from the first odd value on: nobody knows whose is what', async () => {
    const limiter = setUp(async () => [Date.now(), null, 0, 1000, 7, 0, 1000]);
    const answers = await Promise.allSettled([
      limiter.check('ten', 'a'),
      limiter.check('ten', 'b'),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });

  it.each([[null], ['soon'], [undefined], [-1], [0.5]])('has a time: %o is none', async (now) => {
    const limiter = setUp(async () => [now, 0, 4, 1000]);
    await expect(limiter.check('ten', 'a')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });

  it('has the entries of a log as text', async () => {
    const limiter = setUp(async (args, key) => {
      const reply = (await real(args, key)) as unknown[];
      return args.at(-1)!.startsWith('inspect') ? reply.slice(0, -1) : reply;
    });
    await limiter.check('ten', 'a');
    await expect(limiter.inspect('ten', 'a')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });
});

describe('limits on several nodes', () => {
  const both = [
    { policy: 'fixed', key: 'a', cost: 2 },
    { policy: 'fixed', key: 'b', cost: 2 },
  ] as const;
  const used = async (limiter: Limiter<typeof policies>, key: string): Promise<number> =>
    (await limiter.inspect('fixed', key))?.used ?? 0;

  it('a reservation that cannot be given back is an error, and is heard', async () => {
    const { away, limiter } = nodes();
    await limiter.check('one', 'full');
    const asking = limiter.check([
      { policy: 'ten', key: 'a' },
      { policy: 'one', key: 'full' },
    ]);
    // The reservations are on their way; what follows meets a broken connection.
    await sleep(0);
    await new Promise((resolve) => setImmediate(resolve));
    away.set('a', 'Connection is closed.');
    await asking.catch(() => {});
    await sleep(20);
  });

  it('a refund that was done on one of them is not done there again', async () => {
    const { away, limiter } = nodes();
    await limiter.check('fixed', 'a', { cost: 5 });
    const { receipt } = await limiter.check(both);
    away.set('b', 'CLUSTERDOWN Hash slot not served');
    await expect(limiter.refund(receipt as Receipt)).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    away.clear();
    await limiter.refund(receipt as Receipt);
    expect(await used(limiter, 'a')).toBe(5);
  });

  it('repeating an id while one of them is away does not take back what was admitted', async () => {
    const { away, limiter } = nodes();
    expect((await limiter.check(both, { id: 'x' })).allowed).toBe(true);
    away.set('b', 'Connection is closed.');
    await expect(limiter.check(both, { id: 'x' })).rejects.toThrow();
    away.clear();
    expect([await used(limiter, 'a'), await used(limiter, 'b')]).toEqual([2, 2]);
    expect((await limiter.check(both, { id: 'x' })).allowed).toBe(true);
    expect([await used(limiter, 'a'), await used(limiter, 'b')]).toEqual([2, 2]);
  });

  it('an id is remembered on each of them for the longest window of the check', async () => {
    const prefix = newPrefix();
    const { limiter } = nodes({ prefix });
    await limiter.check(
      [
        { policy: 'ten', key: 'a' },
        { policy: 'brief', key: 'b' },
      ],
      { id: 'x' },
    );
    for (const name of await world.client.keys(`${prefix}*=*`)) {
      expect(await world.client.pttl(name)).toBeGreaterThan(1000);
    }
  });
});
