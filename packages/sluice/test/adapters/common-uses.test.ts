/** Common uses of the adapters. */
import { createServer } from 'node:http';
import express from 'express';
import { fastify } from 'fastify';
import { describe, expect, it } from 'vitest';
import expressLimit, { ipKeyGenerator, rateLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import { memoryStore, type Store } from '../../src/index.ts';
import { withServer } from './listening.ts';

const silent = { onWarning: () => {} };

type Middleware = ReturnType<typeof rateLimit>;

function appWith(...middlewares: readonly Middleware[]): express.Express {
  const app = express();
  for (const each of middlewares) app.use(each as never);
  app.get('/', (_request, response) => void response.send('hello'));
  return app;
}

const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });

describe('trust proxy of Express', () => {
  it('Express: the limiter counts by the address that trust proxy determines', async () => {
    const app = express().set('trust proxy', 1);
    app.use(rateLimit({ limit: 1, window: '1h' }) as never);
    app.get('/', (_request, response) => void response.send('hello'));
    await withServer(createServer(app), async (url) => {
      expect((await fetch(url, from('203.0.113.1'))).status).toBe(200);
      expect((await fetch(url, from('203.0.113.2'))).status).toBe(200);
      expect((await fetch(url, from('6.6.6.6, 203.0.113.1'))).status).toBe(429);
    });
  });

  it('Express: the limiter warns once if trust proxy is true', async () => {
    const codes: string[] = [];
    const app = express().set('trust proxy', true);
    const onWarning = ({ code }: { code: string }): void => void codes.push(code);
    app.use(rateLimit({ limit: 9, window: '1h', onWarning }) as never);
    app.get('/', (_request, response) => void response.send('hello'));
    await withServer(createServer(app), async (url) => {
      for (let call = 0; call < 3; call++) await fetch(url, from('203.0.113.1'));
      expect(codes).toEqual(['WARN_TRUSTS_EVERYBODY']);
    });
  });

  it('Express: the limiter warns about an ignored header if trust proxy is not set', async () => {
    const codes: string[] = [];
    const onWarning = ({ code }: { code: string }): void => void codes.push(code);
    const app = appWith(rateLimit({ limit: 9, window: '1h', onWarning }));
    await withServer(createServer(app), async (url) => {
      for (let call = 0; call < 3; call++) await fetch(url, from('203.0.113.1'));
      expect(codes).toEqual(['WARN_FORWARDED_IGNORED']);
    });
  });
});

it('Express: the limiter warns if trust proxy does not trust the sending proxy', async () => {
  const codes: string[] = [];
  const app = express().set('trust proxy', '192.0.2.1');
  const onWarning = ({ code }: { code: string }): void => void codes.push(code);
  app.use(rateLimit({ limit: 9, window: '1h', onWarning }) as never);
  app.get('/', (_request, response) => void response.send('hello'));
  await withServer(createServer(app), async (url) => void (await fetch(url, from('203.0.113.1'))));
  expect(codes).toEqual(['WARN_FORWARDED_IGNORED']);
});

describe('limiters on one store', () => {
  it('limiters on one store share counters only if they have the same name', async () => {
    const store = memoryStore();
    const [wide, tight] = [
      { limit: 10, window: '1h' },
      { limit: 3, window: '1h' },
    ] as const;
    const app = appWith(rateLimit({ ...wide, store }), rateLimit({ ...tight, store }));
    await withServer(createServer(app), async (url) => {
      const responses = [];
      for (let call = 0; call < 4; call++) responses.push(await fetch(url));
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
      // One header lists both.
      expect(responses[0].headers.get('ratelimit')).toBe(
        '"default";r=9;t=3600, "default.2";r=2;t=3600',
      );
    });
    const named = { name: 'shared', limit: 1, window: '1h', store, key: () => 'a' } as const;
    const [one, other] = [fetchLimit(named), fetchLimit(named)].map((limit) =>
      limit(() => new Response('hello')),
    );
    expect((await one(new Request('http://localhost/'))).status).toBe(200);
    expect((await other(new Request('http://localhost/'))).status).toBe(429);
  });

  it('limiters apply a failure policy to a store without one', async () => {
    const fail = (): Promise<never> => Promise.reject(new Error('closed'));
    const store: Store = { decide: fail, adjust: fail, reset: fail, close: async () => {} };
    const options = { windowMs: 60_000, limit: 1, store } as const;
    const lenient = appWith(rateLimit({ ...options, passOnStoreError: true }));
    await withServer(createServer(lenient), async (url) => {
      expect((await fetch(url)).status).toBe(200);
    });
    const strict = appWith(rateLimit({ ...options, onFailure: 'deny' }));
    await withServer(createServer(strict), async (url) => {
      const denied = await fetch(url);
      expect(denied.status).toBe(503);
      expect([denied.headers.get('ratelimit'), denied.headers.has('retry-after')]).toEqual([
        null,
        true,
      ]);
    });
  });
});

