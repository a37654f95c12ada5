/** Values that another program wrote to the keys of the limiter: only these keys fail. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createLimiter, type WindowAlgorithmName } from '../../src/index.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { isFull, newPrefix, silent, useRedis } from './campaign.ts';

expectNoUnhandledRejections();
const world = useRedis();
let admin: Redis;
beforeAll(() => {
  admin = new Redis({ port: world.server.port });
});
afterAll(() => admin.disconnect());

const LETTERS: Readonly<Record<WindowAlgorithmName, string>> = {
  'fixed-window': 'F',
  'sliding-log': 'L',
  'sliding-counter': 'C',
  'sliding-buckets': 'B',
  'token-bucket': 'T',
};
const algorithms = Object.keys(LETTERS) as WindowAlgorithmName[];

/** Encodes doubles as MessagePack, the format of the counters. */
const doubles = (...numbers: number[]): Buffer =>
  Buffer.concat(
    numbers.map((number) => {
      const bytes = Buffer.alloc(9);
      bytes[0] = 0xcb;
      bytes.writeDoubleBE(number, 1);
      return bytes;
    }),
  );

/** Returns pseudo-random bytes, the same in each run. */
function noise(seed: number, length: number): Buffer {
  let state = seed * 2_654_435_761;
  return Buffer.from(
    Array.from({ length }, () => {
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + seed) >>> 0;
      return state >>> 24;
    }),
  );
}

const { NaN: nan, POSITIVE_INFINITY: inf } = Number;
const VALUES: Buffer[] = [
  ...['', 'x', 'hello world', '0', '-1', '1e999', 'nan', '{"used":1}', '\0', '\xff'].map((text) =>
    Buffer.from(text, 'latin1'),
  ),
  ...[
    [nan, nan, nan],
    [inf, 0, 0],
    [-inf, 0, 0],
    [0, inf, 0],
    [0, -inf, 0],
    [0, 0, nan],
  ].map((numbers) => doubles(...numbers)),
  ...[
    [1e300, 1e300, 1e300],
    [-1e300, 1, 1],
    [0.5, 0.5, 0.5],
    [-1, -1, -1],
    [1, 2],
    [1, 2, 3, 4],
  ].map((numbers) => doubles(...numbers)),
  doubles(Date.now() / 60_000, 1e300, -1e300),
  doubles(Math.floor(Date.now() / 60_000), -1e15, 2 ** 60),
  doubles(Date.now(), 0.25, nan),
  ...Array.from({ length: isFull ? 200 : 50 }, (_, seed) => noise(seed + 1, 1 + (seed % 40))),
];

/** Returns a limiter, and the name of its key `bad` in Redis. */
function setUp(algorithm: WindowAlgorithmName, send = world.send) {
  const prefix = newPrefix();
  const options = { ...silent, prefix, onFailure: 'deny', deadlineMs: 10_000 } as const;
  const store = redisStore(send, { ...options, denyCache: false });
  const policies = { p: { limit: 100, window: '1h', algorithm } } as const;
  const suffix = algorithm === 'sliding-buckets' ? '/60000' : '';
  const name = `${prefix}{bad}p${LETTERS[algorithm]}1h${suffix}`;
  return { store, limiter: createLimiter({ policies, store }), name };
}

type World = ReturnType<typeof setUp>;
let goodKeys = 0;

/** Checks the bad key and good ones in one command. Returns whether the bad key failed. */
async function checkAmong({ store, limiter }: World, what: string): Promise<boolean> {
  const key = `good ${goodKeys++}`;
  const { receipt } = await limiter.check('p', key, { cost: 10 });
  const [first, bad, second, inspected, once, third] = await Promise.all([
    limiter.check('p', key),
    limiter.check('p', 'bad'),
    limiter.check('p', key, { cost: 2 }),
    limiter.inspect('p', 'bad').catch((error) => error),
    limiter.check('p', 'bad', { id: 'once' }),
    limiter.peek('p', key),
    limiter.refund(receipt!),
  ]);
  const remaining = [first, second, third].map((each) => each.remaining);
  expect([what, ...remaining]).toEqual([what, 89, 87, 87]);
  expect([what, (await limiter.peek('p', key)).remaining]).toEqual([what, 97]);
  for (const decision of [bad, once]) {
    if (decision.degraded) expect(decision.degraded).toEqual({ reason: 'error', action: 'deny' });
    else expect([what, decision.remaining >= 0, decision.retryAfterMs >= 0]).toContain(true);
  }
  if (inspected instanceof Error)
    expect(inspected).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
  expect([what, store.breaker]).toEqual([what, 'closed']);
  return bad.degraded !== undefined;
}

