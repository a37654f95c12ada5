/** Servers and mocks whose sockets have no peer address, and responses that are not Node's. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import serverlessExpress from '@codegenie/serverless-express';
import { serve } from '@hono/node-server';
import express from 'express';
import { fastify } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { createMocks } from 'node-mocks-http';
import serverlessHttp from 'serverless-http';
import { afterAll, describe, expect, it } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { rateLimit as koaLimit } from '../../src/adapters/koa.ts';
import { rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import type { AddressOptions } from '../../src/http/client-address.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-'));
afterAll(() => rmSync(folder, { recursive: true }));

const ONE = { limit: 1, window: '1h' } as const;

/** Options that collect the codes of warnings. */
function watched(options: AddressOptions = {}) {
  const codes: string[] = [];
  const onWarning = ({ code }: { code: string }) => void codes.push(code);
  return { codes, options: { ...ONE, ...options, onWarning } };
}

function statusOver(socketPath: string, forwardedFor: string | undefined): Promise<number> {
  const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor };
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ socketPath, path: '/', headers, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    sent.on('error', reject).end();
  });
}

type Options = ReturnType<typeof watched>['options'];

/** A server of each adapter, not listening yet. */
const servers: Readonly<Record<string, (options: Options) => Server | Promise<Server>>> = {
  express: (options) => {
    const app = express();
    app.use(expressLimit(options) as never);
    app.get('/', (_request, response) => void response.send('hello'));
    return createServer(app);
  },
  fastify: async (options) => {
    const app = fastify();
    await app.register(fastifyLimit, options);
    app.get('/', async () => 'hello');
    await app.ready();
    return app.server;
  },
  koa: (options) => {
    const app = new Koa();
    app.use(koaLimit(options) as never);
    app.use((context) => {
      context.body = 'hello';
    });
    return createServer(app.callback());
  },
  node: (options) => createServer(nodeLimit(options)((_request, response) => response.end())),
  hono: (options) => {
    const app = new Hono();
    app.use(honoLimit(options));
    app.get('/', (context) => context.text('hello'));
    return serve({ fetch: app.fetch, createServer, port: 0 }) as Server;
  },
  fetch: (options) => {
    const limited = fetchLimit<[never]>(options)(() => new Response('hello'));
    return serve({ fetch: limited as never, createServer, port: 0 }) as Server;
  },
};

describe.each(Object.entries(servers))('%s over a Unix socket', (name, open) => {
  async function statuses(options: Options, ...addresses: (string | undefined)[]) {
    const server = await open(options);
    const path = join(folder, `${name}-${Object.keys(options).length}.sock`);
    if (server.listening) await new Promise((resolve) => server.close(resolve));
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const found: number[] = [];
    for (const address of addresses) found.push(await statusOver(path, address));
    await new Promise((resolve) => server.close(resolve));
    return found;
  }

  it(`${name} over a Unix socket: trustProxy: 1 makes the forwarded address the key`, async () => {
    const { codes, options } = watched({ trustProxy: 1 });
    const found = await statuses(options, '192.0.2.1', '192.0.2.1', '192.0.2.2');
    expect(found).toEqual([200, 429, 200]);
    expect(codes).toEqual([]);
  });

  it(`${name} over a Unix socket: without trustProxy, clients share a key`, async () => {
    const { codes, options } = watched();
    expect(await statuses(options, undefined, '192.0.2.2')).toEqual([200, 429]);
    expect(codes).toEqual(['WARN_NO_CLIENT_ADDRESS']);
  });
});

/** An Express app whose limit counts by address, which is in `/`. */
function expressApp(options: object) {
  const app = express();
  app.use(expressLimit({ ...ONE, ...options } as never) as never);
  app.all('/', (_request, response) => void response.send('hello'));
  return app;
}

