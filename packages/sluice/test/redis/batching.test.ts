import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { clients, type OpenClient } from '../../../../tools/servers/clients.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import { connectionOf } from '../../src/stores/redis/client.ts';
import { type RedisStoreOptions, redisStore } from '../../src/stores/redis/index.ts';

let server: RedisServer;
let open: OpenClient;
/** How many keys each command had. */
let sent: number[] = [];
let opened = 0;

beforeAll(async () => {
  server = await startRedis();
  open = await clients.ioredis(server.url);
});
afterAll(async () => {
  await open.close();
  await server.stop();
});

function limiterWith(options: RedisStoreOptions = {}) {
  const { send } = connectionOf(open.client);
  sent = [];
  const counting = (args: readonly string[], key: string): Promise<unknown> => {
    if (args[0] === 'EVALSHA') sent.push(Number(args[2]));
    return send(args, key);
  };
  const base = { prefix: `b${opened++}:`, onFailure: 'throw', deadlineMs: 10_000 } as const;
  return createLimiter({
    policies: { few: '3/1m', many: { limit: 1000, window: '1m', algorithm: 'sliding-counter' } },
    store: redisStore(counting, { ...base, ...options }),
  });
}

describe('batching', () => {
  it('an operation is sent synchronously if no command is in flight', async () => {
    const limiter = limiterWith();
    await limiter.check('many', 'warm');
    sent = [];
    const decision = limiter.check('many', 'a');
    expect(sent).toEqual([1]);
    await decision;
    const next = limiter.check('many', 'b');
    expect(sent).toEqual([1, 1]);
    await next;
  });

  it('callers whose calls were in one batch send their next calls in one batch', async () => {
    const limiter = limiterWith();
    const loop = async (key: string): Promise<void> => {
      for (let call = 0; call < 5; call++) await limiter.check('many', key);
    };
    await Promise.all(Array.from({ length: 16 }, (_, key) => loop(`k${key}`)));
    expect(sent).toEqual([1, 16, 16, 16, 16, 15]);
  });

  it('a slow reply does not hold back later operations', async () => {
    const { send } = connectionOf(open.client);
    let [calls, release] = [0, () => {}];
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = async (args: readonly string[], key: string): Promise<unknown> => {
      if (calls++ === 0) await gate;
      return send(args, key);
    };
    const store = redisStore(slow, { prefix: `b${opened++}:`, deadlineMs: 10_000 });
    const limiter = createLimiter({ policies: { few: '3/1m' }, store });
    const first = limiter.check('few', 'a');
    // Resolves although the first reply is pending.
    expect(await limiter.check('few', 'b')).toMatchObject({ allowed: true, remaining: 2 });
    release();
    expect(await first).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('checks of one algorithm and window share a command if limits and costs differ', async () => {
    const policies = {
      a: { limit: (key: string) => Number(key), window: '1m' },
      b: { limit: 7, window: '1m' },
      bucket: { limit: 5, burst: 9, window: '1m', algorithm: 'token-bucket' },
    } as const;
    const { send } = connectionOf(open.client);
    const keys: number[] = [];
    const counting = (args: readonly string[], key: string): Promise<unknown> => {
      if (args[0] === 'EVALSHA') keys.push(Number(args[2]));
      return send(args, key);
    };
    const store = redisStore(counting, { prefix: `b${opened++}:`, deadlineMs: 10_000 });
    const limiter = createLimiter({ policies, store });
    const decisions = await Promise.all([
      limiter.check('b', 'first'),
      limiter.check('a', '10', { cost: 4 }),
      limiter.check('a', '20'),
      limiter.peek('a', '30', { cost: 2 }),
      limiter.check('b', 'x', { cost: 5 }),
      limiter.check('bucket', 'x', { cost: 8 }),
      limiter.peek('bucket', 'y'),
    ]);
    expect(decisions.map(({ remaining }) => remaining)).toEqual([6, 6, 19, 30, 2, 1, 9]);
    expect(keys).toEqual([1, 4, 2]);
  });

  it('operations of all kinds that wait for a reply are sent in one command', async () => {
    const limiter = limiterWith();
    const first = await limiter.check('few', 'warm');
    if (!first.allowed) throw new Error('expected to be admitted');
    sent = [];
    await Promise.all([
      limiter.check('few', 'first'),
      limiter.inspect('few', 'first'),
      limiter.check('few', 'a'),
      limiter.check([
        { policy: 'few', key: 'b' },
        { policy: 'many', key: 'b' },
      ]),
      limiter.peek('many', 'c'),
      limiter.refund(first.receipt),
      limiter.inspect('few', 'a'),
      limiter.check('few', 'd', { id: 'x' }),
      limiter.reset('few', 'e'),
    ]);
    expect(sent).toEqual([1, 1 + 1 + 2 + 1 + 1 + 1 + 2 + 2]);
  });

  it('a batch has at most 64 operations', async () => {
    const limiter = limiterWith();
    await Promise.all(Array.from({ length: 300 }, (_, key) => limiter.check('many', `k${key}`)));
    expect(Math.max(...sent)).toBeLessThanOrEqual(64);
    expect(sent.reduce((sum, keys) => sum + keys, 0)).toBe(300);
  });

  it('concurrent checks of one key are executed in the order of the calls', async () => {
    const limiter = limiterWith();
    const costs = [1, 2, 3, 4, 5, 6, 7, 8];
    const decisions = await Promise.all(
      costs.map((cost) => limiter.check('many', 'ordered', { cost })),
    );
    expect(decisions.map(({ remaining }) => remaining)).toEqual([
      999, 997, 994, 990, 985, 979, 972, 964,
    ]);
  });

  it('a refund is executed before a check that was called later', async () => {
    const limiter = limiterWith({ denyCache: false });
    const full = await limiter.check('few', 'a', { cost: 3 });
    if (!full.allowed) throw new Error('expected to be admitted');
    const [denied, , admitted] = await Promise.all([
      limiter.check('few', 'a'),
      limiter.refund(full.receipt),
      limiter.check('few', 'a'),
    ]);
    expect([denied.allowed, admitted.allowed]).toEqual([false, true]);
  });
});

describe('slow operations', () => {
  /** Returns a limiter, and its commands with the number of slow ones in flight beside each. */
  function slowLimiter(reply?: () => Promise<void>) {
    const { send } = connectionOf(open.client);
    const commands: { kinds: string[]; besides: number }[] = [];
    let inFlight = 0;
    const watched = async (args: readonly string[], key: string): Promise<unknown> => {
      const kinds = args.flatMap((arg) => /^(check|adjust|inspect) /.exec(arg)?.[1] ?? []);
      if (kinds.length === 0) return send(args, key);
      const isSlow = kinds.some((kind) => kind !== 'check');
      commands.push({ kinds, besides: isSlow ? inFlight : 0 });
      if (!isSlow) return send(args, key);
      inFlight++;
      await reply?.();
      return send(args, key).finally(() => inFlight--);
    };
    const policies = { long: '1000/1m', few: '3/1m' };
    const store = redisStore(watched, {
      prefix: `b${opened++}:`,
      onFailure: 'throw',
      deadlineMs: 10_000,
    });
    return { limiter: createLimiter({ policies, store }), commands };
  }

  async function receiptsOf({ limiter }: ReturnType<typeof slowLimiter>, count: number) {
    const decisions = await Promise.all(
      Array.from({ length: count }, () => limiter.check('long', 'a')),
    );
    return decisions.map((decision) => {
      if (!decision.allowed) throw new Error('expected to be admitted');
      return decision.receipt;
    });
  }

  it('refunds are sent one command at a time and do not delay checks of other keys', async () => {
    const order: string[] = [];
    const slow = slowLimiter(() => new Promise((resolve) => setTimeout(resolve, 20)));
    const receipts = await receiptsOf(slow, 6);
    slow.commands.length = 0;
    const refunds = receipts.map((receipt) =>
      slow.limiter.refund(receipt).then(() => order.push('refund')),
    );
    await slow.limiter.check('few', 'b').then(() => order.push('check'));
    await Promise.all(refunds);
    expect(order[0]).toBe('check');
    const adjusting = slow.commands.filter(({ kinds }) => kinds.includes('adjust'));
    expect(adjusting.map(({ kinds }) => kinds.length)).toEqual([2, 2, 2]);
    expect(adjusting.map(({ besides }) => besides)).toEqual([0, 0, 0]);
  });

  it('many waiting refunds are sent in several commands at a time', async () => {
    const slow = slowLimiter(() => new Promise((resolve) => setTimeout(resolve, 20)));
    const receipts = await receiptsOf(slow, 200);
    await Promise.all(receipts.map((receipt) => slow.limiter.refund(receipt)));
    const besides = Math.max(...slow.commands.map((command) => command.besides));
    expect(besides).toBeGreaterThan(1);
    expect(besides).toBeLessThanOrEqual(6);
    expect(await slow.limiter.peek('long', 'a')).toMatchObject({ remaining: 1000 });
  });

  it('checks and refunds of one key are executed in the order of the calls', async () => {
    const slow = slowLimiter();
    const [receipt, ...others] = await receiptsOf(slow, 10);
    const [before, , , after] = await Promise.all([
      slow.limiter.check('long', 'a'),
      ...others.slice(0, 1).map((other) => slow.limiter.refund(other)),
      slow.limiter.refund(receipt),
      slow.limiter.check('long', 'a'),
    ]);
    expect(before).toMatchObject({ remaining: 989 });
    expect(after).toMatchObject({ remaining: 990 });
  });

  it('an inspection is sent although the reply to an earlier inspection is missing', async () => {
    let calls = 0;
    const silent = (): Promise<void> => (calls++ === 0 ? new Promise(() => {}) : Promise.resolve());
    const { send } = connectionOf(open.client);
    const held = async (args: readonly string[], key: string): Promise<unknown> => {
      if (args.some((arg) => arg.startsWith('inspect '))) await silent();
      return send(args, key);
    };
    const store = redisStore(held, {
      prefix: `b${opened++}:`,
      onFailure: 'throw',
      deadlineMs: 300,
    });
    const limiter = createLimiter({ policies: { long: '1000/1m' }, store });
    await expect(limiter.inspect('long', 'a')).rejects.toThrow();
    expect(await limiter.inspect('long', 'b')).toBeUndefined();
    expect(calls).toBe(2);
  });
});

describe('the deny cache', () => {
  it('the deny cache denies a repeated cost without a command and sends a lower cost', async () => {
    const limiter = limiterWith();
    await limiter.check('few', 'a', { cost: 2 });
    const denied = await limiter.check('few', 'a', { cost: 2 });
    expect([denied.allowed, denied.cached]).toEqual([false, undefined]);
    sent = [];
    const again = await limiter.check('few', 'a', { cost: 2 });
    expect([again.allowed, again.cached]).toEqual([false, true]);
    expect(sent).toEqual([]);
    expect((await limiter.check('few', 'a', { cost: 1 })).allowed).toBe(true);
    expect(sent).toEqual([1]);
  });

  it('the deny cache sends a larger cost to Redis, because the wait is longer', async () => {
    const limiter = limiterWith();
    await limiter.check('few', 'a', { cost: 2 });
    await new Promise((resolve) => setTimeout(resolve, 30));
    await limiter.check('few', 'a');
    const one = await limiter.check('few', 'a');
    const three = await limiter.check('few', 'a', { cost: 3 });
    expect([one.allowed, three.allowed, three.cached]).toEqual([false, false, undefined]);
    expect(three.atMs + three.retryAfterMs).toBeGreaterThan(one.atMs + one.retryAfterMs);
  });

  it('a cached denial has the same retry time as the denial by Redis', async () => {
    const limiter = limiterWith();
    await limiter.check('few', 'a', { cost: 3 });
    const denied = await limiter.check('few', 'a');
    const again = await limiter.check('few', 'a');
    const end = denied.atMs + denied.retryAfterMs;
    expect(again.atMs + again.retryAfterMs).toBe(end);
    expect(again.retryAfterMs).toBeGreaterThan(0);
  });

  it.each(['refund', 'settle', 'reset'] as const)(
    'a %s in the same process removes a denial from the deny cache',
    async (how) => {
      const limiter = limiterWith();
      const full = await limiter.check('few', 'a', { cost: 3 });
      if (!full.allowed) throw new Error('expected to be admitted');
      await limiter.check('few', 'a');
      if (how === 'refund') await limiter.refund(full.receipt);
      else if (how === 'settle') await limiter.settle(full.receipt, 1);
      else await limiter.reset('few', 'a');
      expect((await limiter.check('few', 'a')).allowed).toBe(true);
    },
  );

  it('a denial is cached for at most 1 s if another process refunds a charge', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      const prefix = `capped${opened}:`;
      const [here, there] = [limiterWith({ prefix }), limiterWith({ prefix })];
      const full = await there.check('few', 'a', { cost: 3 });
      if (!full.allowed) throw new Error('expected to be admitted');
      expect((await here.check('few', 'a')).allowed).toBe(false);
      await there.refund(full.receipt);
      expect((await here.check('few', 'a')).cached).toBe(true);
      vi.advanceTimersByTime(999);
      expect((await here.check('few', 'a')).cached).toBe(true);
      vi.advanceTimersByTime(1);
      expect((await here.check('few', 'a')).allowed).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it('a deny cache with maxKeys denials evicts the oldest denial', async () => {
    const limiter = limiterWith({ denyCache: { maxKeys: 2 } });
    for (const key of ['a', 'b', 'c']) {
      await limiter.check('few', key, { cost: 3 });
      await limiter.check('few', key);
    }
    const cached = [];
    for (const key of ['c', 'b', 'a']) cached.push((await limiter.check('few', key)).cached);
    expect(cached).toEqual([true, true, undefined]);
  });

  it('denyCache: false disables the deny cache', async () => {
    const limiter = limiterWith({ denyCache: false });
    await limiter.check('few', 'a', { cost: 3 });
    await limiter.check('few', 'a');
    expect((await limiter.check('few', 'a')).cached).toBeUndefined();
  });

  it('the deny cache drops denials if the clock is set back', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      const limiter = limiterWith();
      await limiter.check('few', 'a', { cost: 3 });
      await limiter.check('few', 'a');
      vi.setSystemTime(Date.now() - 60_000);
      expect((await limiter.check('few', 'a')).cached).toBeUndefined();
    } finally {
      vi.useRealTimers();
    }
  });
});