it.each(algorithms)('a corrupt value under a %s key affects only that key', async (algorithm) => {
  const redis = setUp(algorithm);
  let failed = 0;
  for (const value of VALUES) {
    await admin.set(redis.name, value);
    if (await checkAmong(redis, value.toString('hex'))) failed++;
  }
  expect(failed).toBeGreaterThan(10);
});

/**
 * Yields a value with each of its first bytes changed in three ways, and each of its prefixes. In
 * the short form, every third of them, from a different place in each value.
 */
function* damaged(intact: Buffer): Generator<Buffer> {
  const step = isFull ? 1 : 3;
  for (let place = intact.length % step; place < Math.min(intact.length, 80); place += step) {
    for (const flipped of [0x01, 0x80, 0xff]) {
      const value = Buffer.from(intact);
      value[place] ^= flipped;
      yield value;
    }
    yield intact.subarray(0, place);
  }
}

/** Damages, then deletes, each field of a log that is stored as a hash. */
async function damageFields(redis: World): Promise<void> {
  const intact = Object.entries(await admin.hgetallBuffer(redis.name));
  const restore = async (): Promise<void> => {
    await admin.del(redis.name);
    await admin.hset(redis.name, Object.fromEntries(intact));
  };
  for (const [field, bytes] of intact) {
    for (const value of damaged(bytes)) {
      await restore();
      await admin.hset(redis.name, field, value);
      await checkAmong(redis, `${field} ${value.toString('hex')}`);
    }
    await restore();
    await admin.hdel(redis.name, field);
    await checkAmong(redis, `without ${field}`);
  }
}

it.each(algorithms.flatMap((algorithm) => [2, 60].map((charges) => ({ algorithm, charges }))))(
  'a damaged $algorithm value with $charges charges affects only its own key',
  async ({ algorithm, charges }) => {
    const redis = setUp(algorithm);
    for (let call = 0; call < charges; call++) {
      await redis.limiter.check('p', 'bad');
      // So that most calls have their own entry.
      await sleep(1);
    }
    if ((await admin.type(redis.name)) === 'hash') return damageFields(redis);
    const intact = (await admin.getBuffer(redis.name))!;
    for (const value of damaged(intact)) {
      await admin.set(redis.name, value);
      await checkAmong(redis, value.toString('hex'));
    }
  },
);

it.each(algorithms)(
  'a value of another type under a %s key fails only that key',
  async (algorithm) => {
    const redis = setUp(algorithm);
    const writes = [
      ['RPUSH', redis.name, 'x'],
      ['HSET', redis.name, 'x', '1'],
      ['SADD', redis.name, 'x'],
      ['ZADD', redis.name, '1', 'x'],
      ['XADD', redis.name, '*', 'x', '1'],
    ];
    for (const [command, ...args] of writes) {
      await admin.del(redis.name);
      await admin.call(command, ...args);
      expect(await checkAmong(redis, command)).toBe(true);
    }
  },
);

it.each(algorithms)('a corrupt %s key neither opens nor closes the breaker', async (algorithm) => {
  let isDead = false;
  const send: Send = (args, key) =>
    isDead ? Promise.reject(new Error('closed')) : world.send(args, key);
  const { store, limiter, name } = setUp(algorithm, send);
  // The beginning of a MessagePack number, and not of a log.
  await admin.set(name, Buffer.from([0xcb, 0x40]));
  for (let call = 0; call < 50; call++) {
    expect((await limiter.check('p', 'bad')).degraded!.reason).toBe('error');
  }
  expect(store.breaker).toBe('closed');
  for (let call = 0; call < 5; call++) {
    isDead = true;
    await limiter.check('p', 'a');
    isDead = false;
    await limiter.check('p', 'bad');
  }
  expect(store.breaker).toBe('open');
});
