/** The memory of keys in Redis, their TTL, and the number of commands of a call. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clients, type OpenClient } from '../../../../tools/servers/clients.mjs';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import {
  createLimiter,
  ManualClock,
  type PolicyOptions,
  type WindowAlgorithmName,
} from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { Dice } from './traces.ts';

const ALGORITHMS: readonly WindowAlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];
const START_MS = 1_745_000_100_000;
const HUGE = process.env.SLUICE_CAMPAIGN === 'full' ? 200_000 : 20_000;

let server: RedisServer;
let open: OpenClient;

beforeAll(async () => {
  server = await startRedis();
  open = await clients.ioredis(server.url);
});
afterAll(async () => {
  await open.close();
  await server.stop();
});

function limiterWith(policy: PolicyOptions, clock?: ManualClock) {
  const store = redisStore(open.client, { onFailure: 'throw', deadlineMs: 10_000 });
  return createLimiter({ policies: { perMinute: policy }, store, ...(clock && { clock }) });
}

const usage = (key: string): Promise<number> =>
  server.command<number>('MEMORY', 'USAGE', key, 'SAMPLES', 0);

describe('a sliding log', () => {
  it.each([
    [1, 1000],
    [100, 100_000],
  ])(
    'a sliding log of 1,000 calls of cost %i takes at most 9 bytes per call',
    async (cost, limit) => {
      const clock = new ManualClock(START_MS);
      const limiter = limiterWith({ limit, window: '1m' }, clock);
      for (let call = 0; call < 1000; call++) {
        clock.advance(7);
        expect((await limiter.check('perMinute', `calls-${cost}`, { cost })).allowed).toBe(true);
      }
      expect(await usage(`s:{calls-${cost}}perMinuteL1m`)).toBeLessThanOrEqual(9000);
    },
  );

  it('a full sliding log does not grow while it slides', async () => {
    const clock = new ManualClock(START_MS);
    const limiter = limiterWith({ limit: 1000, window: '1m' }, clock);
    for (let call = 0; call < 3000; call++) {
      clock.advance(60);
      expect((await limiter.check('perMinute', 'sliding')).allowed).toBe(true);
    }
    expect(await usage('s:{sliding}perMinuteL1m')).toBeLessThanOrEqual(9000);
  });

  it('a sliding log shrinks when most of its entries have expired', async () => {
    const clock = new ManualClock(START_MS);
    const limiter = limiterWith({ limit: 5000, window: '1m' }, clock);
    for (let call = 0; call < 5000; call++) {
      clock.advance(1);
      await limiter.check('perMinute', 'burst');
    }
    const full = await usage('s:{burst}perMinuteL1m');
    clock.advance(58_000);
    for (let call = 0; call < 10; call++) {
      clock.advance(350);
      await limiter.check('perMinute', 'burst');
    }
    expect(await usage('s:{burst}perMinuteL1m')).toBeLessThan(full / 3);
  });

  it(`a check runs at most 10 Redis commands when ${HUGE / 2} entries expire at once`, async () => {
    const clock = new ManualClock(START_MS);
    const limiter = limiterWith({ limit: HUGE, window: '1h' }, clock);
    for (let call = 0; call < HUGE; call += 500) {
      await Promise.all(
        Array.from({ length: 500 }, () => {
          clock.advance(1);
          return limiter.check('perMinute', 'huge');
        }),
      );
    }
    expect((await limiter.check('perMinute', 'huge')).allowed).toBe(false);
    clock.advance(3_600_000 - HUGE / 2);
    await server.command('CONFIG', 'RESETSTAT');
    const half = await limiter.check('perMinute', 'huge', { cost: HUGE / 4 });
    expect([half.allowed, half.remaining]).toEqual([true, HUGE / 4]);
    const stats = await server.command<string>('INFO', 'commandstats');
    const calls = (name: string): number =>
      Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    // The fast script reads the header and the oldest segment before it hands the check over.
    expect(calls('hget') + calls('hmget')).toBeLessThanOrEqual(8);
    expect(calls('hset') + calls('hdel')).toBeLessThanOrEqual(2);
  });
});

describe('a sliding counter', () => {
  it('a sliding counter takes at most 96 bytes per key', async () => {
    const limiter = limiterWith({ limit: 1000, window: '1m', algorithm: 'sliding-counter' });
    for (let number = 0; number < 50; number++) {
      const key = `user:${100_000_000 + number}`;
      await limiter.check('perMinute', key, { cost: 1 + number * 17 });
      expect(await usage(`s:{${key}}perMinuteC1m`)).toBeLessThanOrEqual(96);
    }
  });
});

describe('keys', () => {
  it.each(ALGORITHMS)('keys of %s have a TTL of at most two windows', async (algorithm) => {
    const dice = new Dice(7);
    const limiter = limiterWith({ limit: 40, window: '1m', algorithm });
    for (let step = 0; step < 300; step++) {
      const key = `${algorithm}-${dice.roll(5)}`;
      const id = dice.roll(5) === 0 ? `id-${step}` : undefined;
      const decision = await limiter.check('perMinute', key, { cost: 1 + dice.roll(3), id });
      const kind = decision.allowed ? dice.roll(4) : undefined;
      if (kind === 0) await limiter.refund(decision.receipt!);
      if (kind === 1) await limiter.settle(decision.receipt!, dice.roll(9));
      if (dice.roll(40) === 0) await limiter.reset('perMinute', key);
    }
    const keys = await server.command<string[]>('KEYS', `s:{${algorithm}-*`);
    expect(keys.length).toBeGreaterThan(3);
    for (const key of keys) {
      const ttl = await server.command<number>('PTTL', key);
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(120_000 + 1000);
    }
  });

  it('all keys expire within two windows and 1 s after the last call', async () => {
    const window = 400;
    const left = (which: string): Promise<string[]> =>
      server.command<string[]>('KEYS', `s:{expired-${which}`);
    for (const algorithm of ALGORITHMS) {
      const limiter = limiterWith({ limit: 5, window, algorithm });
      for (let call = 0; call < 20; call++) {
        await limiter.check('perMinute', `expired-${algorithm}-${call % 3}`, { cost: 2 });
      }
      expect(await left(`${algorithm}-*`)).toHaveLength(3);
    }
    await new Promise((resolve) => setTimeout(resolve, 2 * window + 1000));
    expect(await left('*')).toEqual([]);
  });
});
