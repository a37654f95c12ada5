import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientName, clients, type OpenClient } from '../../../../tools/servers/clients.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { createLimiter } from '../../src/index.ts';
import type { Store } from '../../src/store.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { parseVectors, runVectors, storeContract } from '../../src/testing/index.ts';
import { vectorsOf } from './campaign.ts';

const vectorsIn = (file: string) =>
  parseVectors(readFileSync(new URL(`../vectors/${file}`, import.meta.url), 'utf8'));
const VECTORS = [
  ['decisions.json', 40],
  ['concurrency.json', 15],
  ['blocks.json', 15],
] as const;

let server: RedisServer;
let opened = 0;

beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** Returns a store with its own keys that throws if Redis fails. */
function fresh({ client }: OpenClient): Store {
  return redisStore(client, { prefix: `t${opened++}:`, onFailure: 'throw', deadlineMs: 10_000 });
}

const names = Object.keys(clients) as ClientName[];

describe.each(names)('the Redis store, through %s', (name) => {
  let open: OpenClient;

  beforeAll(async () => {
    open = await clients[name](server.url);
  });
  afterAll(() => open.close());

  for (const { name: fact, run } of storeContract) {
    it(`the Redis store through ${name}: ${fact}`, () => run(() => fresh(open)));
  }

  it.each(VECTORS)(
    `the Redis store through ${name} decides all cases of %s as expected`,
    async (file, least) => {
      const own = vectorsOf(name, vectorsIn(file));
      expect(own.cases.length).toBeGreaterThanOrEqual(least);
      const report = await runVectors(own, () => fresh(open));
      expect(report).toEqual({ passed: own.cases.length, failed: 0, differences: [] });
    },
  );

  it(`${name} with the options of docs/redis.md causes no warning`, () => {
    const warnings: unknown[] = [];
    redisStore(open.client, { onWarning: (warning) => warnings.push(warning) });
    expect(warnings).toEqual([]);
  });

  it(`through ${name}, keys that differ in any character have separate counters`, async () => {
    const limiter = createLimiter({ policies: { once: '1/1m' }, store: fresh(open) });
    const keys = [
      ...[
        'a',
        'A',
        'a:b',
        'a\\:b',
        'a{b}',
        '{a}b',
        '}a{',
        'a%',
        'a%007b',
        'a{',
        '%0061',
        ' a',
        'a ',
      ],
      ...['é', 'e\u0301', '😀', '\ud83d', '\ude00', '\ufffd', 'a\0b', 'a\r\nb', '__proto__', '0'],
    ];
    const decisions = await Promise.all(keys.map((key) => limiter.check('once', key)));
    expect(decisions.map(({ allowed }) => allowed)).toEqual(keys.map(() => true));
    const again = await Promise.all(keys.map((key) => limiter.check('once', key)));
    expect(again.map(({ allowed }) => allowed)).toEqual(keys.map(() => false));
  });
});

describe('the Redis store', () => {
  let open: OpenClient;

  beforeAll(async () => {
    open = await clients.ioredis(server.url);
  });
  afterAll(() => open.close());

  it('the Redis store uses the clock of the server', async () => {
    const limiter = createLimiter({ policies: { p: '5/1m' }, store: fresh(open) });
    const [seconds] = await server.command<string[]>('TIME');
    const { atMs } = await limiter.check('p', 'a');
    expect(Math.abs(atMs - Number(seconds) * 1000)).toBeLessThan(5000);
  });

  it('redisStore accepts any function that sends commands', async () => {
    const sent: string[] = [];
    const send = (args: readonly string[]): Promise<unknown> => {
      sent.push(args[0]);
      return server.command(...args);
    };
    const store = redisStore(send, { prefix: 'send:', onFailure: 'throw', deadlineMs: 10_000 });
    const limiter = createLimiter({ policies: { p: '1/1m' }, store });
    await server.command('SCRIPT', 'FLUSH');
    expect((await limiter.check('p', 'a')).allowed).toBe(true);
    expect((await limiter.check('p', 'b')).allowed).toBe(true);
    expect(sent).toEqual(['EVALSHA', 'EVAL', 'EVALSHA']);
  });

  it('a check of a key with a foreign value fails without affecting its batch', async () => {
    await server.command('LPUSH', 'mixed:{bad}pL1m', 'not ours');
    const store = redisStore(open.client, {
      ...{ prefix: 'mixed:', onFailure: 'throw', deadlineMs: 10_000 },
    });
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    const all = await Promise.allSettled(
      ['good', 'bad', 'fine'].map((key) => limiter.check('p', key)),
    );
    expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((all[1] as PromiseRejectedResult).reason).toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      message: expect.stringContaining('not a log of this limiter: mixed:{bad}pL1m'),
    });
  });

  it('a foreign value under a key rejects the check', async () => {
    await server.command('SET', 'junk:{a}pL1m', 'junk');
    await server.command('SET', 'junk:{a}cC1m', '\u0001');
    const policies = {
      p: '5/1m',
      c: { limit: 5, window: '1m', algorithm: 'sliding-counter' },
    } as const;
    const store = redisStore(open.client, { prefix: 'junk:', onFailure: 'throw' });
    const limiter = createLimiter({ policies, store });
    await expect(limiter.check('p', 'a')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    await expect(limiter.check('c', 'a')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
  });

  it('limiters with equal policies share counters; a new window has new counters', async () => {
    const prefix = 'shared:';
    const limiterOf = (window: string) =>
      createLimiter({
        policies: { p: { limit: 2, window } },
        store: redisStore(open.client, { prefix, onFailure: 'throw', denyCache: false }),
      });
    const [one, other, changed] = [limiterOf('1m'), limiterOf('60s'), limiterOf('2m')];
    await one.check('p', 'a');
    expect((await other.check('p', 'a')).remaining).toBe(0);
    expect((await changed.check('p', 'a')).remaining).toBe(1);
    expect((await one.check('p', 'a')).allowed).toBe(false);
  });

  it.each([
    ['prefix', { prefix: 'a{b' }, '`prefix` to be text without braces'],
    ['prefix', { prefix: 7 }, '`prefix` to be text without braces'],
    ['onWarning', { onWarning: 'x' }, '`onWarning` to be a function'],
    ['cluster', { cluster: 'yes' }, '`cluster` to be a boolean'],
    ['misspelt option', { prefx: 'a' }, 'an object with only'],
    ['denyCache', { denyCache: { maxMs: 0 } }, '`denyCache.maxMs` to be an integer >= 1'],
    ['denyCache', { denyCache: { maxKeys: 1.5 } }, '`denyCache.maxKeys` to be an integer >= 1'],
    ['denyCache', { denyCache: { max: 1 } }, 'an object with only maxMs, maxKeys'],
  ])('redisStore rejects an invalid %s', (_, options, message) => {
    expect(() => redisStore(open.client, options as never)).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_OPTION',
        message: expect.stringContaining(message),
      }),
    );
  });

  it.each([undefined, null, {}, 'redis://127.0.0.1', 7])(
    'redisStore rejects %s as a client',
    (client) => {
      expect(() => redisStore(client as never)).toThrow(
        expect.objectContaining({
          code: 'ERR_INVALID_OPTION',
          message: expect.stringContaining('ioredis, node-redis, iovalkey or valkey-glide'),
        }),
      );
    },
  );
});
