/** Values that this limiter did not write, or damaged ones: only their own keys fail. */
import { describe, expect, it } from 'vitest';
import { command } from '../../../../tools/servers/redis.mjs';
import { createLimiter, ManualClock, type WindowAlgorithmName } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { isFull, newPrefix, silent, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const START_MS = 1_745_000_100_000;
const LETTERS: Readonly<Record<WindowAlgorithmName, string>> = {
  'fixed-window': 'F',
  'sliding-log': 'L',
  'sliding-counter': 'C',
  'sliding-buckets': 'B',
  'token-bucket': 'T',
};
const ALGORITHMS = Object.keys(LETTERS) as WindowAlgorithmName[];
const nameOf = (algorithm: WindowAlgorithmName): string =>
  `p${LETTERS[algorithm]}1m${algorithm === 'sliding-buckets' ? '/100' : ''}`;

/** Sends bytes without conversion. */
const raw = <T extends string | null | number>(...args: (string | number)[]): Promise<T> =>
  command<T>(world.server.port, args, { encoding: 'latin1' });

function open(algorithm: WindowAlgorithmName, limit = 1000) {
  const prefix = newPrefix();
  const clock = new ManualClock(START_MS);
  const store = redisStore(world.send, {
    ...silent,
    prefix,
    onFailure: 'throw',
    deadlineMs: 10_000,
  });
  const buckets = algorithm === 'sliding-buckets' ? { buckets: 600 } : {};
  const policies = { p: { limit, window: '1m', algorithm, ...buckets } };
  return { clock, store, limiter: createLimiter({ policies, store, clock }), prefix };
}

type World = ReturnType<typeof open>;

/** Calls all methods for a bad key in one batch with good keys, which must not be affected. */
async function expectOnlyBadKeyFails(
  { limiter, store }: World,
  isExpected: (error: Error) => boolean,
) {
  const charge = { policy: 'p', key: 'bad', cost: 1, atMs: START_MS - 5 };
  const all = await Promise.allSettled([
    limiter.check('p', 'good'),
    limiter.check('p', 'bad'),
    limiter.check('p', 'good'),
    limiter.peek('p', 'bad', { cost: 900 }),
    limiter.check('p', 'good'),
    limiter.refund({ charges: [charge] }),
    limiter.inspect('p', 'bad'),
    limiter.check('p', 'good'),
  ]);
  const failures = all.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  for (const error of failures) if (!isExpected(error)) throw error;
  for (const place of [0, 2, 4, 7]) expect(all[place].status).toBe('fulfilled');
  expect(store.breaker).toBe('closed');
  return failures.length;
}

const isOfKey =
  (name: string) =>
  ({ message, cause }: Error): boolean =>
    message.includes('of this limiter') &&
    message.includes(name) &&
    (cause as { isOfKey?: boolean }).isOfKey === true;

const FOREIGN: readonly [name: string, write: (key: string) => Promise<unknown>][] = [
  ['a list', (key) => raw('LPUSH', key, 'x')],
  ['a set', (key) => raw('SADD', key, 'x')],
  ['a sorted set', (key) => raw('ZADD', key, 1, 'x')],
  ['a stream', (key) => raw('XADD', key, '*', 'a', 'b')],
  ['another hash', (key) => raw('HSET', key, 'a', 'b')],
  ['a hash with a header of text', (key) => raw('HSET', key, 'h', 'junk'.repeat(40))],
  ['a hash with a short header', (key) => raw('HSET', key, 'h', 'h\x04')],
  ['text', (key) => raw('SET', key, 'hello, world, this is some text')],
  ['text that begins like a log', (key) => raw('SET', key, 'some text that is long enough for it')],
  ['an empty string', (key) => raw('SET', key, '')],
  ['one byte', (key) => raw('SET', key, 's')],
  ['a log of an earlier version', (key) => raw('SET', key, `\x04${'\0'.repeat(54)}`)],
  ['a number', (key) => raw('SET', key, '17')],
  ['NaN', (key) => raw('SET', key, '\xca\x7f\xc0\0\0\x01\x01')],
  ['infinity', (key) => raw('SET', key, '\xca\x7f\x80\0\0\x01\x01')],
  ['a fraction', (key) => raw('SET', key, '\x01\xca\x3f\0\0\0\x01')],
  [
    'a number beyond 2^53',
    (key) => raw('SET', key, '\x01\xcf\x7f\xff\xff\xff\xff\xff\xff\xff\x01'),
  ],
  ['two numbers', (key) => raw('SET', key, '\x01\x01')],
  ['four numbers', (key) => raw('SET', key, '\x01\x01\x01\x01')],
  ['packed text', (key) => raw('SET', key, '\xa11\xa11\xa11')],
  ['a truncated number', (key) => raw('SET', key, '\x01\x01\xcf\x01')],
];

describe.each(ALGORITHMS)('with %s', (algorithm) => {
  it.each(FOREIGN)(
    `%s under a ${algorithm} key fails only the calls for that key`,
    async (_, write) => {
      const world = open(algorithm);
      const name = `${world.prefix}{bad}${nameOf(algorithm)}`;
      await write(name);
      const before = await raw('DUMP', name);
      expect(await expectOnlyBadKeyFails(world, isOfKey(name))).toBe(4);
      expect(await raw('DUMP', name)).toBe(before);
    },
  );

  it(`a damaged ${algorithm} value does not affect other keys`, async () => {
    const dice = new Dice(11);
    const world = open(algorithm);
    const name = `${world.prefix}{bad}${nameOf(algorithm)}`;
    for (let call = 0; call < 600; call++) {
      world.clock.set(START_MS - 60_000 + 99 * call);
      await world.limiter.check('p', 'bad');
    }
    world.clock.set(START_MS);
    const intact = await raw<string>('DUMP', name);
    const isHash = (await raw('TYPE', name)) === 'hash';
    for (let round = 0; round < (isFull ? 3000 : 150); round++) {
      await raw('RESTORE', name, 0, intact, 'REPLACE');
      const field = isHash ? dice.pick(['h', 'h', 'd', 't', '0', '2']) : '';
      const value = isHash
        ? await raw<string>('HGET', name, field)
        : await raw<string>('GET', name);
      const damaged = damage(value ?? '', dice);
      if (isHash && dice.roll(8) === 0) await raw('HDEL', name, field);
      else if (isHash) await raw('HSET', name, field, damaged);
      else await raw('SET', name, damaged);
      await expectOnlyBadKeyFails(world, isOfKey(name));
    }
  });
});

/** Returns the value with bytes changed, removed or added. */
function damage(value: string, dice: Dice): string {
  const bytes = Buffer.from(value, 'latin1');
  const kind = dice.roll(4);
  if (kind === 0) return value.slice(0, dice.roll(value.length + 1));
  if (kind === 1) return value + value.slice(0, dice.roll(30));
  for (let change = 0; change <= dice.roll(4); change++) {
    if (bytes.length > 0) bytes[dice.roll(Math.min(bytes.length, 120))] = dice.roll(256);
  }
  return bytes.toString('latin1');
}
