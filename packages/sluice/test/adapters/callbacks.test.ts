/** Option functions that return promises, throw or reject, and requests of cost 0. */
import { createServer } from 'node:http';
import express from 'express';
import { Hono } from 'hono';
import { describe, expect, it, vi } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import { withFailurePolicy } from '../../src/failure/guarded-store.ts';
import { limitFetch } from '../../src/http/limit-fetch.ts';
import { createLimiter, memoryStore } from '../../src/index.ts';
import { withServer } from './listening.ts';

const ONE = { limit: 1, window: '1h', key: () => 'ada' } as const;

async function statuses(url: string, count: number, init: RequestInit = {}): Promise<number[]> {
  const found = [];
  for (let call = 0; call < count; call++) found.push((await fetch(url, init)).status);
  return found;
}

const url = 'http://localhost/';

/** Serves an Express app that responds 401. */
function logins(options: object) {
  const app = express();
  app.use(expressLimit({ ...ONE, limit: 8, ...options } as never) as never);
  app.get('/', (_request, response) => void response.status(401).send());
  return createServer(app);
}

describe('requestWasSuccessful', () => {
  const counts = { skipSuccessfulRequests: true };

  it('an async requestWasSuccessful is awaited: failed logins reach the limit', async () => {
    const requestWasSuccessful = async (_request: unknown, response: { statusCode: number }) =>
      response.statusCode < 400;
    await withServer(logins({ ...counts, requestWasSuccessful }), async (address) => {
      expect(await statuses(address, 10)).toEqual([...Array(8).fill(401), 429, 429]);
    });
  });

  it('an async requestWasSuccessful that resolves to true refunds the request', async () => {
    const requestWasSuccessful = async () => true;
    await withServer(logins({ ...counts, requestWasSuccessful }), async (address) => {
      expect(await statuses(address, 10)).toEqual(Array(10).fill(401));
    });
  });

  it('requestWasSuccessful is not called for a client that has disconnected', async () => {
    const requestWasSuccessful = vi.fn(() => true);
    const store = memoryStore();
    const app = express();
    const options = { ...ONE, name: 'login', store, skipSuccessfulRequests: true };
    app.use(expressLimit({ ...options, requestWasSuccessful }) as never);
    const closed = new Promise<void>((resolve) => {
      app.get('/', (request, response) => {
        response.once('close', resolve);
        request.socket.destroy();
      });
    });
    await withServer(createServer(app), async (address) => {
      await fetch(address).catch(() => {});
      await closed;
      await new Promise((resolve) => setTimeout(resolve, 5));
    });
    expect(requestWasSuccessful).not.toHaveBeenCalled();
    const limiter = createLimiter({ policies: { login: '1/1h' }, store });
    expect((await limiter.inspect('login', 'ada'))?.used).toBe(1);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    [
      'rejects',
      async () => {
        throw new Error('broken');
      },
    ],
  ])('a requestWasSuccessful that %s keeps the charge and emits one warning', async (_, given) => {
    const warnings: { code: string; message: string }[] = [];
    const onWarning = (warning: { code: string; message: string }) => void warnings.push(warning);
    const options = { ...counts, requestWasSuccessful: given, onWarning };
    await withServer(logins(options), async (address) => {
      expect(await statuses(address, 9)).toEqual([...Array(8).fill(401), 429]);
    });
    expect(warnings).toMatchObject([{ code: 'WARN_CALLBACK' }]);
    expect(warnings[0].message).toContain('requestWasSuccessful');
  });
});