/** Events of API Gateway (REST and HTTP), and of a load balancer, which has no source address. */
const events = {
  'REST API': (sourceIp: string) => ({
    httpMethod: 'GET',
    path: '/',
    resource: '/',
    headers: {},
    multiValueHeaders: {},
    requestContext: { identity: { sourceIp } },
  }),
  'HTTP API': (sourceIp: string) => ({
    version: '2.0',
    rawPath: '/',
    rawQueryString: '',
    headers: {},
    requestContext: { http: { method: 'GET', path: '/', sourceIp }, stage: '$default' },
  }),
  'load balancer': (sourceIp: string) => ({
    httpMethod: 'GET',
    path: '/',
    queryStringParameters: {},
    headers: { 'x-forwarded-for': sourceIp },
    requestContext: { elb: { targetGroupArn: 'arn:aws:elb' } },
  }),
};

const platforms = {
  'serverless-http': (app: express.Express) => serverlessHttp(app),
  '@codegenie/serverless-express': (app: express.Express) =>
    (serverlessExpress as unknown as typeof serverlessExpress.default)({ app }),
};

for (const [platform, wrap] of Object.entries(platforms)) {
  describe.each(Object.entries(events))(`Express on ${platform}, %s`, (kind, eventFrom) => {
    const isBalancer = kind === 'load balancer';

    async function statuses(options: object): Promise<number[]> {
      const handle = wrap(expressApp(options)) as (
        event: object,
        context: object,
      ) => Promise<{ statusCode: number }>;
      const found = [];
      for (const address of ['192.0.2.1', '192.0.2.1', '192.0.2.2']) {
        found.push((await handle(eventFrom(address), {})).statusCode);
      }
      return found;
    }

    it(`Express on ${platform}, ${kind}: clients have limits of their own`, async () => {
      const { codes, options } = watched(isBalancer ? { trustProxy: 1 } : {});
      expect(await statuses(options)).toEqual([200, 429, 200]);
      expect(codes).toEqual([]);
    });

    it(`Express on ${platform}, ${kind}: \`count\` refunds successful requests`, async () => {
      const options = { count: 'failures', ...(isBalancer && { trustProxy: 1 }) };
      expect(await statuses(options)).toEqual([200, 200, 200]);
    });
  });
}

it('Express on serverless-http: events without an address share one key', async () => {
  const { codes, options } = watched();
  const handle = serverlessHttp(expressApp(options)) as (
    event: object,
    context: object,
  ) => Promise<{ statusCode: number }>;
  const event = { httpMethod: 'GET', path: '/', headers: {}, requestContext: {} };
  const statuses = [(await handle(event, {})).statusCode, (await handle(event, {})).statusCode];
  expect(statuses).toEqual([200, 429]);
  expect(codes).toEqual(['WARN_NO_CLIENT_ADDRESS']);
});

describe('node-mocks-http', () => {
  /** Runs the middleware on a mock. Resolves to the status. */
  function statusOf(limit: ReturnType<typeof expressLimit>): Promise<number> {
    const { req, res } = createMocks({ method: 'GET', url: '/' });
    return new Promise((resolve, reject) => {
      const end = res.end.bind(res);
      res.end = ((...args: []) => {
        end(...args);
        resolve(res.statusCode);
        return res;
      }) as never;
      limit(req as never, res as never, (error) => {
        if (error) reject(error);
        else res.end();
      });
    });
  }

  it('node-mocks-http: requests without an address share one key', async () => {
    const { codes, options } = watched();
    const limit = expressLimit(options);
    expect([await statusOf(limit), await statusOf(limit)]).toEqual([200, 429]);
    expect(codes).toEqual(['WARN_NO_CLIENT_ADDRESS']);
  });
});

describe('Hono: app.request', () => {
  it('Hono: app.request without connection info is limited by one key', async () => {
    const { codes, options } = watched();
    const app = new Hono();
    app.use(honoLimit(options));
    app.get('/', (context) => context.text('hello'));
    const statuses = [(await app.request('/')).status, (await app.request('/')).status];
    expect(statuses).toEqual([200, 429]);
    expect(codes).toEqual(['WARN_NO_CLIENT_ADDRESS']);
  });
});
