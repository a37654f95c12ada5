/** What one framework has and the others have not. */
import 'reflect-metadata';
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

  it('routes that use one limiter share its budget, others do not', async () => {
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

  it('the request carries what was decided, and a key can be reset', async () => {
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
});

describe('Fastify', () => {
  it('a route has a limit of its own, or none, and the others the plugin\u2019s', async () => {
    const app = fastify();
    await app.register(fastifyLimit, { limit: 2, window: '1h' });
    const answer = async () => 'hello';
    app.get('/plain', answer);
    app.get('/login', { config: { rateLimit: { limit: 1, window: '1h' } } as never }, answer);
    app.get('/health', { config: { rateLimit: false } as never }, answer);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const url = `http://127.0.0.1:${(app.server.address() as { port: number }).port}`;
    expect(await statuses(`${url}/login`, 2)).toEqual([200, 429]);
    expect(await statuses(`${url}/health`, 4)).toEqual([200, 200, 200, 200]);
    expect(await statuses(`${url}/plain`, 3)).toEqual([200, 200, 429]);
    await app.close();
  });

  it('without a limit of its own the plugin concerns only routes that have one', async () => {
    const app = fastify();
    await app.register(fastifyLimit, {});
    app.get('/plain', async () => 'hello');
    app.get(
      '/one',
      { config: { rateLimit: { limit: 1, window: '1h' } } as never },
      async () => 'hi',
    );
    const asked = async (url: string) => (await app.inject(url)).statusCode;
    expect([await asked('/plain'), await asked('/plain')]).toEqual([200, 200]);
    expect([await asked('/one'), await asked('/one')]).toEqual([200, 429]);
    await app.close();
  });
});

describe('Hono', () => {
  it('tells the handler what was decided', async () => {
    const app = new Hono<{ Variables: { rateLimit: { remaining: number } } }>();
    app.use(honoLimit({ limit: 2, window: '1h', key: () => 'a' }) as never);
    app.get('/', (context) => context.text(String(context.get('rateLimit').remaining)));
    expect(await (await app.request('/')).text()).toBe('1');
  });
});

describe('Nest on Fastify', () => {
  it('a handler has a limit of its own, or none, and the others the module\u2019s', async () => {
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
    const refused = await fetch(`${url}/plain`);
    expect(refused.headers.get('content-type')).toContain('application/problem+json');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3500);
    await app.close();
  });
});
