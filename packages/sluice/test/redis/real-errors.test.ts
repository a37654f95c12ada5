/** Errors of a real Redis, as a script reports them. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimiter } from '../../src/index.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { newPrefix, useRedis } from './campaign.ts';

expectNoUnhandledRejections();
const world = useRedis();
const soon = { timeout: 20_000, interval: 10 };

interface Trouble {
  readonly code: string;
  begin(): Promise<unknown>;
  end(): Promise<unknown>;
}

const command = (line: string): Promise<unknown> => world.server.command(...line.split(' '));

/** Errors after which a retry may succeed. */
const PASSING: Trouble[] = [
  {
    code: 'NOSCRIPT',
    begin: () => command('SCRIPT FLUSH'),
    end: async () => {},
  },
  {
    code: 'READONLY',
    begin: () => command('REPLICAOF 127.0.0.1 1'),
    end: () => command('REPLICAOF NO ONE'),
  },
  {
    code: 'NOREPLICAS',
    begin: () => command('CONFIG SET min-replicas-to-write 1'),
    end: () => command('CONFIG SET min-replicas-to-write 0'),
  },
  {
    code: 'MASTERDOWN',
    begin: async () => {
      await command('CONFIG SET replica-serve-stale-data no');
      await command('REPLICAOF 127.0.0.1 1');
    },
    end: async () => {
      await command('REPLICAOF NO ONE');
      await command('CONFIG SET replica-serve-stale-data yes');
    },
  },
];

const LASTING: Trouble[] = [
  ...PASSING.slice(1),
  {
    code: 'OOM',
    begin: () => command('CONFIG SET maxmemory 1'),
    end: () => command('CONFIG SET maxmemory 0'),
  },
  {
    code: 'BUSY',
    begin: async () => {
      await command('CONFIG SET busy-reply-threshold 1');
      void world.server.command('EVAL', 'while true do end', 0).catch(() => {});
      await vi.waitUntil(() => command('GET x').catch(({ message }) => /BUSY/.test(message)), soon);
    },
    end: () => command('SCRIPT KILL'),
  },
];

function setUp(options: { readonly afterFirst?: () => Promise<unknown> } = {}) {
  let sent = 0;
  const replies: string[] = [];
  const send: Send = async (args, key) => {
    const isFirst = ++sent === 2;
    try {
      const reply = await world.send(args, key);
      replies.push(JSON.stringify(reply));
      return reply;
    } catch (error) {
      replies.push((error as Error).message);
      throw error;
    } finally {
      if (isFirst) await options.afterFirst?.();
    }
  };
  const store = redisStore(send, { prefix: newPrefix(), onFailure: 'deny', deadlineMs: 10_000 });
  const limiter = createLimiter({ policies: { p: '5/1h', q: '5/1h' }, store });
  return { limiter, replies };
}

// Loads both scripts, which the test of NOSCRIPT deletes, so that commands are sent once.
beforeEach(async () => {
  const { limiter } = setUp();
  await limiter.check('p', 'a');
  const key = 'a';
  await limiter.check([
    { policy: 'p', key },
    { policy: 'q', key },
  ]);
});

describe('errors that end before the retry', () => {
  it.each(PASSING)(
    'if $code ends before the retry, the retry succeeds and no decision is degraded',
    async ({ code, begin, end }) => {
      const { limiter, replies } = setUp({ afterFirst: end });
      await limiter.check('p', 'a', { cost: 2 });
      await begin();
      try {
        const decision = await limiter.check([
          { policy: 'p', key: 'a', cost: 2 },
          { policy: 'q', key: 'a' },
        ]);
        expect(decision).toMatchObject({ allowed: true, remaining: 1 });
        expect(decision.degraded).toBe(undefined);
      } finally {
        await end();
      }
      expect(replies[1]).toContain(code);
      expect((await limiter.inspect('p', 'a'))!.used).toBe(4);
      expect((await limiter.inspect('q', 'a'))!.used).toBe(1);
    },
  );
});

describe('errors that last', () => {
  it.each(LASTING)(
    'while Redis replies $code, checks are degraded and charge nothing',
    async ({ code, begin, end }) => {
      const { limiter, replies } = setUp();
      const { receipt } = await limiter.check('p', 'a', { cost: 2 });
      await begin();
      try {
        const decisions = await Promise.all([
          limiter.check('p', 'a'),
          limiter.check([
            { policy: 'p', key: 'a', cost: 2 },
            { policy: 'q', key: 'a' },
          ]),
        ]);
        for (const { allowed, degraded } of decisions) {
          expect([allowed, degraded]).toEqual([false, { reason: 'error', action: 'deny' }]);
        }
        await expect(limiter.refund(receipt!)).rejects.toMatchObject({
          code: 'ERR_STORE_UNAVAILABLE',
        });
      } finally {
        await end();
      }
      // A fast script hands a check that cannot write over to the general script.
      expect(replies.slice(1).join(' ')).toContain(code);
      await vi.waitUntil(async () => !(await limiter.check('q', 'b')).degraded, soon);
      expect((await limiter.inspect('p', 'a'))!.used).toBe(2);
      expect(await limiter.inspect('q', 'a')).toBe(undefined);
    },
  );
});
