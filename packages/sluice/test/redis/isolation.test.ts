/** Errors in one part of a batch, or on one of several nodes, do not affect the others. */
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

/** One server that is used as if each key had its own node. Some nodes are unavailable. */
function nodes(options: RedisStoreOptions = {}) {
  const failing = new Map<string, string>();
  let sent = 0;
  const send: Send = async (args, key) => {
    sent++;
    for (const [node, message] of failing) if (key.includes(`{${node}}`)) throw new Error(message);
    return real(args, key);
  };
  const limiter = setUp(send, { cluster: true, ...options });
  return { failing, limiter, sent: () => sent };
}

describe('one id for two different checks', () => {
  const joint = [
    { policy: 'ten', key: 'a' },
    { policy: 'ten', key: 'b' },
  ] as const;

  it('an id of two limits that is reused for one limit does not affect the batch', async () => {
    const limiter = setUp(real);
    await limiter.check('one', 'full');
    await limiter.check(joint, { id: 'x' });
    const results = await Promise.allSettled([
      limiter.check('ten', 'a', { id: 'x' }),
      limiter.check('one', 'full', { id: 'y' }),
      limiter.check('one', 'full'),
    ]);
    for (const result of results.slice(1)) {
      expect(result).toMatchObject({ status: 'fulfilled', value: { allowed: false } });
    }
  });

  it('an id of one limit that is reused for two limits does not affect the batch', async () => {
    const limiter = setUp(real);
    await limiter.check('one', 'full');
    await limiter.check('ten', 'a', { id: 'x' });
    const results = await Promise.allSettled([
      limiter.check(joint, { id: 'x' }),
      limiter.check('one', 'full', { id: 'y' }),
      limiter.check('one', 'full'),
    ]);
    for (const result of results.slice(1)) {
      expect(result).toMatchObject({ status: 'fulfilled', value: { allowed: false } });
    }
  });
});

describe('invalid replies', () => {
  it('an invalid value in a reply rejects that operation and all later operations', async () => {
    const limiter = setUp(async () => [Date.now(), null, 0, 1000, 7, 0, 1000]);
    const results = await Promise.allSettled([
      limiter.check('ten', 'a'),
      limiter.check('ten', 'b'),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });

  it.each([[null], ['soon'], [undefined], [-1], [0.5]])(
    'a reply with the time %o rejects the check',
    async (now) => {
      const limiter = setUp(async () => [now, 0, 4, 1000]);
      await expect(limiter.check('ten', 'a')).rejects.toMatchObject({
        code: 'ERR_STORE_UNAVAILABLE',
      });
    },
  );

  it('a reply without the entries of a log rejects the inspection', async () => {
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

  it('on several nodes, a charge that cannot be undone causes no unhandled rejection', async () => {
    const { failing, limiter } = nodes();
    await limiter.check('one', 'full');
    const pending = limiter.check([
      { policy: 'ten', key: 'a' },
      { policy: 'one', key: 'full' },
    ]);
    // The reservations have been sent. The connection of later commands is closed.
    await sleep(0);
    await new Promise((resolve) => setImmediate(resolve));
    failing.set('a', 'Connection is closed.');
    await pending.catch(() => {});
    await sleep(20);
  });

  it('a retried refund is not repeated on the node that executed the first attempt', async () => {
    const { failing, limiter } = nodes();
    await limiter.check('fixed', 'a', { cost: 5 });
    const { receipt } = await limiter.check(both);
    failing.set('b', 'CLUSTERDOWN Hash slot not served');
    await expect(limiter.refund(receipt as Receipt)).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
    failing.clear();
    await limiter.refund(receipt as Receipt);
    expect(await used(limiter, 'a')).toBe(5);
  });

  it('a call repeated under its id while a node is unavailable refunds nothing', async () => {
    const { failing, limiter } = nodes();
    expect((await limiter.check(both, { id: 'x' })).allowed).toBe(true);
    failing.set('b', 'Connection is closed.');
    await expect(limiter.check(both, { id: 'x' })).rejects.toThrow();
    failing.clear();
    expect([await used(limiter, 'a'), await used(limiter, 'b')]).toEqual([2, 2]);
    expect((await limiter.check(both, { id: 'x' })).allowed).toBe(true);
    expect([await used(limiter, 'a'), await used(limiter, 'b')]).toEqual([2, 2]);
  });

  it('an id is kept on each node for the longest window of the check', async () => {
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