describe('functions that fail', () => {
  const failing = (): never => {
    throw new Error('broken');
  };

  it.each(['skip', 'keyGenerator', 'cost', 'limit', 'handler'])(
    'Express: an error in `%s`, thrown or rejected, goes to the error handler',
    async (name) => {
      for (const given of [failing, async () => failing()]) {
        const errors: unknown[] = [];
        const app = express();
        const { key: _, ...options } = { ...ONE, [name]: given };
        app.use(expressLimit(options) as never);
        app.get('/', (_request, response) => void response.send('hello'));
        app.use(((error, _request, response, _next) => {
          errors.push(error.message);
          response.status(500).send();
        }) as express.ErrorRequestHandler);
        await withServer(createServer(app), async (address) => {
          expect((await statuses(address, 2)).at(-1)).toBe(500);
        });
        expect(errors.at(-1)).toBe('broken');
      }
    },
  );

  it('node: an error in `onError` results in a 500 response', async () => {
    for (const onError of [failing, async () => failing()]) {
      const server = createServer(nodeLimit({ ...ONE, skip: failing, onError })(() => {}));
      await withServer(server, async (address) => {
        expect(await statuses(address, 2)).toEqual([500, 500]);
      });
    }
  });

  it('an onShadow and an onWarning that throw do not end the process', async () => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const options = { ...ONE, shadow: true, onShadow: failing, onWarning: failing };
    const limited = fetchLimit(options)(() => new Response('hello'));
    expect((await limited(new Request(url))).status).toBe(200);
    await vi.waitFor(() => expect(emit).toHaveBeenCalled());
    emit.mockRestore();
  });

  it('Express: a response that was sent while the store decided is left unchanged', async () => {
    const store = memoryStore();
    const slow = {
      decide: async (...args: Parameters<typeof store.decide>) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return store.decide(...args);
      },
      adjust: store.adjust.bind(store),
      reset: store.reset.bind(store),
      close: async () => {},
    };
    const errors: unknown[] = [];
    const app = express();
    app.use((_request, response, next) => {
      setTimeout(() => response.status(202).send('later'), 1);
      next();
    });
    app.use(expressLimit({ ...ONE, store: slow }) as never);
    app.use((_request, response) => void (response.headersSent || response.send('hello')));
    app.use(((error, _request, _response, next) => {
      errors.push(error);
      next();
    }) as express.ErrorRequestHandler);
    await withServer(createServer(app), async (address) => {
      expect(await statuses(address, 2)).toEqual([202, 202]);
      await new Promise((resolve) => setTimeout(resolve, 50));
    });
    expect(errors).toEqual([]);
  });
});

describe('the address option', () => {
  const address = async () => '192.0.2.1';

  it('an async `address` is awaited by fetch and Hono', async () => {
    const limited = fetchLimit({ limit: 1, window: '1h', address })(() => new Response('hello'));
    const found = [];
    for (let call = 0; call < 2; call++) found.push((await limited(new Request(url))).status);
    const app = new Hono();
    app.use(honoLimit({ limit: 1, window: '1h', address }));
    app.get('/', (context) => {
      const { key } = context.get('rateLimit' as never) as { key: string };
      return context.text(key);
    });
    const first = await app.request('/');
    found.push(first.status, (await app.request('/')).status);
    expect(found).toEqual([200, 429, 200, 429]);
    expect(await first.text()).toBe('192.0.2.1');
  });
});

describe('fetch handlers without a response', () => {
  /** As Bun calls a handler: with the server as the second argument. */
  const bun = { requestIP: () => ({ address: '192.0.2.1' }) };

  it('fetch: a request that a handler upgraded to a WebSocket is charged', async () => {
    const outcomes: unknown[] = [];
    const options = {
      limit: 1,
      window: '1h',
      settle: ({ status }: { status: number }) => void outcomes.push(status),
    } as const;
    const limited = fetchLimit<[typeof bun]>(options)((): Response | undefined => undefined);
    expect(await limited(new Request(url), bun)).toBeUndefined();
    expect((await limited(new Request(url), bun))?.status).toBe(429);
    expect(outcomes).toEqual([101]);
  });
});

