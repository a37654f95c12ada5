/** Clients that return the values of a reply as text, bytes or bigint. */
import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { newPrefix, silent, useRedis } from './campaign.ts';

const world = useRedis();
const encoder = new TextEncoder();

const toBytes = (value: unknown): Uint8Array => encoder.encode(String(value));
const forms: [name: string, form: (value: unknown) => unknown][] = [
  ['text', String],
  ['Uint8Array', toBytes],
  ['Buffer', (value) => Buffer.from(String(value))],
  ['DataView', (value) => new DataView(toBytes(value).buffer)],
  ['bigint', (value) => (typeof value === 'number' ? BigInt(value) : value)],
];

describe.each(forms)('replies that contain %s values', (formName, form) => {
  function open() {
    const prefix = newPrefix();
    const send: Send = async (args, key) => {
      const reply = await world.send(args, key);
      const convert = (value: unknown): unknown =>
        Array.isArray(value) ? value.map(convert) : form(value);
      return Array.isArray(reply) ? convert(reply) : reply;
    };
    const clock = new ManualClock(1_745_000_100_000);
    const store = redisStore(send, { ...silent, prefix, onFailure: 'throw', deadlineMs: 10_000 });
    return { prefix, limiter: createLimiter({ policies: { p: '12/1m' }, store, clock }) };
  }

  it(`replies that contain ${formName} values result in correct decisions`, async () => {
    const { limiter } = open();
    const first = await limiter.check('p', 'a', { cost: 3 });
    expect([first.remaining, first.atMs]).toEqual([9, 1_745_000_100_000]);
    expect((await limiter.check('p', 'a', { cost: 8 })).remaining).toBe(1);
    expect(await limiter.check('p', 'a', { cost: 2 })).toMatchObject({
      allowed: false,
      remaining: 1,
      retryAfterMs: 60_000,
    });
    expect(await limiter.refund(first.receipt!)).toBe(3);
    expect((await limiter.inspect('p', 'a'))!.entries).toEqual([
      { atMs: 1_745_000_100_000, cost: 8 },
    ]);
  });

  it(`replies that contain ${formName} values report a foreign value under a key`, async () => {
    const { limiter, prefix } = open();
    await world.client.set(`${prefix}{a}pL1m`, 'x');
    await expect(limiter.check('p', 'a')).rejects.toThrow('not a log of this limiter');
  });
});
