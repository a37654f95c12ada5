/** Unusual responses, several limiters in a row, and outcomes of requests. */
import 'reflect-metadata';
import { once } from 'node:events';
import { createServer, type Server, request as sendRequest } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
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
import { RateLimitModule } from '../../src/adapters/nest.ts';
import { NodeRequestInfo } from '../../src/http/node-server.ts';
import { withServer } from './listening.ts';

const WIDE = { name: 'wide', limit: 9, window: '1h' } as const;
const TIGHT = { name: 'tight', limit: 1, window: '1h' } as const;
const BOTH = '"wide";r=7;t=3600, "tight";r=0;t=3600';

describe('headers of two limiters in a row', () => {
  it('Hono without Node combines the headers of two limiters, also if denied', async () => {
    const app = new Hono();
    app.use(honoLimit({ ...WIDE, key: () => 'a' }), honoLimit({ ...TIGHT, key: () => 'a' }));
    app.get('/', (context) => context.text('hello'));
    await app.request('/');
    const { status, headers } = await app.request('/');
    expect([status, headers.get('ratelimit')]).toEqual([429, BOTH]);
  });

  it('fetch combines the headers of two limiters, also if denied', async () => {
    const inner = fetchLimit({ ...TIGHT, key: () => 'a' })(() => new Response('hello'));
    const GET = fetchLimit({ ...WIDE, key: () => 'a' })(inner);
    await GET(new Request('http://localhost/'));
    const { status, headers } = await GET(new Request('http://localhost/'));
    expect([status, headers.get('ratelimit')]).toEqual([429, BOTH]);
  });

  it('Koa combines the headers of two limiters, also if denied', async () => {
    const app = new Koa();
    app.use(koaLimit(WIDE) as never).use(koaLimit(TIGHT) as never);
    await withServer(createServer(app.callback()), async (url) => {
      await fetch(url);
      const { status, headers } = await fetch(url);
      expect([status, headers.get('ratelimit')]).toEqual([429, BOTH]);
    });
  });

  it('Fastify combines the headers of two limiters, also if denied', async () => {
    const app = fastify();
    await app.register(fastifyLimit, WIDE);
    await app.register(fastifyLimit, TIGHT);
    app.get('/', async () => 'hello');
    await app.inject('/');
    const { statusCode, headers } = await app.inject('/');
    expect([statusCode, headers.ratelimit]).toEqual([429, BOTH]);
    await app.close();
  });
});

it('the default window of each of several limits is one minute', async () => {
  const limits = [
    { name: 'few', limit: 5 },
    { name: 'many', limit: 9, window: '1h' },
  ] as const;
  const GET = fetchLimit({ limits: limits.map((each) => ({ ...each, key: () => 'a' })) })(
    () => new Response('hello'),
  );
  const { headers } = await GET(new Request('http://localhost/'));
  expect(headers.get('ratelimit-policy')).toBe('"few";q=5;w=60, "many";q=9;w=3600');
});

it('Hono: headers of an internal app.request go to the app, not to the client', async () => {
  const app = new Hono();
  const inner: (string | null)[] = [];
  app.use('/api/*', honoLimit(TIGHT));
  app.get('/api/x', (context) => context.text('x'));
  app.get('/page', async (context) => {
    for (let call = 0; call < 2; call++) {
      const { headers } = await app.request('/api/x', {}, context.env);
      inner.push(headers.get('ratelimit'), headers.get('retry-after'));
    }
    return context.text('page');
  });
  await withServer(createServer(getRequestListener(app.fetch)), async (url) => {
    const { status, headers } = await fetch(`${url}page`);
    expect([status, headers.get('ratelimit'), headers.get('retry-after')]).toEqual([
      200,
      null,
      null,
    ]);
  });
  expect(inner).toEqual(['"tight";r=0;t=3600', null, '"tight";r=0;t=3600', '3600']);
});

it.each([
  ['of Response.error()', () => Response.error()],
  ['of a WebSocket upgrade', () => upgraded()],
])('an immutable response %s is returned unchanged', async (_, createResponse) => {
  const response = createResponse();
  const GET = fetchLimit({ ...WIDE, key: () => 'a' })(() => response);
  expect(await GET(new Request('http://localhost/'))).toBe(response);
});

/** A response with status 101, which `new Response` rejects. */
function upgraded(): Response {
  const headers = Response.redirect('http://localhost/', 302).headers;
  return Object.defineProperties(new Response(null), {
    status: { value: 101 },
    headers: { value: headers },
  });
}

it.each([
  ['a promise', () => Promise.resolve(new Response('hello'))],
  ['a thenable', () => thenable],
  ['a response', () => new Response('hello')],
])('fetch: a limited handler that returns %s returns a promise', async (_, handler) => {
  const GET = fetchLimit({ ...WIDE, key: () => 'a' })(handler as never) as (
    request: Request,
  ) => Promise<Response>;
  const response = GET(new Request('http://localhost/'));
  expect(response).toBeInstanceOf(Promise);
  expect((await response).headers.get('ratelimit')).toBe('"wide";r=8;t=3600');
});
// biome-ignore lint/suspicious/noThenProperty: promise libraries have thenables.
const thenable = { then: (done: (response: Response) => void) => done(new Response('hello')) };

