/** Handlers can read the decision in every adapter. */
import 'reflect-metadata';
import { createServer } from 'node:http';
import { Controller, Get, Module, Req } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import express from 'express';
import { fastify } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { expect, it } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { decisionOf, rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { rateLimit as koaLimit } from '../../src/adapters/koa.ts';
import { RateLimitModule } from '../../src/adapters/nest.ts';
import { decisionOf as nodeDecisionOf, rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import { withServer } from './listening.ts';

const FIVE = { limit: 5, window: '1h', key: () => 'ada' } as const;

it('Express: a handler reads request.rateLimit', async () => {
  const app = express();
  app.use(expressLimit(FIVE));
  app.get('/', (request, response) => void response.json(request.rateLimit?.remaining));
  await withServer(createServer(app), async (url) => {
    expect(await (await fetch(url)).json()).toBe(4);
  });
});

it('Fastify: a handler reads request.rateLimit, also of two plugins', async () => {
  const app = fastify();
  await app.register(fastifyLimit, { ...FIVE, limit: 9 });
  await app.register(fastifyLimit, FIVE);
  app.get('/', async (request) => ({ remaining: request.rateLimit?.remaining }));
  expect((await app.inject('/')).json()).toEqual({ remaining: 4 });
  await app.close();
});

it('Hono: a handler reads context.get', async () => {
  const app = new Hono();
  app.use(honoLimit(FIVE));
  app.get('/', (context) => context.json(context.get('rateLimit')?.remaining));
  expect(await (await app.request('/')).json()).toBe(4);
});

it('Koa: a handler reads context.state', async () => {
  const app = new Koa();
  app.use(koaLimit(FIVE));
  app.use((context) => {
    context.body = String(context.state.rateLimit?.remaining);
  });
  await withServer(createServer(app.callback()), async (url) => {
    expect(await (await fetch(url)).text()).toBe('4');
  });
});

it('fetch: a handler reads decisionOf(request)', async () => {
  const GET = fetchLimit(FIVE)((request) => Response.json(decisionOf(request)?.remaining));
  expect(await (await GET(new Request('http://localhost/'))).json()).toBe(4);
  expect(decisionOf(new Request('http://localhost/'))).toBeUndefined();
});

it('node: a handler reads decisionOf(request)', async () => {
  const listener = nodeLimit(FIVE)((request, response) => {
    response.end(String(nodeDecisionOf(request)?.remaining));
  });
  await withServer(createServer(listener), async (url) => {
    expect(await (await fetch(url)).text()).toBe('4');
  });
});

it.each(['Express', 'Fastify'])('Nest on %s: a handler reads request.rateLimit', async (name) => {
  class Pages {
    read(request: { rateLimit?: { remaining: number } }) {
      return { remaining: request.rateLimit?.remaining };
    }
  }
  Controller()(Pages);
  const property = Object.getOwnPropertyDescriptor(Pages.prototype, 'read')!;
  Get()(Pages.prototype, 'read', property);
  Req()(Pages.prototype, 'read', 0);
  class Root {}
  Module({ imports: [RateLimitModule.forRoot(FIVE)], controllers: [Pages] })(Root);
  const quiet = { logger: false } as const;
  const app = await (name === 'Express'
    ? NestFactory.create(Root, quiet)
    : NestFactory.create(Root, new FastifyAdapter(), quiet));
  await app.listen(0, '127.0.0.1');
  expect(await (await fetch(await app.getUrl())).json()).toEqual({ remaining: 4 });
  await app.close();
});

it('if a key function returns undefined, the request is counted by its address', async () => {
  const user = (request: Request) => request.headers.get('x-user') ?? undefined;
  const options = { limit: 1, window: '1h', key: user, address: () => '192.0.2.1' } as const;
  const GET = fetchLimit(options)((request) => new Response(decisionOf(request)?.key));
  const found = [];
  for (const headers of [{ 'x-user': 'ada' }, {}, {}]) {
    const response = await GET(new Request('http://localhost/', { headers: headers as never }));
    found.push(response.status === 200 ? await response.text() : response.status);
  }
  expect(found).toEqual(['ada', '192.0.2.1', 429]);
});