describe('a denied request in Express', () => {
  it('Express: a denied request is passed to the handler option, which may call next', async () => {
    const limit = rateLimit({
      limit: 1,
      window: '1h',
      handler: (_request, _response, next, info) => {
        expect(info).toMatchObject({ statusCode: 429, limit: 1, windowMs: 3_600_000 });
        expect(info.message).toBe('Too many requests, please try again later.');
        next();
      },
    });
    await withServer(createServer(appWith(limit)), async (url) => {
      await fetch(url);
      const passed = await fetch(url);
      expect([passed.status, await passed.text()]).toEqual([200, 'hello']);
    });
  });

  it('Express: a denied request gets statusCode and message, also from a function', async () => {
    const message = (_request: unknown, response: { json(body: unknown): void }): void =>
      response.json({ slow: 'down' });
    const limit = rateLimit({ limit: 1, window: '1h', statusCode: 420, message });
    await withServer(createServer(appWith(limit)), async (url) => {
      await fetch(url);
      const denied = await fetch(url);
      expect([denied.status, await denied.json()]).toEqual([420, { slow: 'down' }]);
    });
    await withServer(
      createServer(appWith(rateLimit({ limit: 1, window: '1h', statusCode: 420 }))),
      async (url) => {
        await fetch(url);
        const problem = (await (await fetch(url)).json()) as { status: number };
        expect(problem.status).toBe(420);
      },
    );
  });

  it('Express: a request with a cost above the limit gets 413', async () => {
    const limit = rateLimit({ limit: 5, window: '1h', cost: () => 6 });
    const app = express();
    app.use(limit as never);
    app.use(
      ((error: { status: number }, _q: unknown, response: express.Response, _n: unknown) =>
        void response.sendStatus(error.status)) as never,
    );
    await withServer(createServer(app), async (url) => {
      expect((await fetch(url)).status).toBe(413);
    });
  });

  it('Express: requestWasSuccessful determines which requests count', async () => {
    const limit = rateLimit({
      windowMs: 60_000,
      limit: 1,
      skipSuccessfulRequests: true,
      requestWasSuccessful: () => false,
    });
    await withServer(createServer(appWith(limit)), async (url) => {
      await fetch(url);
      expect((await fetch(url)).status).toBe(429);
    });
  });
});

