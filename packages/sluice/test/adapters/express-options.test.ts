/** Names and defaults of express-rate-limit in the Express adapter. */
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import express, { type RequestHandler } from 'express';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import * as adapter from '../../src/adapters/express.ts';
import { ipKeyGenerator, MemoryStore, rateLimit } from '../../src/adapters/express.ts';
import { withServer } from './listening.ts';

const START_MS = 1_745_000_100_000;

/** Sends requests. Returns the statuses and the headers of the last response. */
async function send(limit: object, count: number, headers: Record<string, string> = {}) {
  const app = express();
  app.use(limit as RequestHandler);
  app.get('/', (_request, response) => void response.send('hello'));
  const statuses: number[] = [];
  let last = new Headers();
  await withServer(createServer(app), async (url) => {
    for (let call = 0; call < count; call++) {
      const response = await fetch(url, { headers });
      statuses.push(response.status);
      last = response.headers;
    }
  });
  return { statuses, headers: last };
}

describe('defaults of express-rate-limit', () => {
  it.each([undefined, {}, { limit: undefined, windowMs: undefined }])(
    'the options %j limit a client to 5 requests per minute',
    async (options) => {
      const { statuses, headers } = await send(rateLimit(options as never), 6);
      expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
      expect(headers.get('ratelimit-policy')).toBe('"default";q=5;w=60');
    },
  );

  it.each([
    [{ headers: true }, ['x-ratelimit-limit']],
    [{ headers: false }, []],
    [{ headers: false, standardHeaders: true }, ['ratelimit-limit']],
    [{ headers: true, legacyHeaders: false }, []],
    [{ headers: 'draft' }, []],
  ] as const)('the options %j send the headers %j', async (options, names) => {
    const { headers } = await send(rateLimit({ limit: 2, ...options }), 1);
    const found = ['x-ratelimit-limit', 'ratelimit-limit'].filter((name) => headers.has(name));
    expect(found).toEqual(names);
    expect(headers.has('ratelimit')).toBe(options.headers === 'draft');
  });
});

describe('logger', () => {
  it('warnings go to the logger with their code and message', async () => {
    const logged: unknown[][] = [];
    const logger = { warn: (...call: unknown[]) => logged.push(call), error: () => {} };
    await send(rateLimit({ limit: 9, logger }), 2, { 'x-forwarded-for': '203.0.113.7' });
    expect(logged).toHaveLength(1);
    const [[warning, message]] = logged as [[{ code: string; message: string }, string]];
    expect(warning.code).toBe('WARN_FORWARDED_IGNORED');
    expect(message).toBe(warning.message);
  });

  it('onWarning takes precedence over the logger', async () => {
    const codes: string[] = [];
    const onWarning = ({ code }: { code: string }) => void codes.push(code);
    const logger = { warn: () => codes.push('logger'), error: () => {} };
    await send(rateLimit({ limit: 9, logger, onWarning }), 1, { 'x-forwarded-for': '203.0.113.7' });
    expect(codes).toEqual(['WARN_FORWARDED_IGNORED']);
  });

  it.each([null, 1, {}, { error: 'x', warn: () => {} }, { error: () => {} }])(
    'rateLimit rejects the logger %j',
    (logger) => {
      expect(() => rateLimit({ limit: 1, logger: logger as never })).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
      );
    },
  );
});

describe('getKey', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: START_MS }));
  afterEach(() => vi.useRealTimers());

  it.each([3, () => 3])(
    'getKey returns the count and the reset time with the limit %s',
    async (limit) => {
      const middleware = rateLimit({ windowMs: 60_000, limit, keyGenerator: () => 'ada' });
      expect(await middleware.getKey('ada')).toBeUndefined();
      await send(middleware, 2);
      expect(await middleware.getKey('ada')).toEqual({
        totalHits: 2,
        resetTime: new Date(START_MS + 60_000),
      });
      await middleware.resetKey('ada');
      expect(await middleware.getKey('ada')).toBeUndefined();
    },
  );
});

describe('MemoryStore', () => {
  it('a MemoryStore has the counters of a limiter, and can be read and reset', async () => {
    const store = new MemoryStore();
    const limit = rateLimit({ limit: 2, store, keyGenerator: () => 'ada' });
    expect(await store.get('ada')).toBeUndefined();
    expect((await send(limit, 3)).statuses).toEqual([200, 200, 429]);
    expect(await store.get('ada')).toMatchObject({ totalHits: 2, resetTime: expect.any(Date) });
    await store.resetKey('ada');
    expect((await send(limit, 3)).statuses).toEqual([200, 200, 429]);
    await store.resetAll();
    expect([store.size, await store.get('ada')]).toEqual([0, undefined]);
    expect((await send(limit, 3)).statuses).toEqual([200, 200, 429]);
    store.shutdown();
    expect(store.size).toBe(0);
  });

  it('limiters that share a MemoryStore have separate counters', async () => {
    const store = new MemoryStore();
    const [first, second] = [rateLimit({ limit: 1, store }), rateLimit({ limit: 1, store })];
    expect((await send(first, 1)).statuses).toEqual([200]);
    expect((await send(second, 2)).statuses).toEqual([200, 429]);
  });

  it('a MemoryStore refunds requests and works with several limits', async () => {
    const store = new MemoryStore();
    const skipping = rateLimit({ limit: 1, store, skipSuccessfulRequests: true });
    expect((await send(skipping, 3)).statuses).toEqual([200, 200, 200]);
    const limits = [
      { name: 'minute', limit: 2, window: '1m' },
      { name: 'hour', limit: 1, window: '1h' },
    ] as const;
    expect((await send(rateLimit({ limits, store }), 2)).statuses).toEqual([200, 429]);
    expect((await store.get('127.0.0.1'))?.totalHits).toBe(1);
  });

  it('MemoryStore rejects subclasses, whose `increment` would not be called', () => {
    class Logged extends MemoryStore {
      increment(): void {}
    }
    expect(() => new Logged()).toThrow(expect.objectContaining({ code: 'ERR_INVALID_OPTION' }));
  });
});

