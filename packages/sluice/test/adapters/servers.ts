/** A server for each adapter, for the contract tests. */
import 'reflect-metadata';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve as serveFetch } from '@hono/node-server';
import { Controller, Module, Req, RequestMapping, RequestMethod, Res } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import express from 'express';
import express4 from 'express4';
import { fastify } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import * as expressAdapter from '../../src/adapters/express.ts';
import * as fastifyAdapter from '../../src/adapters/fastify.ts';
import * as fetchAdapter from '../../src/adapters/fetch.ts';
import * as honoAdapter from '../../src/adapters/hono.ts';
import * as koaAdapter from '../../src/adapters/koa.ts';
import * as nestAdapter from '../../src/adapters/nest.ts';
import * as nodeAdapter from '../../src/adapters/node.ts';
import type { AdapterUnderTest, RunningServer } from '../../src/testing/index.ts';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Counts requests, waits as long as `x-wait` and responds with the status in `x-status`. */
class Handler {
  reached = 0;

  async handle(header: (name: string) => string | undefined): Promise<number> {
    this.reached++;
    const waitMs = Number(header('x-wait') ?? 0);
    if (waitMs > 0) await sleep(waitMs);
    if (header('x-throw') !== undefined) throw new Error('handler failed');
    return Number(header('x-status') ?? 200);
  }
}

function listening(server: Server, handler: Handler): Promise<RunningServer> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve({
        port: (server.address() as AddressInfo).port,
        reached: () => handler.reached,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });
}

const nodeHeader = (request: { headers: Record<string, unknown> }, name: string) =>
  request.headers[name] as string | undefined;

function expressOf(make: typeof express): AdapterUnderTest {
  return {
    header: nodeHeader,
    async serve(options) {
      const handler = new Handler();
      const app = make();
      app.use(expressAdapter.rateLimit(options as never));
      app.use((request, response, next) => {
        handler
          .handle((name) => nodeHeader(request, name))
          .then((status) => response.status(status).send('hello'))
          .catch(next);
      });
      return listening(createServer(app), handler);
    },
  };
}

const node: AdapterUnderTest = {
  header: nodeHeader,
  async serve(options) {
    const handler = new Handler();
    const limited = nodeAdapter.rateLimit(options)(async (request, response) => {
      const status = await handler.handle((name) => nodeHeader(request as never, name));
      response.statusCode = status;
      response.end('hello');
    });
    return listening(createServer(limited), handler);
  },
};

const koa: AdapterUnderTest = {
  header: (context, name) => nodeHeader(context.req, name),
  async serve(options) {
    const handler = new Handler();
    const app = new Koa();
    app.silent = true;
    app.use(koaAdapter.rateLimit(options as never));
    app.use(async (context) => {
      context.status = await handler.handle((name) => context.get(name) || undefined);
      context.body = 'hello';
    });
    return listening(createServer(app.callback()), handler);
  },
};

/** Serves a fetch handler on Node. */
function fetchServer(
  handle: (request: Request, env: never) => Response | Promise<Response>,
  handler: Handler,
): Promise<RunningServer> {
  return new Promise((resolve) => {
    const server = serveFetch(
      { fetch: handle as never, port: 0, hostname: '127.0.0.1' },
      (info) => {
        resolve({
          port: info.port,
          reached: () => handler.reached,
          close: () =>
            new Promise((closed) => {
              server.close(() => closed());
              (server as Server).closeAllConnections();
            }),
        });
      },
    ) as Server;
  });
}

const fetching: AdapterUnderTest = {
  header: (request: Request, name) => request.headers.get(name) ?? undefined,
  async serve(options) {
    const handler = new Handler();
    const limited = fetchAdapter.rateLimit<[never]>(options)(async (request) => {
      const status = await handler.handle((name) => request.headers.get(name) ?? undefined);
      return new Response('hello', { status });
    });
    return fetchServer(limited, handler);
  },
};

const hono: AdapterUnderTest = {
  header: (context, name) => context.req.header(name),
  async serve(options) {
    const handler = new Handler();
    const app = new Hono();
    app.use(honoAdapter.rateLimit(options as never));
    app.all('*', async (context) => {
      const status = await handler.handle((name) => context.req.header(name));
      return context.text('hello', status as 200);
    });
    return fetchServer(app.fetch as never, handler);
  },
};

const fastifyWorld: AdapterUnderTest = {
  header: (request, name) => nodeHeader(request, name),
  async serve(options) {
    const handler = new Handler();
    const app = fastify();
    await app.register(fastifyAdapter.rateLimit, options as never);
    app.route({
      method: ['GET', 'HEAD', 'OPTIONS'],
      url: '/',
      handler: async (request, reply) => {
        const status = await handler.handle((name) => nodeHeader(request as never, name));
        return reply.code(status).send('hello');
      },
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    return {
      port: (app.server.address() as AddressInfo).port,
      reached: () => handler.reached,
      close: async () => {
        app.server.closeAllConnections();
        await app.close();
      },
    };
  },
};

const nest: AdapterUnderTest = {
  header: nodeHeader,
  async serve(options) {
    const handler = new Handler();
    class Root {}
    Module({
      imports: [nestAdapter.RateLimitModule.forRoot(options)],
      controllers: [pagesOf(handler)],
    })(Root);
    const app = await NestFactory.create(Root, { logger: false });
    await app.listen(0, '127.0.0.1');
    const server = app.getHttpServer() as Server;
    return {
      port: (server.address() as AddressInfo).port,
      reached: () => handler.reached,
      close: async () => {
        server.closeAllConnections();
        await app.close();
      },
    };
  },
};

/** A controller without decorator syntax, which the test compiler does not support. */
function pagesOf(handler: Handler) {
  class Pages {
    async all(request: never, response: { status(code: number): { send(text: string): void } }) {
      const status = await handler.handle((name) => nodeHeader(request, name));
      response.status(status).send('hello');
    }
  }
  Controller()(Pages);
  const property = Object.getOwnPropertyDescriptor(Pages.prototype, 'all')!;
  RequestMapping({ path: '/', method: RequestMethod.ALL })(Pages.prototype, 'all', property);
  Req()(Pages.prototype, 'all', 0);
  Res()(Pages.prototype, 'all', 1);
  return Pages;
}

export const adapters: Readonly<Record<string, AdapterUnderTest>> = {
  'express 5': expressOf(express),
  'express 4': expressOf(express4 as never),
  fastify: fastifyWorld,
  hono,
  koa,
  fetch: fetching,
  node,
  nest,
};
