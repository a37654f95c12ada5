/** Error responses, network lists and invalid options. */
import 'reflect-metadata';
import { createServer } from 'node:http';
import express from 'express';
import { fastify } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { describe, expect, it } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { rateLimit as koaLimit } from '../../src/adapters/koa.ts';
import { RateLimitGuard } from '../../src/adapters/nest.ts';
import { rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import { SluiceError } from '../../src/index.ts';
import { withServer } from './listening.ts';

const ONE = { limit: 1, window: '1h' } as const;
const MANY = { limit: 99, window: '1h' } as const;
const newRequest = () => new Request('http://localhost/');

describe('a handler behind sluice/node that throws', () => {
  it.each([
    ['an error', new Error('mine')],
    ['an error with an invalid status', Object.assign(new Error('mine'), { status: 'NOT_FOUND' })],
    ['an error with a success status', Object.assign(new Error('mine'), { status: 200 })],
    ['null', null],
  ])('%s: a handler that throws results in 500 and keeps the connection', async (_, error) => {
    const limited = nodeLimit(MANY)((_request, response) => {
      response.setHeader('content-length', 1000);
      throw error;
    });
    await withServer(createServer(limited), async (url) => {
      for (let call = 0; call < 2; call++) {
        const { status, headers } = await fetch(url, { signal: AbortSignal.timeout(20_000) });
        expect([status, headers.get('content-length')]).toEqual([500, '0']);
        expect(headers.get('ratelimit')).toBe(`"default";r=${98 - call};t=3600`);
      }
    });
  });
});

it('Koa: an error response has the rate-limit headers and those of the error', async () => {
  const app = new Koa();
  app.silent = true;
  app.use(koaLimit(MANY) as never);
  app.use(() => {
    throw Object.assign(new Error('mine'), { status: 503, headers: { 'x-own': 'yes' } });
  });
  await withServer(createServer(app.callback()), async (url) => {
    const { status, headers } = await fetch(url);
    expect([status, headers.get('ratelimit'), headers.get('x-own')]).toEqual([
      503,
      '"default";r=98;t=3600',
      'yes',
    ]);
  });
});

it('Hono: a handler that throws a non-error counts as failed', async () => {
  const app = new Hono();
  app.use(honoLimit({ ...ONE, key: () => 'a', count: 'successes' }));
  app.get('/', () => {
    throw 'no error';
  });
  for (let call = 0; call < 3; call++) {
    await expect(Promise.resolve(app.request('/'))).rejects.toBe('no error');
  }
});

describe('network lists', () => {
  it('Express: a denied network gets 403, regardless of statusCode and message', async () => {
    const app = express();
    app.use(
      expressLimit({ ...ONE, deny: ['loopback'], statusCode: 420, message: 'slow' }) as never,
    );
    await withServer(createServer(app), async (url) => {
      const response = await fetch(url);
      expect([response.status, await response.json()]).toEqual([
        403,
        { type: 'about:blank', title: 'Forbidden', status: 403 },
      ]);
    });
  });

  it('a request without the header of a counted proxy is in no list', async () => {
    const limited = fetchLimit({ ...ONE, trustProxy: 1, allow: ['loopback'], onWarning: () => {} });
    const GET = limited(() => new Response('hello'));
    expect([(await GET(newRequest())).status, (await GET(newRequest())).status]).toEqual([
      200, 429,
    ]);
  });
});

describe('invalid options', () => {
  it.each([
    ['an allow option that is not a list', { ...ONE, allow: '10.0.0.0/8' }, '`allow` to be a list'],
    ['a deny option that is null', { ...ONE, deny: null }, '`deny` to be a list'],
    ['a store that is null', { ...ONE, store: null }, '`store` to be a store'],
    [
      'two options for count',
      { ...ONE, count: 'successes', skipSuccessfulRequests: true },
      'one of count and those that skip requests',
    ],
    [
      'two options for an unavailable store',
      { ...ONE, onFailure: 'deny', passOnStoreError: true },
      'one of onFailure and passOnStoreError',
    ],
  ])('fetchLimit rejects %s', (_, options, message) => {
    expect(() => fetchLimit(options as never)).toThrow(message);
    expect(() => fetchLimit(options as never)).toThrow(SluiceError);
  });

  it.each([
    ['an unknown option', { limt: 1 }, 'limt'],
    ['trustProxy: true', { window: '1m', trustProxy: true }, 'trustProxy to be the number'],
  ])('Fastify and Nest reject %s, also without a limit', async (_, options, message) => {
    await expect(async () => {
      await fastify().register(fastifyLimit, options as never);
    }).rejects.toThrow(message);
    expect(() => new RateLimitGuard(options as never)).toThrow(message);
  });
});

it('Fastify: windowMs alone means a limit of 5', async () => {
  const app = fastify();
  await app.register(fastifyLimit, { windowMs: 60_000 });
  app.get('/', async () => 'hello');
  const statuses: number[] = [];
  for (let call = 0; call < 6; call++) statuses.push((await app.inject('/')).statusCode);
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
  await app.close();
});

it('Fastify: the handler of denied requests can return the body', async () => {
  const app = fastify();
  const handler = async () => ({ error: 'slow down' });
  await app.register(fastifyLimit, { ...ONE, handler });
  app.get('/', async () => 'hello');
  await app.inject('/');
  const denied = await app.inject('/');
  expect([denied.statusCode, denied.json()]).toEqual([429, { error: 'slow down' }]);
  await app.close();
});

it('the express adapter works with node:http', async () => {
  const seen: unknown[] = [];
  const limit = expressLimit({
    ...ONE,
    keyGenerator: (_request, response) => {
      seen.push(typeof response.setHeader);
      return 'a';
    },
    message: { error: 'slow down' },
  });
  const server = createServer((request, response) =>
    limit(request, response, () => void response.end('hello')),
  );
  await withServer(server, async (url) => {
    await fetch(url);
    const denied = await fetch(url);
    expect([denied.status, await denied.json()]).toEqual([429, { error: 'slow down' }]);
    expect(seen).toEqual(['function', 'function']);
  });
});

it('a handler cannot change the shared headers of denied requests', async () => {
  const handler = (_: Request, { headers }: { headers: readonly unknown[] }) => {
    expect(() => (headers as unknown[]).push(['x-own', 'yes'])).toThrow(TypeError);
    return new Response(null, { status: 429 });
  };
  const GET = fetchLimit({ ...ONE, key: () => 'a', handler })(() => new Response('hello'));
  const statuses = [];
  for (let call = 0; call < 3; call++) statuses.push((await GET(newRequest())).status);
  expect(statuses).toEqual([200, 429, 429]);
});
