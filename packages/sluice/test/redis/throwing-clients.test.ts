/** Clients, replies and callbacks that throw: calls settle, and the process does not crash. */
import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimiter } from '../../src/index.ts';
import { type RedisClient, redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections, turn } from '../rejections.ts';

expectNoUnhandledRejections();
const uncaught = vi.fn();
beforeEach(() => void process.on('uncaughtException', uncaught));
afterEach(() => {
  process.off('uncaughtException', uncaught);
  expect(uncaught).not.toHaveBeenCalled();
});

const thrown = (): never => {
  throw new Error('thrown');
};
/** Returns a thenable. The computed name avoids a linter warning. */
const thenable = (then: unknown): object => Object.fromEntries([['then', then]]);
const wrong: [what: string, reply: () => unknown][] = [
  ['throws', thrown],
  ['throws undefined', () => Promise.reject(undefined)],
  ['returns undefined', () => undefined],
  ['returns a number', () => 7],
  ['returns text', () => 'OK'],
  ['returns an object without fields', () => Object.create(null)],
  ['returns a thenable that throws', () => thenable(thrown)],
  [
    'returns a thenable that resolves and throws',
    () =>
      thenable((done: (value: number) => void) => {
        done(7);
        thrown();
      }),
  ],
  ['returns an object that throws when it is read', () => new Proxy([], { get: thrown })],
];

const shapes: [shape: string, clientOf: (reply: () => unknown) => RedisClient][] = [
  ['a send function', (reply) => reply as Send],
  ['ioredis', (reply) => ({ call: reply as never, options: {} })],
  ['node-redis', (reply) => ({ sendCommand: reply as never })],
  ['valkey-glide', (reply) => ({ customCommand: reply as never })],
];

describe.each(shapes)('%s', (shape, clientOf) => {
  it.each(wrong)(`${shape} that %s degrades calls and opens the breaker`, async (_what, reply) => {
    const store = redisStore(clientOf(reply), { onFailure: 'deny', onWarning: () => {} });
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    // The first of two calls is sent at once, the second one after its reply.
    for (let commands = 0; commands < 4; commands += 2) {
      const decisions = await Promise.all([limiter.check('p', 'a'), limiter.check('p', 'b')]);
      for (const { degraded } of decisions) expect(degraded!.reason).toBe('error');
      expect(store.breaker).toBe('closed');
    }
    expect((await limiter.check('p', 'a')).degraded!.reason).toBe('error');
    expect(store.breaker).toBe('open');
    await store.close();
  });
});

describe('onWarning', () => {
  const failing: [how: string, onWarning: () => void][] = [
    ['throws', thrown],
    ['rejects', () => Promise.reject(new Error('thrown'))],
  ];

  it.each(failing)(
    'an onWarning callback that %s is reported as a warning',
    async (_how, onWarning) => {
      const emitted = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
      // Warns about the options at once, and about eviction after the reply to INFO.
      const info = 'maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n';
      const call = vi.fn(async (name: string) =>
        name === 'INFO' ? info : [Date.now(), 0, 4, 60_000],
      );
      const store = redisStore({ call, options: {} }, { onWarning });
      const limiter = createLimiter({ policies: { p: '5/1m' }, store });
      expect((await limiter.check('p', 'a')).degraded).toBe(undefined);
      await turn();
      await turn();
      expect(call).toHaveBeenCalledWith('INFO', ['memory']);
      const options = { type: 'SluiceWarning', code: 'WARN_CALLBACK' };
      expect(emitted.mock.calls).toEqual([[expect.stringContaining('Error: thrown'), options]]);
      emitted.mockRestore();
    },
  );

  it('if INFO fails, onWarning gets no warning about eviction', async () => {
    const onWarning = vi.fn();
    const call = (name: string): Promise<unknown> =>
      name === 'INFO' ? thrown() : Promise.resolve([Date.now(), 0, 4, 60_000]);
    const options = { enableOfflineQueue: false, socketTimeout: 1000 };
    const store = redisStore({ call, options }, { onWarning });
    const limiter = createLimiter({ policies: { p: '5/1m' }, store });
    expect((await limiter.check('p', 'a')).degraded).toBe(undefined);
    await turn();
    await turn();
    expect(onWarning.mock.calls.map(([{ code }]) => code)).toEqual(['WARN_REDIS_RESEND']);
  });
});

describe('a client that reports when it has connected', () => {
  class Client extends EventEmitter {
    readonly options = {};
    isUp = true;

    async call(): Promise<unknown> {
      if (!this.isUp) throw new Error('closed');
      return [Date.now(), 0, 4, 60_000];
    }
  }

  it('all stores of a client share one listener, which ends with the last store', async () => {
    const client = new Client();
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const stores = Array.from({ length: 30 }, () => redisStore(client, { onWarning: () => {} }));
    expect(client.listenerCount('ready')).toBe(1);
    for (const store of stores.slice(1)) await store.close();
    expect(client.listenerCount('ready')).toBe(1);
    await stores[0].close();
    await stores[0].close();
    expect(client.eventNames()).toEqual([]);
    const again = redisStore(client, { onWarning: () => {} });
    expect(client.listenerCount('ready')).toBe(1);
    await again.close();
    expect(client.eventNames()).toEqual([]);
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
  });

  it.each(['ready', '+node'])(
    'after a client emits %s, the next call is sent although the breaker is open',
    async (event) => {
      const client = new Client();
      const store = redisStore(client, { onFailure: 'deny', onWarning: () => {} });
      const limiter = createLimiter({ policies: { p: '5/1m' }, store });
      client.isUp = false;
      for (let command = 0; command < 5; command++) await limiter.check('p', 'a');
      expect((await limiter.check('p', 'a')).degraded!.reason).toBe('open');
      client.isUp = true;
      expect((await limiter.check('p', 'a')).degraded!.reason).toBe('open');
      client.emit(event);
      expect((await limiter.check('p', 'a')).degraded).toBe(undefined);
      expect(store.breaker).toBe('closed');
      await store.close();
    },
  );
});
