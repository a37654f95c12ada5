import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  ManualClock,
  memoryStore,
  type PolicyInput,
  type Receipt,
} from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

const START_MS = 1_745_000_100_000;
const login = {
  limit: 2,
  window: 1000,
  block: { for: 5000, factor: 2, max: 15_000, forget: 60_000 },
};

function setUp<const P extends PolicyInput>(policy: P) {
  const clock = new ManualClock(START_MS);
  const limiter = createLimiter({ policies: { login: policy, other: '3/1s' }, clock });
  return { clock, limiter };
}

describe('blocks', () => {
  it('the denial that starts a block returns the wait including the block', () => {
    const { limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.checkSync('login', 'a')).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: 5000,
      resetAfterMs: 5000,
      blockedUntilMs: START_MS + 5000,
    });
  });

  it('calls during a block are denied and do not extend it', () => {
    const { clock, limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    for (let passed = 1; passed < 50; passed++) {
      clock.set(START_MS + passed * 100);
      const { allowed, retryAfterMs } = limiter.checkSync('login', 'a');
      expect([allowed, retryAfterMs]).toEqual([false, 5000 - passed * 100]);
    }
    clock.set(START_MS + 4999);
    expect(limiter.checkSync('login', 'a').allowed).toBe(false);
    clock.advance(1);
    expect(limiter.checkSync('login', 'a')).toMatchObject({ allowed: true, remaining: 1 });
  });

  it('retryAfterMs is the longer one of the block and the window', () => {
    const { limiter } = setUp({ limit: 2, window: 10_000, block: 1000 });
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.checkSync('login', 'a')).toMatchObject({
      retryAfterMs: 10_000,
      blockedUntilMs: START_MS + 1000,
    });
  });

  it('blocks in a row become longer up to the maximum', () => {
    const { clock, limiter } = setUp(login);
    const waits: number[] = [];
    for (let block = 0; block < 5; block++) {
      limiter.checkSync('login', 'a', { cost: 2 });
      const { retryAfterMs } = limiter.checkSync('login', 'a');
      waits.push(retryAfterMs);
      clock.advance(retryAfterMs);
    }
    expect(waits).toEqual([5000, 10_000, 15_000, 15_000, 15_000]);
    expect(limiter.inspectSync('login', 'a')?.blocks).toBe(5);
  });

  it.each([
    [60_000, 10_000],
    [60_001, 5000],
  ])('a block that starts %i ms after the previous block lasts %i ms', (pauseMs, expectedMs) => {
    const { clock, limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    clock.advance(5000 + pauseMs);
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(expectedMs);
  });

  it('after 1,000 blocks with a factor of 50, a block has the maximum duration', () => {
    const { clock, limiter } = setUp({
      limit: 1,
      window: 1,
      block: { for: 1, factor: 50, max: 7 },
    });
    for (let block = 0; block < 1000; block++) {
      limiter.checkSync('login', 'a');
      clock.advance(limiter.checkSync('login', 'a').retryAfterMs);
    }
    limiter.checkSync('login', 'a');
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(7);
  });

  it('peek shows a block and never starts one', () => {
    const { limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.peekSync('login', 'a', { cost: 1 })).toMatchObject({ retryAfterMs: 1000 });
    expect(limiter.peekSync('login', 'a')).toMatchObject({ allowed: true });
    limiter.checkSync('login', 'a');
    expect(limiter.peekSync('login', 'a')).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: 5000,
      blockedUntilMs: START_MS + 5000,
    });
  });

  it('a denied check of several limits blocks only the limit that denied', () => {
    const { limiter } = setUp(login);
    const both = [
      { policy: 'login', key: 'a' },
      { policy: 'other', key: 'a', cost: 3 },
    ] as const;
    limiter.checkSync('other', 'a');
    expect(limiter.checkSync(both)).toMatchObject({ allowed: false, policy: 'other' });
    expect(limiter.checkSync('login', 'a').allowed).toBe(true);
    limiter.checkSync('login', 'a');
    const denied = limiter.checkSync(both);
    expect(denied).toMatchObject({
      policy: 'login',
      retryAfterMs: 5000,
      blockedUntilMs: START_MS + 5000,
    });
    expect(denied.limits.map(({ blockedUntilMs }) => blockedUntilMs)).toEqual([
      START_MS + 5000,
      undefined,
    ]);
    expect(limiter.peekSync('other', 'a').remaining).toBe(2);
  });

  it('a peek of several limits starts no block', () => {
    const { limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    const limits = [
      { policy: 'login', key: 'a', cost: 1 },
      { policy: 'other', key: 'a', cost: 1 },
    ] as const;
    expect(limiter.peekSync(limits).retryAfterMs).toBe(1000);
    expect(limiter.peekSync(limits)).not.toHaveProperty('blockedUntilMs');
  });

  it('reset ends a block, and the next block has the initial duration', () => {
    const { limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    limiter.resetSync('login', 'a');
    expect(limiter.inspectSync('login', 'a')).toBeUndefined();
    expect(limiter.checkSync('login', 'a', { cost: 2 }).allowed).toBe(true);
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(5000);
  });

  it('a refund does not end a block', () => {
    const { limiter } = setUp(login);
    const { receipt } = limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    expect(limiter.refundSync(receipt as Receipt)).toBe(2);
    expect(limiter.checkSync('login', 'a')).toMatchObject({ retryAfterMs: 5000, remaining: 0 });
  });

  it('inspect returns the block of a key whose charges have expired', () => {
    const { clock, limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    clock.advance(3000);
    expect(limiter.inspectSync('login', 'a')).toEqual({
      policy: 'login',
      algorithm: 'sliding-log',
      used: 0,
      remaining: 0,
      resetAfterMs: 2000,
      cells: expect.any(Array),
      entries: [],
      entryCount: 0,
      blockedUntilMs: START_MS + 5000,
      blocks: 1,
    });
    clock.advance(2000);
    const { remaining, blocks, blockedUntilMs } = limiter.inspectSync('login', 'a')!;
    expect([remaining, blocks, blockedUntilMs]).toEqual([2, 1, undefined]);
    clock.advance(60_001);
    expect(limiter.inspectSync('login', 'a')).toBeUndefined();
  });

  it('a decision keeps blockedUntilMs in JSON', () => {
    const { limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    const denied = limiter.checkSync('login', 'a');
    const copy = JSON.parse(JSON.stringify(denied));
    expect(copy).toMatchObject({ blockedUntilMs: START_MS + 5000 });
    expect(copy.limits).toEqual([{ ...denied }]);
  });

  it('a clock that steps back does not end a block', () => {
    const { clock, limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    clock.set(START_MS - 900);
    const { allowed, retryAfterMs, atMs } = limiter.checkSync('login', 'a');
    expect(allowed).toBe(false);
    clock.set(atMs + retryAfterMs - 1);
    expect(limiter.checkSync('login', 'a').allowed).toBe(false);
    clock.advance(1);
    expect(limiter.checkSync('login', 'a').allowed).toBe(true);
  });

  it('a block that started while the clock was a day ahead is dropped', () => {
    const { clock, limiter } = setUp(login);
    clock.set(START_MS + 86_400_000);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    clock.set(START_MS);
    expect(limiter.checkSync('login', 'a', { cost: 2 }).allowed).toBe(true);
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(5000);
  });

  it('adding or changing the block of a policy keeps the counters', () => {
    const store = memoryStore();
    const clock = new ManualClock(START_MS);
    const open = (block?: number) => {
      const policy = { limit: 2, window: 1000, ...(block !== undefined && { block }) };
      return createLimiter({ policies: { login: policy }, store, clock });
    };
    open().checkSync('login', 'a', { cost: 2 });
    expect(open(5000).checkSync('login', 'a').retryAfterMs).toBe(5000);
    expect(open(9000).checkSync('login', 'a').retryAfterMs).toBe(5000);
    open(9000).unblockSync('login', 'a');
    expect(open(9000).checkSync('login', 'a').retryAfterMs).toBe(9000);
    expect(open().checkSync('login', 'a').retryAfterMs).toBe(1000);
  });
});

describe('limiter.block and limiter.unblock', () => {
  it('block denies a key for the duration, and does not make later blocks longer', () => {
    const { clock, limiter } = setUp(login);
    limiter.blockSync('login', 'a', '2s');
    expect(limiter.checkSync('login', 'a')).toMatchObject({ allowed: false, retryAfterMs: 2000 });
    expect(limiter.checkSync('login', 'b').allowed).toBe(true);
    clock.advance(2000);
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(5000);
  });

  it('block replaces a running block and keeps the number of blocks in a row', () => {
    const { clock, limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    limiter.blockSync('login', 'a', 1000);
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(1000);
    clock.advance(1000);
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(10_000);
  });

  it('unblock ends a block, keeps the charges and resets the number of blocks', () => {
    const { clock, limiter } = setUp(login);
    limiter.checkSync('login', 'a', { cost: 2 });
    limiter.checkSync('login', 'a');
    limiter.unblockSync('login', 'a');
    expect(limiter.peekSync('login', 'a')).toMatchObject({ remaining: 0, resetAfterMs: 1000 });
    clock.advance(1000);
    limiter.checkSync('login', 'a', { cost: 2 });
    expect(limiter.checkSync('login', 'a').retryAfterMs).toBe(5000);
  });

  it('block and unblock work on an asynchronous store', async () => {
    const clock = new ManualClock(START_MS);
    const store = promisesOnly(memoryStore());
    const limiter = createLimiter({ policies: { login }, store, clock });
    await limiter.block('login', 'a', '1h');
    expect((await limiter.check('login', 'a')).retryAfterMs).toBe(3_600_000);
    await limiter.unblock('login', 'a');
    expect((await limiter.check('login', 'a')).allowed).toBe(true);
  });

  it('unblock admits a call that waits for the end of the block', async () => {
    const { limiter } = setUp(login);
    limiter.blockSync('login', 'a', '1h');
    const waiting = limiter.acquire('login', 'a');
    await limiter.unblock('login', 'a');
    expect((await waiting).allowed).toBe(true);
  });

  it('a waiter is denied at once if a block ends after its deadline', async () => {
    const { limiter } = setUp(login);
    limiter.blockSync('login', 'a', 5000);
    const { allowed, retryAfterMs } = await limiter.acquire('login', 'a', { maxWaitMs: 4999 });
    expect([allowed, retryAfterMs]).toEqual([false, 5000]);
  });

  it('block and unblock reject a policy without the option `block`', async () => {
    const { limiter } = setUp(login);
    const error = expect.objectContaining({ code: 'ERR_INVALID_BLOCK' });
    expect(() => limiter.blockSync('other', 'a', '1m')).toThrow(error);
    expect(() => limiter.unblockSync('other', 'a')).toThrow('to have the option `block`');
    await expect(limiter.block('other', 'a', '1m')).rejects.toThrow(error);
    await expect(limiter.unblock('other', 'a')).rejects.toThrow(error);
  });

  it.each([0, -1, 1.5, '', '0s', '1x', '36501d', null, undefined, {}])(
    'block rejects the duration %j',
    async (duration) => {
      const { limiter } = setUp(login);
      const error = expect.objectContaining({ code: 'ERR_INVALID_BLOCK' });
      expect(() => limiter.blockSync('login', 'a', duration as string)).toThrow(error);
      await expect(limiter.block('login', 'a', duration as string)).rejects.toThrow(error);
      expect(limiter.inspectSync('login', 'a')).toBeUndefined();
    },
  );

  it('block and unblock reject unknown policies and invalid keys', () => {
    const { limiter } = setUp(login);
    const code = (expected: string) => expect.objectContaining({ code: expected });
    const unknown = 'lgin' as 'login';
    expect(() => limiter.blockSync(unknown, 'a', '1m')).toThrow(code('ERR_UNKNOWN_POLICY'));
    expect(() => limiter.unblockSync('login', '')).toThrow(code('ERR_INVALID_KEY'));
  });
});
