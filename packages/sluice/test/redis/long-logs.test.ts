/** Logs of many entries: every call is short, and memory does not grow. */
import { beforeAll, describe, expect, it } from 'vitest';
import {
  createLimiter,
  ManualClock,
  memoryStore,
  type PolicyOptions,
  type Receipt,
} from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { isFull, newPrefix, silent, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const START_MS = 1_745_000_100_000;
const LONG = isFull ? 100_000 : 12_000;
/** Entries, and calls of each kind, of tests that compare no times in the short form. */
const UNTIMED = isFull ? LONG : 3200;
const CALLS = isFull ? 200 : 50;
const HOUR_MS = 3_600_000;

type Log = ReturnType<typeof open>;

function open(policy: PolicyOptions, prefix = newPrefix()) {
  const clock = new ManualClock(START_MS);
  const options = { ...silent, prefix, onFailure: 'throw', deadlineMs: 60_000 } as const;
  const store = redisStore(world.send, { ...options, denyCache: false });
  return { clock, prefix, limiter: createLimiter({ policies: { p: policy }, store, clock }) };
}

/** Admits calls, one per millisecond. */
async function fill({ clock, limiter }: Log, count: number, cost = 1): Promise<Receipt[]> {
  const receipts: Receipt[] = [];
  for (let made = 0; made < count; made += 500) {
    const some = Array.from({ length: Math.min(500, count - made) }, () => {
      clock.advance(1);
      return limiter.check('p', 'a', { cost });
    });
    for (const { receipt } of await Promise.all(some)) receipts.push(receipt!);
  }
  return receipts;
}

/** Resolves to the times that Redis took for the commands of `work`, in µs, sorted. */
async function serverTimes(work: () => Promise<unknown>): Promise<number[]> {
  await world.client.call('CONFIG', ['SET', 'slowlog-log-slower-than', '0']);
  await world.client.call('CONFIG', ['SET', 'slowlog-max-len', '10000']);
  await world.client.call('SLOWLOG', ['RESET']);
  await work();
  const entries = (await world.client.call('SLOWLOG', ['GET', '10000'])) as [
    number,
    number,
    number,
    string[],
  ][];
  const times = entries.filter(([, , , [name]]) => name.startsWith('EVAL')).map((each) => each[2]);
  return times.sort((a, b) => a - b);
}

const medianOf = (times: readonly number[]): number => times[Math.floor(times.length / 2)];

async function medianTime(count: number, work: (call: number) => Promise<unknown>) {
  const times = await serverTimes(async () => {
    for (let call = 0; call < count; call++) await work(call);
  });
  expect(times).toHaveLength(count);
  return medianOf(times);
}

const usage = (prefix: string): Promise<number> =>
  world.server.command<number>('MEMORY', 'USAGE', `${prefix}{a}pL1h`, 'SAMPLES', 0);

describe('a log of many entries', () => {
  let short: Log;
  let few: readonly Receipt[];
  let long: Log;
  let many: readonly Receipt[];
  beforeAll(async () => {
    // The first calls load the scripts, after which concurrent calls arrive in their order.
    short = open({ limit: LONG, window: '1h' });
    few = await fill(short, 1000);
    long = open({ limit: LONG, window: '1h' });
    many = await fill(long, LONG);
  });

  it('inspect of a long log returns the newest 1,000 entries and counts all', async () => {
    const baseline = await medianTime(9, () => short.limiter.inspect('p', 'a'));
    const time = await medianTime(9, () => long.limiter.inspect('p', 'a'));
    expect(time).toBeLessThan(5 * baseline);
    const state = await long.limiter.inspect('p', 'a');
    expect([state!.entries.length, state!.entryCount, state!.used]).toEqual([1000, LONG, LONG]);
    const newest = { atMs: START_MS + LONG, cost: 1 };
    expect([state!.entries[0], state!.entries[999]]).toEqual([
      { atMs: START_MS + LONG - 999, cost: 1 },
      newest,
    ]);
  });

  it('a refund on a long log takes less than 12 times as long as on a short log', async () => {
    const baseline = await medianTime(40, (call) => short.limiter.refund(few[call * 2]));
    for (const first of [0, LONG / 2, LONG - 500]) {
      const time = await medianTime(40, (call) => long.limiter.refund(many[first + call * 2]));
      expect(time).toBeLessThan(12 * baseline);
    }
  });

  it('a call that lifts the sum of a log above 2^32 takes less than 8 times as long', async () => {
    const [usual, crossing]: number[][] = [[], []];
    for (let round = 0; round < 5; round++) {
      const log = open({ limit: 2 ** 33, window: '10m' });
      await fill(log, 2040, 2 ** 21);
      usual.push(...(await serverTimes(() => fill(log, 7, 2 ** 21))));
      crossing.push(...(await serverTimes(() => fill(log, 1, 2 ** 21))));
    }
    // The median, because another process may interrupt the server during any one command.
    expect(medianOf(crossing.sort((a, b) => a - b))).toBeLessThan(
      8 * medianOf(usual.sort((a, b) => a - b)),
    );
  });

  it.each([
    ['1 h', HOUR_MS, 1],
    ['60 days', 60 * 86_400_000, 1],
    ['10 min, with sums above 2^32', HOUR_MS / 6, (300_000_000 / UNTIMED) * 17],
  ])(
    'with a window of %s, no call on a long log blocks Redis for 1 ms',
    async (_, window, unit) => {
      const log = open({ limit: UNTIMED * unit, window });
      const { clock, limiter } = log;
      const dice = new Dice(9);
      const receipts: Receipt[] = [];
      const run = async (count: number, work: (call: number) => Promise<unknown>) => {
        for (let call = 0; call < count; call++) await work(call);
      };
      // The first call loads the script, which takes Redis about 2 ms.
      await limiter.check('p', 'first');
      await world.client.call('CONFIG', ['SET', 'slowlog-log-slower-than', '1000']);
      await world.client.call('SLOWLOG', ['RESET']);
      const strideMs = Math.floor(window / 2 / UNTIMED);
      for (let made = 0; made < UNTIMED; made += 500) {
        const some = Array.from({ length: 500 }, () => {
          clock.advance(strideMs);
          return limiter.check('p', 'a', { cost: unit });
        });
        for (const { receipt } of await Promise.all(some)) receipts.push(receipt!);
      }
      await run(CALLS, () => limiter.peek('p', 'a', { cost: 1 + dice.roll(UNTIMED * unit) }));
      await run(CALLS, () => limiter.check('p', 'a', { cost: 1 + dice.roll(UNTIMED * unit) }));
      for (const first of [0, UNTIMED / 2, UNTIMED - 1000]) {
        await run(CALLS, (call) => limiter.refund(receipts[first + call * 3]));
        await run(CALLS, (call) => limiter.settle(receipts[first + 1 + call * 3], 2 * unit));
      }
      await Promise.all(receipts.slice(3000, 3100).map((receipt) => limiter.refund(receipt)));
      await run(20, () => limiter.inspect('p', 'a'));
      await Promise.all(Array.from({ length: 20 }, () => limiter.inspect('p', 'a')));
      clock.advance(window / 2);
      await run(5 * CALLS, () => {
        clock.advance(strideMs);
        return limiter.check('p', 'a', { cost: unit });
      });
      clock.advance(window / 4);
      await run(50, () => limiter.check('p', 'a', { cost: unit }));
      clock.advance(2 * window);
      await run(5, () => limiter.check('p', 'a', { cost: unit }));
      await fill(log, 5 * CALLS, unit);
      await limiter.reset('p', 'a');
      const slow = (await world.client.call('SLOWLOG', ['GET', '20'])) as [
        number,
        number,
        number,
      ][];
      expect(await limiter.inspect('p', 'a')).toBeUndefined();
      // Wall-clock time, in which other processes may interrupt the server.
      if (isFull) expect(slow).toEqual([]);
    },
  );

  it('a long log in Redis decides like the memory store, also after refunds', async () => {
    const policy = { limit: UNTIMED, window: '1h' };
    const redis = open(policy);
    const { clock } = redis;
    const memory = {
      ...redis,
      limiter: createLimiter({ policies: { p: policy }, store: memoryStore(), clock }),
    };
    const receipts = await fill(redis, UNTIMED);
    clock.set(START_MS);
    const copies = await fill(memory, UNTIMED);
    const dice = new Dice(5);
    const expectSame = async (call: (log: Log, own: readonly Receipt[]) => Promise<unknown>) => {
      const results = [await call(redis, receipts), await call(memory, copies)];
      expect(JSON.stringify(results[0])).toBe(JSON.stringify(results[1]));
    };
    for (let step = 0; step < 600; step++) {
      clock.advance(dice.roll(50) === 0 ? HOUR_MS / 80 : 1);
      const of = dice.roll(UNTIMED);
      const kind = dice.roll(8);
      if (kind < 3) await expectSame((log, own) => log.limiter.refund(own[of]));
      else if (kind === 3) await expectSame((log, own) => log.limiter.settle(own[of], 5));
      else if (kind < 6) await expectSame((log) => log.limiter.check('p', 'a'));
      else await expectSame((log) => log.limiter.peek('p', 'a', { cost: 1 + of }));
    }
    clock.advance(HOUR_MS);
    await expectSame((log) => log.limiter.check('p', 'a', { cost: 3 }));
    expect(await world.client.type(`${redis.prefix}{a}pL1h`)).toBe('string');
  });

  it('a log that is charged and refunded in turn does not grow', async () => {
    const log = open({ limit: 1000, window: '1h' });
    await fill(log, 200);
    const before = await usage(log.prefix);
    for (let call = 0; call < 10 * CALLS; call++) {
      log.clock.advance(1);
      const { receipt } = await log.limiter.check('p', 'a');
      await log.limiter.refund(receipt!);
    }
    expect(await usage(log.prefix)).toBeLessThan(1.5 * before);
    expect(await log.limiter.inspect('p', 'a')).toMatchObject({ used: 200, entryCount: 200 });
  });

  it('a log shrinks when all but a few scattered entries are refunded', async () => {
    const entries = isFull ? 5000 : 2000;
    const log = open({ limit: entries, window: '1h' });
    const receipts = await fill(log, entries);
    const full = await usage(log.prefix);
    for (let place = 0; place < entries; place++) {
      if (place % 50 !== 0) await log.limiter.refund(receipts[place]);
    }
    const rest = { used: entries / 50, entryCount: entries / 50 };
    expect(await log.limiter.inspect('p', 'a')).toMatchObject(rest);
    expect(await usage(log.prefix)).toBeLessThan(full / 8);
  });

  it.each([
    ['1 ms apart', 1, 1],
    ['20 s apart with cost 400,000', 20_000, 400_000],
  ])('a log of 1,000 entries %s takes at most 9 bytes per entry', async (_, strideMs, cost) => {
    const log = open({ limit: 1000 * cost, window: '6h' });
    for (let call = 0; call < 1000; call++) {
      log.clock.advance(strideMs);
      await log.limiter.check('p', 'a', { cost });
    }
    const key = `${log.prefix}{a}pL6h`;
    const bytes = await world.server.command<number>('MEMORY', 'USAGE', key, 'SAMPLES', 0);
    expect(bytes).toBeLessThanOrEqual(9000);
  });

  it('a log counts calls at times beyond 2^48 ms', async () => {
    const log = open({ limit: 3, window: 1000 });
    log.clock.set(2 ** 48 + 7);
    await log.limiter.check('p', 'a', { cost: 2 });
    log.clock.advance(500);
    await log.limiter.check('p', 'a');
    expect(await log.limiter.check('p', 'a')).toMatchObject({ allowed: false, retryAfterMs: 500 });
  });
});
