/** Stores of express-rate-limit in the Express adapter. */
import { createServer } from 'node:http';
import express, { type Request, type RequestHandler, type Response } from 'express';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ExpressOptions, type LegacyStore, rateLimit } from '../../src/adapters/express.ts';
import { withServer } from './listening.ts';

const START_MS = 1_745_000_100_000;
const WINDOW_MS = 10_000;

beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: START_MS }));
afterEach(() => vi.useRealTimers());

/** Counts in fixed windows. Records the calls. */
class FixedWindows {
  readonly calls: string[] = [];
  readonly hits = new Map<string, number>();
  options: { windowMs?: number; limit?: unknown; statusCode?: number } = {};
  endMs = START_MS + WINDOW_MS;
  /** What `increment` throws. */
  error: Error | undefined;

  init(options: typeof this.options): void {
    this.options = options;
  }

  #add(key: string, amount: number): number {
    if (Date.now() >= this.endMs) {
      this.endMs = Date.now() + WINDOW_MS;
      this.hits.clear();
    }
    const hits = (this.hits.get(key) ?? 0) + amount;
    this.hits.set(key, hits);
    return hits;
  }

  async increment(key: string) {
    this.calls.push(`increment ${key}`);
    if (this.error !== undefined) throw this.error;
    const totalHits = this.#add(key, 1);
    return { totalHits, resetTime: new Date(this.endMs) };
  }

  async decrement(key: string): Promise<void> {
    this.calls.push(`decrement ${key}`);
    this.#add(key, -1);
  }

  async resetKey(key: string): Promise<void> {
    this.calls.push(`resetKey ${key}`);
    this.hits.delete(key);
  }

  async get(key: string) {
    const totalHits = this.hits.get(key);
    return totalHits === undefined ? undefined : { totalHits, resetTime: new Date(this.endMs) };
  }
}

const SETTINGS: ExpressOptions = {
  windowMs: WINDOW_MS,
  limit: 2,
  keyGenerator: () => 'ada',
  standardHeaders: true,
  onWarning: () => {},
};

interface Recorded {
  readonly status: number;
  readonly headers: Headers;
}

/** Sends a request for each status to respond with. */
async function send(limit: object, ...statuses: number[]): Promise<Recorded[]> {
  const app = express();
  app.use(limit as RequestHandler);
  app.get('/', (request: Request, response: Response) => {
    response.status(Number(request.get('x-status'))).send('hello');
  });
  app.use((_error: Error, _request: Request, response: Response, _next: unknown) => {
    response.status(500).send('failed');
  });
  const recorded: Recorded[] = [];
  await withServer(createServer(app), async (url) => {
    for (const status of statuses) {
      const response = await fetch(url, { headers: { 'x-status': String(status) } });
      recorded.push({ status: response.status, headers: response.headers });
    }
  });
  return recorded;
}

const statusesOf = (recorded: readonly Recorded[]): number[] =>
  recorded.map(({ status }) => status);

