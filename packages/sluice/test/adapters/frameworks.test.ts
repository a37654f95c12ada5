/** Features of single frameworks. */
import 'reflect-metadata';
import { createServer } from 'node:http';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import express from 'express';
import { fastify } from 'fastify';
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { RateLimit, RateLimitModule, SkipRateLimit } from '../../src/adapters/nest.ts';
import { withServer } from './listening.ts';

const ONE = { limit: 1, window: '1h' } as const;

async function statuses(url: string, count: number): Promise<number[]> {
  const found = [];
  for (let call = 0; call < count; call++) found.push((await fetch(url)).status);
  return found;
}

describe('Express', () => {
  async function withApp(app: express.Express, test: (url: string) => Promise<void>) {
    const server = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    try {
      await test(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }

  it('Express: routes with the same limiter share one limit, other routes do not', async () => {
    const app = express();
    const shared = expressLimit({ limit: 3, window: '1h' });
    app.get(['/a', '/b'], shared as never, (_request, response) => void response.send('hello'));
    app.get('/c', expressLimit({ limit: 3, window: '1h' }) as never, (_request, response) => {
      response.send('hello');
    });
    await withApp(app, async (url) => {
      expect(await statuses(`${url}/a`, 2)).toEqual([200, 200]);
      expect(await statuses(`${url}/b`, 2)).toEqual([200, 429]);
      expect(await statuses(`${url}/c`, 1)).toEqual([200]);
    });
  });

  it('Express: request.rateLimit has the decision, and resetKey resets a key', async () => {
    const app = express();
    const limit = expressLimit({ limit: 2, window: '1h', keyGenerator: () => 'one' });
    app.use(limit as never);
    app.get('/', (request, response) => {
      const { rateLimit } = request as unknown as { rateLimit: Record<string, unknown> };
      response.json(rateLimit);
    });
    await withApp(app, async (url) => {
      const body = (await (await fetch(url)).json()) as Record<string, unknown>;
      expect(body).toMatchObject({ limit: 2, used: 1, remaining: 1, key: 'one' });
      expect(new Date(body.resetTime as string).getTime()).toBeGreaterThan(Date.now() + 3_500_000);
      expect(await statuses(url, 2)).toEqual([200, 429]);
      await limit.resetKey('one');
      expect(await statuses(url, 1)).toEqual([200]);
    });
  });

  /** Returns the value of a request property after the limiters. */
  async function valuesOf(name: string, ...handlers: unknown[]): Promise<unknown[]> {
    const values: unknown[] = [];
    const app = express();
    app.use(...(handlers as never[]));
    app.get('/', (request, response) => {
      values.push((request as unknown as Record<string, unknown>)[name]);
      response.send('hello');
    });
    await withApp(app, async (url) => void (await statuses(url, 2)));
    return values;
  }

  it('Express: each limiter sets its own property of the request', async () => {
    const two = expressLimit({ limit: 9, window: '1h', requestPropertyName: 'second' });
    const both = [expressLimit({ limit: 9, window: '1h' }), two];
    expect(await valuesOf('rateLimit', ...both)).toMatchObject([{ used: 1 }, { used: 2 }]);
    expect(await valuesOf('second', ...both)).toMatchObject([{ used: 3 }, { used: 4 }]);
  });

  it('Express: a handler and a later limiter can overwrite the request property', async () => {
    const write = (request: object, _response: unknown, next: () => void): void => {
      Object.assign(request, { rateLimit: 'mine' });
      next();
    };
    const limit = expressLimit({ limit: 9, window: '1h' });
    expect(await valuesOf('rateLimit', limit, write)).toEqual(['mine', 'mine']);
    expect(await valuesOf('rateLimit', write, limit)).toMatchObject([{ used: 3 }, { used: 4 }]);
  });

  it('Express: requestPropertyName overwrites an existing property', async () => {
    const limit = expressLimit({ limit: 9, window: '1h', requestPropertyName: 'statusMessage' });
    expect(await valuesOf('statusMessage', limit)).toMatchObject([{ used: 1 }, { used: 2 }]);
  });

  it('Express: requests of node:http get the request property too', async () => {
    const limit = expressLimit({ limit: 9, window: '1h' });
    const values: unknown[] = [];
    const server = createServer((request, response) => {
      limit(request, response, () => {
        values.push((request as unknown as { rateLimit: unknown }).rateLimit);
        response.end('hello');
      });
    });
    await withServer(server, async (url) => void (await statuses(url, 2)));
    expect(values).toMatchObject([{ used: 1 }, { used: 2 }]);
  });
});

describe('Fastify', () => {
  it('Fastify: hooks can read and remove the headers; a hijacked reply has none', async () => {
    const app = fastify();
    await app.register(fastifyLimit, { limit: 9, window: '1h' });
    const seen: unknown[] = [];
    app.addHook('onSend', async (_request, reply) => {
      seen.push(reply.getHeader('RateLimit'), reply.getHeaders().ratelimit);
    });
    app.get('/plain', async () => 'hello');
    app.get('/bare', async (_request, reply) => reply.removeHeader('ratelimit').send('hello'));
    app.get('/hijacked', (_request, reply) => {
      reply.hijack();
      reply.raw.end('hello');
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const url = `http://127.0.0.1:${(app.server.address() as { port: number }).port}`;
    const received = [];
    for (const path of ['/plain', '/plain', '/bare', '/hijacked']) {
      received.push((await fetch(url + path)).headers.get('ratelimit'));
    }
    const [first, second] = received;
    expect(received).toEqual(['"default";r=8;t=3600', '"default";r=7;t=3600', null, null]);
    expect(seen).toEqual([first, first, second, second, undefined, undefined]);
    expect((await app.inject('/plain')).headers.ratelimit).toBe('"default";r=4;t=3600');
    await app.close();
  });

  it('Fastify: a route can have its own limit, none, or the limit of the plugin', async () => {
    const app = fastify();
    await app.register(fastifyLimit, { limit: 2, window: '1h' });
    const handler = async () => 'hello';
    app.get('/plain', handler);
    app.get('/login', { config: { rateLimit: { limit: 1, window: '1h' } } as never }, handler);
    app.get('/health', { config: { rateLimit: false } as never }, handler);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const url = `http://127.0.0.1:${(app.server.address() as { port: number }).port}`;
    expect(await statuses(`${url}/login`, 2)).toEqual([200, 429]);
    expect(await statuses(`${url}/health`, 4)).toEqual([200, 200, 200, 200]);
    expect(await statuses(`${url}/plain`, 3)).toEqual([200, 200, 429]);
    await app.close();
  });

  it('Fastify: a plugin without a limit affects only routes with their own', async () => {
    const app = fastify();
    await app.register(fastifyLimit, {});
    app.get('/plain', async () => 'hello');
    app.get(
      '/one',
      { config: { rateLimit: { limit: 1, window: '1h' } } as never },
      async () => 'hi',
    );
    const statusOf = async (url: string) => (await app.inject(url)).statusCode;
    expect([await statusOf('/plain'), await statusOf('/plain')]).toEqual([200, 200]);
    expect([await statusOf('/one'), await statusOf('/one')]).toEqual([200, 429]);
    await app.close();
  });
});

describe('Hono', () => {
  it('Hono: context.get returns the decision', async () => {
    const app = new Hono<{ Variables: { rateLimit: { remaining: number } } }>();
    app.use(honoLimit({ limit: 2, window: '1h', key: () => 'a' }) as never);
    app.get('/', (context) => context.text(String(context.get('rateLimit').remaining)));
    expect(await (await app.request('/')).text()).toBe('1');
  });
});

describe('Nest on Fastify', () => {
  it('Nest on Fastify: a handler can have its own limit, none, or that of the module', async () => {
    class Pages {
      plain() {
        return 'plain';
      }
      login() {
        return 'login';
      }
      health() {
        return 'health';
      }
    }
    Controller()(Pages);
    const decorate = (name: keyof Pages, ...decorators: unknown[]): void => {
      const property = Object.getOwnPropertyDescriptor(Pages.prototype, name)!;
      for (const decorator of decorators) {
        (decorator as MethodDecorator)(Pages.prototype, name, property);
      }
    };
    decorate('plain', Get('plain'));
    decorate('login', Get('login'), RateLimit({ limit: 1, window: '1h' }));
    decorate('health', Get('health'), SkipRateLimit());
    class Root {}
    Module({
      imports: [RateLimitModule.forRoot({ limit: 2, window: '1h' })],
      controllers: [Pages],
    })(Root);
    const app = await NestFactory.create(Root, new FastifyAdapter(), { logger: false });
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    expect(await statuses(`${url}/login`, 2)).toEqual([200, 429]);
    expect(await statuses(`${url}/health`, 3)).toEqual([200, 200, 200]);
    expect(await statuses(`${url}/plain`, 3)).toEqual([200, 200, 429]);
    const denied = await fetch(`${url}/plain`);
    expect(denied.headers.get('content-type')).toContain('application/problem+json');
    expect(Number(denied.headers.get('retry-after'))).toBeGreaterThan(3500);
    await app.close();
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

it('Fastify: the handler option can return the body of a denied response', async () => {
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