describe('ipKeyGenerator', () => {
  it.each([
    ['203.0.113.7', undefined, '203.0.113.7'],
    ['203.0.113.7', 16, '203.0.113.7'],
    ['::ffff:203.0.113.7', undefined, '203.0.113.7'],
    ['::FFFF:cb00:7107', false, '203.0.113.7'],
    ['2001:DB8:0:1:2::3', undefined, '2001:db8:0:1::/64'],
    ['2001:db8:1:2fff::3', 56, '2001:db8:1:2f00::/56'],
    ['2001:0db8:0:1:2::3', false, '2001:db8:0:1:2::3/128'],
    ['not an address', undefined, 'not an address'],
  ] as const)(
    'ipKeyGenerator returns for %s with the subnet %s the key %s',
    (address, subnet, key) => {
      expect(ipKeyGenerator(address, subnet)).toBe(key);
    },
  );

  it('resetKey with ipKeyGenerator resets the default key of a client', async () => {
    const limit = rateLimit({ limit: 1, trustProxy: 1 });
    const from = { 'x-forwarded-for': '2001:db8:0:1::7' };
    expect((await send(limit, 2, from)).statuses).toEqual([200, 429]);
    await limit.resetKey(ipKeyGenerator('2001:db8:0:1::9'));
    expect((await send(limit, 2, from)).statuses).toEqual([200, 429]);
  });

  it('ipKeyGenerator rejects a subnet that is too short for an IPv6 address', () => {
    expect(() => ipKeyGenerator('2001:db8::1', 16)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  });
});

describe('types of express-rate-limit', () => {
  /** Compiles only if the types have the names and fields of express-rate-limit. */
  class Counters implements adapter.Store {
    windowMs = 0;
    readonly #hits = new Map<string, number>();

    init(options: adapter.Options): void {
      this.windowMs = options.windowMs;
    }

    async increment(key: string): Promise<adapter.IncrementResponse> {
      const totalHits = (this.#hits.get(key) ?? 0) + 1;
      this.#hits.set(key, totalHits);
      return { totalHits, resetTime: undefined };
    }

    async decrement(_key: string): Promise<void> {}

    async resetKey(key: string): Promise<void> {
      this.#hits.delete(key);
    }
  }

  it('a store, options and functions written for express-rate-limit compile and work', async () => {
    const store = new Counters();
    const draft: adapter.DraftHeadersVersion = 'draft-7';
    const limit: adapter.ValueDeterminingMiddleware<number> = async () => 1;
    const handler: adapter.RateLimitExceededEventHandler = (request, response, _next, used) => {
      const { rateLimit: info } = request as adapter.AugmentedRequest;
      response.statusCode = used.statusCode;
      response.end(`${info.used} of ${info.limit}`);
    };
    const options: Partial<adapter.Options> = { windowMs: 5000, standardHeaders: draft };
    const logger: adapter.Logger = { error: () => {}, warn: () => {} };
    const middleware: adapter.RateLimitRequestHandler = rateLimit({
      ...options,
      ...{ store, limit, handler, logger },
    });
    expect(store.windowMs).toBe(5000);
    expect((await send(middleware, 2)).statuses).toEqual([200, 429]);
  });
});

describe('exports', () => {
  it('SECOND, MINUTE, HOUR and DAY are milliseconds', () => {
    const { SECOND, MINUTE, HOUR, DAY } = adapter;
    expect([SECOND, MINUTE, HOUR, DAY]).toEqual([1000, 60_000, 3_600_000, 86_400_000]);
  });

  it('`require` of sluice/express returns rateLimit with all exports as properties', async () => {
    const required = createRequire(import.meta.url)('sluice/express') as typeof adapter.rateLimit &
      Record<string, unknown>;
    expect((await send(required({ limit: 1 }), 2)).statuses).toEqual([200, 429]);
    const names = Object.keys(adapter).filter((name) => name !== 'module.exports');
    expect(Object.keys(required).sort()).toEqual(names.sort());
    const named = (required.rateLimit as typeof adapter.rateLimit)({ limit: 1 });
    expect((await send(named, 2)).statuses).toEqual([200, 429]);
  });
});