describe('onFailure: throw', () => {
  const fail = (): Promise<never> => Promise.reject(new Error('down'));
  const store = () =>
    withFailurePolicy(
      { decide: fail, adjust: fail, reset: fail, close: async () => {} },
      { onFailure: 'throw' },
    );

  it('fetch: with onFailure: throw, a failing store results in 503 problem details', async () => {
    const limited = fetchLimit({ ...ONE, store: store() })(() => new Response('hello'));
    const response = await limited(new Request(url));
    expect(response.status).toBe(503);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await response.json()).toMatchObject({ title: 'Temporary Reduced Capacity' });
  });

  it('Hono: a store error results in 503, or is passed to the app.onError handler', async () => {
    const app = new Hono();
    app.use(honoLimit({ ...ONE, store: store() }));
    expect((await app.request('/')).status).toBe(503);
    app.onError((error, context) => context.text((error as unknown as { code: string }).code, 500));
    expect(await (await app.request('/')).text()).toBe('ERR_STORE_UNAVAILABLE');
  });

  it('fetch and Hono respond 413 if the cost is above the limit', async () => {
    const limited = fetchLimit({ ...ONE, cost: () => 2 })(() => new Response('hello'));
    expect((await limited(new Request(url))).status).toBe(413);
    const app = new Hono();
    app.use(honoLimit({ ...ONE, cost: () => 2 }));
    expect((await app.request('/')).status).toBe(413);
  });

  it('fetch: an error of the handler rejects and does not become a response', async () => {
    const limited = fetchLimit(ONE)(() => {
      throw new Error('mine');
    });
    await expect(limited(new Request(url))).rejects.toThrow('mine');
  });
});

describe('free requests', () => {
  const costs = (request: Request): number => Number(request.headers.get('x-cost'));
  const sent = (cost: number) => new Request(url, { headers: { 'x-cost': String(cost) } });

  /** Returns the status, what remains, and Retry-After. */
  function shown({ status, headers }: Response): unknown[] {
    return [status, headers.get('ratelimit'), headers.get('retry-after')];
  }

  it('a request of cost 0 passes, is not charged, and reports the limit', async () => {
    const limited = fetchLimit({ ...ONE, cost: costs })(() => new Response('hello'));
    expect(shown(await limited(sent(0)))).toEqual([200, '"default";r=1;t=0', null]);
    expect((await limited(sent(1))).status).toBe(200);
    expect((await limited(sent(1))).status).toBe(429);
    expect(shown(await limited(sent(0)))).toEqual([200, '"default";r=0;t=3600', null]);
  });

  it('fetch: with the option cost: 0, no request is denied', async () => {
    const limited = fetchLimit({ ...ONE, cost: 0 })(() => new Response('hello'));
    for (let call = 0; call < 3; call++) expect((await limited(sent(0))).status).toBe(200);
  });

  it('a request with cost 0 in one limit is charged by the other limits', async () => {
    const limited = fetchLimit({
      limits: [
        { name: 'work', limit: 5, window: '1h', key: () => 'a', cost: costs },
        { name: 'requests', limit: 2, window: '1h', key: () => 'a' },
      ],
    })(() => new Response('hello'));
    const remaining = [];
    for (const cost of [0, 5, 0]) {
      const response = await limited(sent(cost));
      const numbers = response.headers.get('ratelimit')!.match(/r=\d+/g)!;
      remaining.push([response.status, ...numbers]);
    }
    expect(remaining).toEqual([
      [200, 'r=5', 'r=1'],
      [200, 'r=0', 'r=0'],
      [429, 'r=0', 'r=0'],
    ]);
  });

  it('a request of cost 0 passes above the limit, and `settle` does not charge it', async () => {
    const settle = () => 9;
    const limited = fetchLimit({ ...ONE, cost: costs, settle })(() => new Response('hello'));
    for (const cost of [0, 1, 0, 0]) expect((await limited(sent(cost))).status).toBe(200);
  });

  it('a request of cost 0 passes if the store fails', async () => {
    const fail = (): Promise<never> => Promise.reject(new Error('down'));
    const store = { decide: fail, adjust: fail, reset: fail, close: async () => {} };
    const options = { ...ONE, cost: costs, store, onFailure: 'deny' } as const;
    const limited = fetchLimit(options)(() => new Response('hello'));
    expect((await limited(sent(0))).status).toBe(200);
    expect((await limited(sent(1))).status).toBe(503);
  });

  it('limitFetch sends a call of cost 0, and awaits async functions', async () => {
    const limiter = createLimiter({ policies: { quota: '1/1h' } });
    const limited = limitFetch(async () => new Response('hello'), limiter, {
      policy: 'quota',
      key: async () => 'ada',
      cost: async (input) => Number(new URL(String(input)).searchParams.get('cost')),
    });
    const found = [];
    for (const cost of [0, 1, 1, 0]) found.push((await limited(`${url}?cost=${cost}`)).status);
    expect(found).toEqual([200, 200, 429, 200]);
  });
});
