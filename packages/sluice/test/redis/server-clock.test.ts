/** Steps of the clock of the Redis server, and changes of a limit. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { createLimiter, ManualClock, type WindowAlgorithmName } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { needRedis, newPrefix, silent, useRedis } from './campaign.ts';

const ALGORITHMS: readonly WindowAlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];

/** So long that no fixed window ends during a test. */
const WINDOW_MS = 30 * 86_400_000;

/** Adds the microseconds in the first 8 bytes of a file to the time. */
const SHIFTED_CLOCK = `
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long long *shift;
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  if (!shift) {
    int file = open(getenv("SHIFTED_CLOCK_FILE"), O_RDONLY);
    shift = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  long long us = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + *shift;
  time->tv_sec = us / 1000000;
  time->tv_usec = us % 1000000;
  return 0;
}
`;

function hasCompiler(): boolean {
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return process.platform === 'linux';
  } catch {
    console.warn('The tests of a stepping server clock need Linux and a C compiler (cc).');
    return false;
  }
}

describe.runIf(hasCompiler())('a step of the server clock', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-clock-'));
  const file = join(folder, 'shift');
  let server: RedisServer;

  /** Sets the difference between the clock of the server and the real time. */
  function shiftTo(ms: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(Math.round(ms)) * 1000n);
    const handle = openSync(file, 'r+');
    writeSync(handle, bytes);
    closeSync(handle);
  }

  needRedis();
  beforeAll(async () => {
    writeFileSync(file, Buffer.alloc(8));
    writeFileSync(join(folder, 'clock.c'), SHIFTED_CLOCK);
    const library = join(folder, 'clock.so');
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, join(folder, 'clock.c')]);
    Object.assign(process.env, { LD_PRELOAD: library, SHIFTED_CLOCK_FILE: file });
    try {
      server = await startRedis();
    } finally {
      delete process.env.LD_PRELOAD;
      delete process.env.SHIFTED_CLOCK_FILE;
    }
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  function open(algorithm: WindowAlgorithmName) {
    const send = (args: readonly string[]) => server.command(...args);
    const options = { ...silent, prefix: newPrefix(), denyCache: false } as const;
    const store = redisStore(send, { ...options, onFailure: 'throw', deadlineMs: 10_000 });
    const policies = { p: { limit: 5, window: WINDOW_MS, algorithm } };
    return createLimiter({ policies, store });
  }

  it('the preloaded library shifts the clock of the Redis server', async () => {
    shiftTo(-7_200_000);
    const [seconds] = await server.command<string[]>('TIME');
    shiftTo(0);
    expect(Math.abs(Number(seconds) - (Date.now() / 1000 - 7200))).toBeLessThan(60);
  });

  it.each(ALGORITHMS)(
    'a step back of the server clock admits nothing twice with %s',
    async (algorithm) => {
      const limiter = open(algorithm);
      expect((await limiter.check('p', 'a', { cost: 5 })).allowed).toBe(true);
      // To times before the charge and back, each less than a window apart.
      for (const windows of [-0.3, -0.97, -0.5, -0.99, 0]) {
        shiftTo(windows * WINDOW_MS);
        expect((await limiter.check('p', 'a')).allowed).toBe(false);
        expect(await server.command<number>('DBSIZE')).toBeGreaterThan(0);
      }
    },
  );

  it.each(ALGORITHMS)(
    'a %s charge that is made after a clock step back is kept',
    async (algorithm) => {
      shiftTo(0);
      const limiter = open(algorithm);
      await limiter.check('p', 'a', { cost: 2 });
      shiftTo(-0.5 * WINDOW_MS);
      expect((await limiter.check('p', 'a', { cost: 3 })).allowed).toBe(true);
      shiftTo(0);
      expect((await limiter.check('p', 'a')).allowed).toBe(false);
      shiftTo(-0.8 * WINDOW_MS);
      expect((await limiter.check('p', 'a')).allowed).toBe(false);
      shiftTo(0);
    },
  );

  it.each(ALGORITHMS)(
    'a %s charge that expired while the clock was ahead no longer counts',
    async (algorithm) => {
      const limiter = open(algorithm);
      await limiter.check('p', 'a', { cost: 5 });
      // Redis deletes the expired key when it is read, as after a real wait.
      shiftTo(3 * WINDOW_MS);
      await limiter.peek('p', 'a');
      shiftTo(0);
      expect((await limiter.check('p', 'a', { cost: 5 })).allowed).toBe(true);
    },
  );
});

describe('a token bucket whose limit is lowered', () => {
  const world = useRedis();
  const START_MS = 1_745_000_100_000;

  function open(prefix: string, limit: number) {
    const clock = new ManualClock(START_MS);
    const options = { ...silent, prefix, onFailure: 'throw', deadlineMs: 10_000 } as const;
    const policy = { limit, burst: 3000, window: '1s', algorithm: 'token-bucket' } as const;
    const store = redisStore(world.send, { ...options, denyCache: false });
    return createLimiter({ policies: { p: policy }, store, clock });
  }

  /** Returns the TTL of the key, without the additional hour for injected clocks. */
  const lifeOf = async (prefix: string): Promise<number> =>
    (await world.client.pttl(`${prefix}{a}pT1s`)) - 3_600_000;

  it.each([
    ['a charge', (limiter: ReturnType<typeof open>) => limiter.check('p', 'a')],
    ['a denial', (limiter: ReturnType<typeof open>) => limiter.check('p', 'a', { cost: 3000 })],
    ['a peek', (limiter: ReturnType<typeof open>) => limiter.peek('p', 'a')],
  ])(
    'after %s, the key of a bucket with a lowered limit lives until the bucket is full',
    async (_, call) => {
      const prefix = newPrefix();
      await open(prefix, 300_000).check('p', 'a', { cost: 2000 });
      expect(await lifeOf(prefix)).toBeLessThanOrEqual(7);
      await call(open(prefix, 10));
      const leftMs = await lifeOf(prefix);
      expect(leftMs).toBeGreaterThan(200_000 - 10_000);
      expect(leftMs).toBeLessThanOrEqual(200_200);
    },
  );

  it('a charge extends the TTL of a token bucket whose limit was lowered', async () => {
    const prefix = newPrefix();
    await open(prefix, 3_000_000).check('p', 'a', { cost: 2999 });
    await open(prefix, 2000).check('p', 'a');
    expect(await lifeOf(prefix)).toBeGreaterThan(1000);
  });
});