describe('a store of express-rate-limit', () => {
  it('a store of express-rate-limit counts requests and sets the reset headers', async () => {
    const store = new FixedWindows();
    const recorded = await send(rateLimit({ ...SETTINGS, store }), 200, 200, 200);
    expect(statusesOf(recorded)).toEqual([200, 200, 429]);
    const remaining = recorded.map(({ headers }) => headers.get('ratelimit-remaining'));
    expect(remaining).toEqual(['1', '0', '0']);
    expect(recorded[2].headers.get('retry-after')).toBe('10');
    expect(store.calls).toEqual(Array(3).fill('increment ada'));
  });

  it('if a store returns no reset time, Retry-After is a whole window', async () => {
    let totalHits = 0;
    const store = {
      increment: () => ({ totalHits: ++totalHits, resetTime: undefined }),
      decrement: () => {},
      resetKey: () => {},
    };
    const recorded = await send(rateLimit({ ...SETTINGS, store }), 200, 200, 200);
    expect(statusesOf(recorded)).toEqual([200, 200, 429]);
    expect(recorded[2].headers.get('retry-after')).toBe('10');
  });

  it('a store with `incr` and a callback counts requests', async () => {
    let hits = 0;
    const store: LegacyStore = {
      incr: (_key, callback) => callback(undefined, ++hits, undefined),
      decrement: () => {
        hits--;
      },
      resetKey: () => {},
    };
    expect(statusesOf(await send(rateLimit({ ...SETTINGS, store }), 200, 200, 200))).toEqual([
      ...[200, 200, 429],
    ]);
    const failing: LegacyStore = {
      ...store,
      incr: (_key, callback) => callback(new Error('unavailable'), 0, undefined),
    };
    const passing = rateLimit({ ...SETTINGS, store: failing, passOnStoreError: true });
    expect(statusesOf(await send(passing, 200, 200, 200))).toEqual([200, 200, 200]);
  });

  it('`init` of a store receives the options with their defaults', () => {
    const store = new FixedWindows();
    rateLimit({ store, onWarning: () => {} });
    expect(store.options).toMatchObject({ windowMs: 60_000, limit: 5, statusCode: 429 });
    rateLimit({ store, max: 7, window: '1h', onWarning: () => {} });
    expect(store.options).toMatchObject({ windowMs: 3_600_000, limit: 7 });
  });

  it.each([
    () => Promise.reject(new Error('no table')),
    () => {
      throw new Error('no table');
    },
  ])('an error of `init` is logged: %s', async (init) => {
    const logged: unknown[][] = [];
    const logger = { error: (...call: unknown[]) => logged.push(call), warn: () => {} };
    rateLimit({ store: Object.assign(new FixedWindows(), { init }), logger });
    await Promise.resolve();
    expect(logged).toEqual([[new Error('no table'), 'Sluice: `init` of the store failed']]);
  });

  it('rateLimit warns that a store of express-rate-limit has fixed windows', () => {
    const codes: string[] = [];
    const onWarning = ({ code }: { code: string }): void => void codes.push(code);
    rateLimit({ ...SETTINGS, store: new FixedWindows(), onWarning });
    expect(codes).toEqual(['WARN_FIXED_WINDOW_STORE']);
  });

  it('getKey and resetKey of the middleware call the store', async () => {
    const store = new FixedWindows();
    const limit = rateLimit({ ...SETTINGS, store });
    expect(await limit.getKey('ada')).toBeUndefined();
    await send(limit, 200);
    expect(await limit.getKey('ada')).toEqual({
      totalHits: 1,
      resetTime: new Date(START_MS + WINDOW_MS),
    });
    await limit.resetKey('ada');
    expect(await limit.getKey('ada')).toBeUndefined();
    const { increment, decrement, resetKey } = store;
    const unreadable = rateLimit({ ...SETTINGS, store: { increment, decrement, resetKey } });
    expect(() => unreadable.getKey('ada')).toThrow('Expected `store` to have the method `get`');
  });

  it.each([
    { limits: [{ limit: 2 }], limit: undefined, windowMs: undefined, keyGenerator: undefined },
    { cost: 2 },
    { settle: () => 2 },
    { algorithm: 'sliding-log' },
  ])('with a store of express-rate-limit, rateLimit rejects the options %j', (options) => {
    const store = new FixedWindows();
    expect(() => rateLimit({ ...SETTINGS, ...options, store } as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  });

  it.each([
    {},
    { increment: () => {} },
    { increment: () => {}, decrement: () => {} },
    { ...new FixedWindows(), increment: () => {}, decrement: 1, resetKey: () => {} },
    { increment: () => {}, decrement: () => {}, resetKey: () => {}, init: 'x' },
  ])('rateLimit rejects the incomplete store %j', (store) => {
    expect(() => rateLimit({ ...SETTINGS, store: store as never })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  });
});

describe('refunds in a store of express-rate-limit', () => {
  it('skipSuccessfulRequests refunds successes, skipFailedRequests failures', async () => {
    const successes = new FixedWindows();
    const skipping = rateLimit({ ...SETTINGS, store: successes, skipSuccessfulRequests: true });
    expect(statusesOf(await send(skipping, 200, 200, 401, 401, 200))).toEqual([
      ...[200, 200, 401, 401, 429],
    ]);
    // The denied request is refunded too, so it does not delay the next admission.
    await vi.waitFor(() => expect(successes.hits.get('ada')).toBe(2));
    const failures = new FixedWindows();
    const only = rateLimit({ ...SETTINGS, store: failures, skipFailedRequests: true });
    expect(statusesOf(await send(only, 500, 200, 404, 200, 200))).toEqual([
      ...[500, 200, 404, 200, 429],
    ]);
    await vi.waitFor(() => expect(failures.hits.get('ada')).toBe(2));
  });

  it('a request that ends in a later window is not refunded there', async () => {
    const store = new FixedWindows();
    const limit = rateLimit({ ...SETTINGS, store, skipSuccessfulRequests: true });
    // The window has begun 6 s before the request, which takes 5 s.
    vi.setSystemTime(START_MS + 6000);
    const app = express();
    app.use(limit as RequestHandler);
    app.get('/', (_request, response) => {
      vi.setSystemTime(START_MS + 11_000);
      response.send('hello');
    });
    await withServer(createServer(app), async (url) => void (await fetch(url)));
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(store.calls).toEqual(['increment ada']);
  });
});

describe('a store of express-rate-limit that fails', () => {
  const error = new Error('unavailable');

  it.each([
    [{}, [200, 200, 429], 'limiting the request in this process alone'],
    [{ passOnStoreError: true }, [200, 200, 200], 'allowing the request without a limit'],
    [{ onFailure: 'deny' }, [503, 503, 503], 'denying the request'],
    [{ onFailure: 'throw' }, [500, 500, 500], 'failing the request'],
  ] as const)(
    'if the store fails, %j results in the statuses %j, and each error is logged',
    async (more, wanted, what) => {
      const logged: unknown[][] = [];
      const logger = { error: (...call: unknown[]) => logged.push(call), warn: () => {} };
      const store = Object.assign(new FixedWindows(), { error });
      const { onWarning: _, ...settings } = SETTINGS;
      const limit = rateLimit({ ...settings, ...more, store, logger });
      expect(statusesOf(await send(limit, 200, 200, 200))).toEqual(wanted);
      expect(logged).toEqual(Array(3).fill([error, `Sluice: the store failed, ${what}`]));
    },
  );

  it('a store that does not reply is logged, and onDecision is still called', async () => {
    const logged: unknown[][] = [];
    const logger = { error: (...call: unknown[]) => logged.push(call), warn: () => {} };
    const store = Object.assign(new FixedWindows(), {
      increment: () => new Promise<never>(() => {}),
    });
    const decided: unknown[] = [];
    const { onWarning: _, ...settings } = SETTINGS;
    const limit = rateLimit({
      ...settings,
      ...{ store, logger, passOnStoreError: true },
      onDecision: ({ degraded }) => void decided.push(degraded),
    });
    expect(statusesOf(await send(limit, 200))).toEqual([200]);
    const message = 'Sluice: the store failed, allowing the request without a limit';
    expect(logged).toEqual([[new Error('no reply within 1 s'), message]]);
    expect(decided).toEqual([{ reason: 'timeout', action: 'allow' }]);
  });

  it('without a logger, errors of the store are emitted as warnings', async () => {
    const warnings: unknown[] = [];
    const store = Object.assign(new FixedWindows(), { error });
    const onWarning = (warning: unknown) => void warnings.push(warning);
    await send(rateLimit({ ...SETTINGS, store, onWarning, passOnStoreError: true }), 200);
    expect(warnings[1]).toEqual({
      code: 'WARN_STORE_FAILED',
      message: 'Sluice: the store failed, allowing the request without a limit: unavailable',
    });
  });

  it.each([undefined, null, {}, { totalHits: Number.NaN }, { totalHits: '1' }, { totalHits: 0 }])(
    'a store that returns the count %j fails and does not admit the request',
    async (counted) => {
      const store = Object.assign(new FixedWindows(), { increment: async () => counted as never });
      const logger = { error: () => {}, warn: () => {} };
      const { onWarning: _, ...settings } = SETTINGS;
      const limit = rateLimit({ ...settings, store, logger, onFailure: 'deny' });
      expect(statusesOf(await send(limit, 200))).toEqual([503]);
    },
  );

  it('a logger that throws does not fail the request', async () => {
    const fail = (): never => {
      throw new Error('of the logger');
    };
    const store = Object.assign(new FixedWindows(), { error });
    const { onWarning: _, ...settings } = SETTINGS;
    const emitted = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const limit = rateLimit({ ...settings, store, logger: { error: fail, warn: fail } });
    expect(statusesOf(await send(limit, 200))).toEqual([200]);
    expect(emitted).toHaveBeenCalled();
    emitted.mockRestore();
  });
});