describe('compatibility with express-rate-limit', () => {
  it('Express: the adapter has a default export, a limit of 5 and numeric keys', async () => {
    const limit = expressLimit({ windowMs: 60_000, keyGenerator: () => 42, validate: false });
    await withServer(createServer(appWith(limit)), async (url) => {
      const statuses = [];
      for (let call = 0; call < 6; call++) statuses.push((await fetch(url)).status);
      expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
    });
    expect(ipKeyGenerator('2001:db8::1')).toBe('2001:db8::/64');
  });

  it('Express: a window without a limit throws ERR_INVALID_OPTION', () => {
    expect(() => rateLimit({ window: '1m' })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  });
});

it('Fastify: HEAD and GET of a route share its limit', async () => {
  const app = fastify();
  await app.register(fastifyLimit, { store: memoryStore() });
  const config = { rateLimit: { limit: 2, window: '1h' } } as never;
  app.get('/', { config }, async () => 'hello');
  app.get(
    '/other',
    { config: { rateLimit: { limit: 2, window: '1h' } } as never },
    async () => 'hi',
  );
  const statusOf = async (method: 'GET' | 'HEAD', url = '/') =>
    (await app.inject({ method, url })).statusCode;
  expect([await statusOf('GET'), await statusOf('HEAD'), await statusOf('GET')]).toEqual([
    200, 200, 429,
  ]);
  expect(await statusOf('GET', '/other')).toBe(200);
  await app.close();
});

it('Fastify: the plugin counts by the address that trustProxy determines', async () => {
  const app = fastify({ trustProxy: '127.0.0.1' });
  await app.register(fastifyLimit, { limit: 1, window: '1h' });
  app.get('/', async () => 'hello');
  const statusOf = async (address: string): Promise<number> =>
    (await app.inject({ url: '/', headers: { 'x-forwarded-for': address } })).statusCode;
  const statuses = [
    await statusOf('203.0.113.1'),
    await statusOf('203.0.113.2'),
    await statusOf('203.0.113.1'),
  ];
  expect(statuses).toEqual([200, 200, 429]);
  await app.close();
});

it('Fastify: the plugin warns once if trustProxy is true', async () => {
  const codes: string[] = [];
  const onWarning = ({ code }: { code: string }): void => void codes.push(code);
  const app = fastify({ trustProxy: true });
  await app.register(async (inner) => {
    await inner.register(fastifyLimit, { limit: 1, window: '1h', onWarning });
    inner.get('/', async () => 'hello');
  });
  for (const address of ['203.0.113.1', '203.0.113.2']) {
    await app.inject({ url: '/', headers: { 'x-forwarded-for': address } });
  }
  expect(codes).toEqual(['WARN_TRUSTS_EVERYBODY']);
  await app.close();
});

it('Fastify: the plugin warns if trustProxy of Fastify does not trust the proxy', async () => {
  for (const trustProxy of [1, '192.0.2.1']) {
    const warnings: { code: string; message: string }[] = [];
    const onWarning = (warning: { code: string; message: string }) => void warnings.push(warning);
    // The types of Fastify do not allow a number.
    const app = fastify({ trustProxy: trustProxy as string });
    await app.register(fastifyLimit, { limit: 1, window: '1h', onWarning });
    app.get('/', async () => 'hello');
    const headers = { 'x-forwarded-for': '203.0.113.1' };
    for (let call = 0; call < 2; call++) await app.inject({ url: '/', headers });
    expect(warnings.map(({ code }) => code)).toEqual(['WARN_FORWARDED_IGNORED']);
    expect(warnings[0].message).toContain('set trustProxy of the limiter');
    await app.close();
  }
});

it('Fastify: following the advice of a warning gives each client an own limit', async () => {
  const messages: string[] = [];
  const onWarning = ({ message }: { message: string }) => void messages.push(message);
  /** Returns the statuses of two clients, twice. */
  async function statuses(ofFramework: object, ofLimiter: object): Promise<number[]> {
    const app = fastify(ofFramework);
    await app.register(fastifyLimit, { limit: 1, window: '1h', onWarning, ...ofLimiter });
    app.get('/', async () => 'hello');
    const found = [];
    for (const address of ['203.0.113.1', '203.0.113.2', '203.0.113.1']) {
      const headers = { 'x-forwarded-for': address };
      found.push((await app.inject({ url: '/', headers })).statusCode);
    }
    await app.close();
    return found;
  }
  await statuses({ trustProxy: true }, {});
  expect(messages.pop()).toContain(
    "Set it to the networks of the proxies, such as ['10.0.0.0/8'].",
  );
  expect(await statuses({ trustProxy: ['127.0.0.0/8'] }, {})).toEqual([200, 200, 429]);
  expect(await statuses({ trustProxy: 1 }, { trustProxy: 1 })).toEqual([200, 200, 429]);
  expect(messages).toEqual([]);
});

it('Fastify: a route with its own limits inherits no key or cost of the plugin', async () => {
  const app = fastify();
  await app.register(fastifyLimit, { limit: 9, window: '1h', key: () => 'one', cost: 3 });
  const several = [{ name: 'user', limit: 1, window: '1h', key: { header: 'x-user' } }];
  app.get('/', { config: { rateLimit: { limits: several } } as never }, async () => 'hello');
  const own = { limit: 4, keyGenerator: () => 'other' };
  app.get('/own', { config: { rateLimit: own } as never }, async () => 'hello');
  const statusOf = async (url: string, user: string) =>
    (await app.inject({ url, headers: { 'x-user': user } })).statusCode;
  expect([
    await statusOf('/', 'ada'),
    await statusOf('/', 'bob'),
    await statusOf('/', 'ada'),
  ]).toEqual([200, 200, 429]);
  expect([await statusOf('/own', 'ada'), await statusOf('/own', 'bob')]).toEqual([200, 429]);
  await app.close();
});

it('a fetch handler with numeric trustProxy needs no socket address', async () => {
  const limited = fetchLimit({ limit: 1, window: '1h', trustProxy: 1, ...silent });
  const handle = limited(() => new Response('hello'));
  const statusOf = async (address: string): Promise<number> =>
    (await handle(new Request('http://localhost/', from(address)))).status;
  const statuses = [
    await statusOf('203.0.113.1'),
    await statusOf('203.0.113.2'),
    await statusOf('203.0.113.1'),
  ];
  expect(statuses).toEqual([200, 200, 429]);
});

it('node:http: a handler that throws results in 500', async () => {
  const handler = nodeLimit({ limit: 5, window: '1h' })(() => {
    throw new Error('mine');
  });
  await withServer(createServer(handler), async (url) => {
    expect((await fetch(url)).status).toBe(500);
  });
});