it('a reused Response object gets only the current rate-limit headers', async () => {
  const response = new Response(null, { headers: { RateLimit: '"upstream, \\"x\\"";r=1' } });
  const GET = fetchLimit({ ...WIDE, key: () => 'a' })(() => response);
  for (const remaining of [8, 7, 6]) {
    const { headers } = await GET(new Request('http://localhost/'));
    expect(headers.get('ratelimit')).toBe(`"wide";r=${remaining};t=3600, "upstream, \\"x\\"";r=1`);
  }
});

it('a reused Response object gets the current Retry-After', async () => {
  const denied = new Response(null, { status: 429, headers: { 'retry-after': '7' } });
  const handler = () => denied;
  const GET = fetchLimit({ ...TIGHT, key: () => 'a', handler })(() => new Response('hello'));
  await GET(new Request('http://localhost/'));
  const { headers } = await GET(new Request('http://localhost/'));
  expect(headers.get('retry-after')).toBe('3600');
});

describe('a client that disconnects during the response', () => {
  const stream = () =>
    new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode('hel')),
      }),
    );
  const ways = {
    hono(settle: (outcome: { finished: boolean }) => undefined) {
      const app = new Hono();
      app.use(honoLimit({ ...WIDE, settle }));
      app.get('/', stream);
      return app.fetch;
    },
    fetch: (settle: (outcome: { finished: boolean }) => undefined) =>
      fetchLimit({ ...WIDE, settle })(stream),
  };

  it.each(Object.entries(ways))(
    '%s on Node: `finished` is false if the client disconnects during the response',
    async (_, limited) => {
      const ended = new Promise<boolean>((resolve) => {
        const handler = limited(({ finished }) => void resolve(finished) as undefined);
        void withServer(createServer(getRequestListener(handler as never)), async (url) => {
          const aborted = sendRequest(url).end();
          const [response] = await once(aborted, 'response');
          await once(response, 'data');
          aborted.destroy();
          await ended;
        });
      });
      expect(await ended).toBe(false);
    },
  );
});

it('NodeRequestInfo reads the address at once, before the client can disconnect', () => {
  const socket: { remoteAddress: string | undefined } = { remoteAddress: '203.0.113.1' };
  const info = new NodeRequestInfo('mine', { headers: {}, socket } as never);
  socket.remoteAddress = undefined;
  expect(info.socketAddress).toBe('203.0.113.1');
});

describe('trust settings of the framework', () => {
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });
  const statuses = async (url: string, addresses: readonly string[]) => {
    const found: number[] = [];
    for (const each of addresses) found.push((await fetch(url, from(each))).status);
    return found;
  };

  it('Express: an invalid forwarded address counts as the proxy; a port is ignored', async () => {
    const app = express().set('trust proxy', 1);
    app.use(expressLimit(TIGHT) as never);
    app.get('/', (_request, response) => void response.send('hello'));
    await withServer(createServer(app), async (url) => {
      const named = ['203.0.113.7:4711', '203.0.113.7', '[2001:db8::1]:80', '2001:db8::1'];
      expect(await statuses(url, named)).toEqual([200, 429, 200, 429]);
      expect(await statuses(url, ['unknown', '_hidden'])).toEqual([200, 429]);
    });
  });

  it('Nest: trust proxy of Express applies', async () => {
    class Pages {
      all() {
        return 'hello';
      }
    }
    Controller()(Pages);
    Get('/')(Pages.prototype, 'all', Object.getOwnPropertyDescriptor(Pages.prototype, 'all')!);
    class Root {}
    Module({ imports: [RateLimitModule.forRoot(TIGHT)], controllers: [Pages] })(Root);
    const app = await NestFactory.create(Root, { logger: false });
    (app.getHttpAdapter().getInstance() as express.Express).set('trust proxy', 1);
    await app.init();
    await withServer(app.getHttpServer() as Server, async (url) => {
      const clients = ['203.0.113.1', '203.0.113.2', '203.0.113.1'];
      expect(await statuses(url, clients)).toEqual([200, 200, 429]);
    });
    await app.close();
  });
});

it('fetch: the handler option cannot change the shared headers of denied requests', async () => {
  const handler = (_: Request, { headers }: { headers: readonly unknown[] }) => {
    expect(() => (headers as unknown[]).push(['x-own', 'yes'])).toThrow(TypeError);
    return new Response(null, { status: 429 });
  };
  const GET = fetchLimit({ ...TIGHT, key: () => 'a', handler })(() => new Response('hello'));
  const statuses = [];
  for (let call = 0; call < 3; call++)
    statuses.push((await GET(new Request('http://localhost/'))).status);
  expect(statuses).toEqual([200, 429, 429]);
});
