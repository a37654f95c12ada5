/**
 * Runs the recipes of docs/recipes.md. Servers run in processes of their own, which need a build;
 * handlers of platforms are called here, with the requests that the platform passes.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { io } from 'socket.io-client';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { startRedis } from '../../../tools/servers/redis.mjs';
import { type HttpResponse, serving } from './running-examples.ts';

/** Imports a recipe anew, so that its limits are unused. */
// biome-ignore lint/suspicious/noExplicitAny: recipes are JavaScript.
async function load(path: string): Promise<any> {
  vi.resetModules();
  const file = new URL(`../../../examples/${path}`, import.meta.url).pathname;
  return import(file);
}

afterEach(() => vi.unstubAllEnvs());

const FIVE_THEN_DENIED = [200, 200, 200, 200, 200, 429];

async function six(call: () => Promise<{ readonly status: number }>): Promise<number[]> {
  const all: number[] = [];
  for (let place = 0; place < 6; place++) all.push((await call()).status);
  return all;
}

const isWait = (header: unknown): boolean => Number(header) >= 1 && Number(header) <= 10;

describe('examples/nextjs', () => {
  const request = (headers: Record<string, string> = {}, method = 'GET') =>
    new Request('https://example.com/api/hello', { method, headers });

  it('examples/nextjs: the route handler limits each address, for all methods', async () => {
    const { GET, POST } = await load('nextjs/app/api/hello/route.js');
    const from = { 'x-real-ip': '203.0.113.7' };
    let place = 0;
    // The addresses that a client claims do not matter.
    const claims = () => ({ ...from, 'x-forwarded-for': `198.51.100.${place++}` });
    const emit = vi.spyOn(process, 'emitWarning');
    expect(await six(() => GET(request(claims())))).toEqual(FIVE_THEN_DENIED);
    // Platforms always send the header, so it is no sign of a mistake.
    expect(emit).not.toHaveBeenCalled();
    emit.mockRestore();
    const denied: Response = await POST(request(claims(), 'POST'));
    expect([denied.status, isWait(denied.headers.get('retry-after'))]).toEqual([429, true]);
    expect((await GET(request({ 'x-real-ip': '203.0.113.8' }))).status).toBe(200);
  });

  it('examples/nextjs: requests without an address share one limit', async () => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const { GET } = await load('nextjs/app/api/hello/route.js');
    expect(await six(() => GET(request()))).toEqual(FIVE_THEN_DENIED);
    emit.mockRestore();
  });

  it('examples/nextjs: the proxy adds rate-limit headers, then responds 429 itself', async () => {
    const { proxy, config } = await load('nextjs/proxy.js');
    expect(config.matcher).toBe('/api/:path*');
    const call = (): Promise<Response> => proxy(request({ 'x-real-ip': '203.0.113.7' }));
    const first = await call();
    expect(first.headers.get('x-middleware-next')).toBe('1');
    expect(first.headers.get('ratelimit')).toBe('"api";r=19;t=10');
    for (let place = 0; place < 19; place++) await call();
    const denied = await call();
    expect([denied.status, denied.headers.has('x-middleware-next')]).toEqual([429, false]);
  });
});

describe('examples/sveltekit', () => {
  it('examples/sveltekit: the hook limits each client address', async () => {
    const { handle } = await load('sveltekit/src/hooks.server.js');
    const resolve = async () => new Response('page');
    const visit = (address: string): Promise<Response> => {
      const request = new Request('https://example.com/', {
        headers: { 'x-forwarded-for': `198.51.100.${Math.random()}` },
      });
      return handle({ event: { request, getClientAddress: () => address }, resolve });
    };
    expect(await six(() => visit('203.0.113.7'))).toEqual(FIVE_THEN_DENIED);
    const other = await visit('203.0.113.8');
    expect([await other.text(), other.headers.get('ratelimit')]).toEqual([
      'page',
      '"default";r=4;t=10',
    ]);
  });
});

describe('examples/aws-lambda', () => {
  const event = (sourceIp: string, sub?: string) => ({
    version: '2.0',
    headers: { 'x-forwarded-for': `${Math.random()}` },
    requestContext: {
      http: { method: 'GET', path: '/', sourceIp },
      ...(sub !== undefined && { authorizer: { jwt: { claims: { sub } } } }),
    },
  });

  it('examples/aws-lambda: the function limits by verified user or source address', async () => {
    const { handler } = await load('aws-lambda/handler.mjs');
    const call = async (...args: Parameters<typeof event>) => {
      const { statusCode, headers, body } = await handler(event(...args));
      return { status: statusCode, headers, body: JSON.parse(body) };
    };
    expect(await six(() => call('203.0.113.7'))).toEqual(FIVE_THEN_DENIED);
    const denied = await call('203.0.113.7');
    expect(isWait(denied.headers['retry-after'])).toBe(true);
    expect(denied.body).toMatchObject({ error: 'Too many requests' });
    let place = 0;
    expect(await six(() => call(`203.0.113.${place++}`, 'ada'))).toEqual(FIVE_THEN_DENIED);
  });
});

describe('examples/cloudflare-workers', () => {
  const request = (address: string) =>
    new Request('https://example.com/', { headers: { 'cf-connecting-ip': address } });

  it('examples/cloudflare-workers: the worker limits each address', async () => {
    const { default: worker } = await load('cloudflare-workers/worker.js');
    expect(await six(() => worker.fetch(request('203.0.113.7'), {}, {}))).toEqual(FIVE_THEN_DENIED);
    expect((await worker.fetch(request('203.0.113.8'), {}, {})).status).toBe(200);
  });

  it('examples/cloudflare-workers: isolates share the limit through Redis over HTTP', async () => {
    const redis = await startRedis();
    const client = new Redis(redis.url);
    const overHttp = createServer(async (incoming, response) => {
      const [command, ...args]: string[] = JSON.parse(await textOf(incoming));
      const reply = await client.call(command, args).then(
        (result) => ({ result }),
        (error: Error) => ({ error: error.message }),
      );
      response.end(JSON.stringify(reply));
    }).listen(0, '127.0.0.1');
    await once(overHttp, 'listening');
    const { port } = overHttp.address() as AddressInfo;
    const env = { REDIS_HTTP_URL: `http://127.0.0.1:${port}`, REDIS_HTTP_TOKEN: 'secret' };
    try {
      const workers = [
        (await load('cloudflare-workers/worker.js')).default,
        (await load('cloudflare-workers/worker.js')).default,
      ];
      let place = 0;
      const call = () => workers[place++ % 2].fetch(request('203.0.113.7'), env, {});
      expect(await six(call)).toEqual(FIVE_THEN_DENIED);
    } finally {
      overHttp.close();
      overHttp.closeAllConnections();
      client.disconnect();
      await redis.stop();
    }
  });
});

describe.concurrent('recipes with a server', () => {
  it('examples/trpc: each call is charged its cost, also in a batch, by user or address', () =>
    serving('trpc', async (send) => {
      expect(await six(() => send('/hello'))).toEqual(FIVE_THEN_DENIED);
      const denied = await send('/hello');
      expect(isWait(denied.headers['retry-after'])).toBe(true);
      expect(JSON.parse(denied.body).error.data.code).toBe('TOO_MANY_REQUESTS');
      const ada = { headers: { authorization: 'Bearer token-of-ada' } };
      const batch = await send('/report,hello,hello,hello?batch=1&input={}', ada);
      const results = JSON.parse(batch.body) as { error?: unknown }[];
      expect(results.map(({ error }) => error === undefined)).toEqual([true, true, true, false]);
      expect(batch.status).toBe(207);
      // An unknown token is not a key of its own.
      const invented = { headers: { authorization: 'Bearer invented' } };
      expect((await send('/hello', invented)).status).toBe(429);
    }));

  it('examples/graphql: the cost comes from the query, its fragments and variables', () =>
    serving('graphql', async (send) => {
      let address = 2;
      /** Sends a query from a new address. Resolves to its cost, or the message of its error. */
      const costOf = async (query: string, variables = {}): Promise<unknown> => {
        const from = `127.0.0.${address++}`;
        const { body } = await send('/', { body: { query, variables }, from });
        const { extensions, errors } = JSON.parse(body);
        return extensions?.cost ?? errors[0].message;
      };
      const list = (first: string) => `{ books(first: ${first}) { title author { name } } }`;
      expect(await costOf(list('20'))).toBe(61);
      expect(await costOf('{ books { title } }')).toBe(11);
      expect(await costOf('query($n: Int) { books(first: $n) { title } }', { n: 7 })).toBe(8);
      expect(await costOf('query($n: Int = 99) { books(first: $n) { title } }')).toBe(100);
      const fragment = 'fragment f on Book { title author { name } }';
      expect(await costOf(`{ books(first: 5) { ...f } } ${fragment}`)).toBe(16);
      const above = 'The query costs 301 points; the limit is 100.';
      expect(await costOf(list('100'))).toBe(above);
      expect(await costOf(`query($n: Int = 100) ${list('$n')}`)).toBe(above);
      const twice = (next: string) =>
        ['a', 'b'].map((alias) => `${alias}: books { author { ...${next} } }`).join(' ');
      const nested = Array.from(
        { length: 60 },
        (_, at) => `fragment f${at} on Author { ${twice(`f${at + 1}`)} }`,
      ).join(' ');
      const deep = `{ books { author { ...f0 } } } ${nested} fragment f60 on Author { name }`;
      expect(await costOf(deep)).toMatch(/^The query costs \S+ points/);
      expect(await costOf('{ books { price } }')).toMatch(/Cannot query field/);

      const body = { query: list('20') };
      expect((await send('/', { body })).status).toBe(200);
      const denied = await send('/', { body });
      expect([denied.status, isWait(denied.headers['retry-after'])]).toEqual([429, true]);
      expect(JSON.parse(denied.body).errors[0].extensions).toMatchObject({
        ...{ code: 'RATE_LIMITED', cost: 61, remaining: 39 },
      });
    }));

  it('examples/ws: denied messages get a reply, then the connection is closed with 1008', () =>
    serving('ws', async (_send, url) => {
      const client = new WebSocket(url);
      await once(client, 'open');
      const replies: Record<string, unknown>[] = [];
      client.on('message', (data) => replies.push(JSON.parse(String(data))));
      for (let place = 0; place < 15; place++) client.send(`message ${place}`);
      const [code] = await once(client, 'close');
      expect(code).toBe(1008);
      expect(replies.map(({ echo }) => echo !== undefined)).toEqual(
        Array.from({ length: 15 }, (_, place) => place < 5),
      );
      expect(replies[5].retryAfterMs).toBeGreaterThan(0);
      // Another connection of the same address has the same limit.
      const second = new WebSocket(url);
      await once(second, 'open');
      second.send('again');
      const [reply] = await once(second, 'message');
      expect(JSON.parse(String(reply))).toMatchObject({ error: 'rate_limited' });
      second.close();
    }));

  it('examples/ws: too many connections get 429 with Retry-After', () =>
    serving('ws', async (send) => {
      const upgrade = {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': Buffer.alloc(16).toString('base64'),
      };
      const open = (): Promise<HttpResponse> =>
        Promise.race([
          send('/', { headers: upgrade }),
          new Promise<HttpResponse>((resolve) => setTimeout(resolve, 50, { status: 101 } as never)),
        ]);
      let last: HttpResponse | undefined;
      for (let place = 0; place < 11; place++) last = await open();
      expect([last!.status, Number(last!.headers?.['retry-after']) > 0]).toEqual([429, true]);
    }));

  it('examples/socket-io: events of all connections of a user share a limit', () =>
    serving('socket-io', async (_send, url) => {
      const connect = (token: string) =>
        io(url, {
          auth: { token },
          transports: ['websocket'],
          forceNew: true,
          reconnection: false,
        });
      const [first, second, bob] = ['ada', 'ada', 'bob'].map((name) => connect(`token-of-${name}`));
      await Promise.all([first, second, bob].map((each) => each.emitWithAck('say', 'hello')));
      const said = async (socket: typeof first) => 'said' in (await socket.emitWithAck('say', 'x'));
      expect([await said(first), await said(second), await said(first)]).toEqual([
        true,
        true,
        true,
      ]);
      expect([await said(second), await said(first), await said(bob)]).toEqual([
        false,
        false,
        true,
      ]);
      const denied = await first.emitWithAck('say', 'x');
      expect(denied).toMatchObject({ error: 'rate_limited' });
      expect(denied.retryAfterMs).toBeGreaterThan(0);
      // Without an acknowledgement, the reply is an event. After 10 denials, the client is
      // disconnected.
      const disconnected = once(first as never, 'disconnect');
      const reply = once(first as never, 'rate_limited');
      for (let place = 0; place < 10; place++) first.emit('say', 'x');
      expect((await reply)[0]).toMatchObject({ error: 'rate_limited' });
      expect(await disconnected).toContain('io server disconnect');
      const stranger = connect('invented');
      const [error] = await once(stranger as never, 'connect_error');
      expect(error.message).toBe('unauthorized');
      for (const each of [first, second, bob, stranger]) each.close();
    }));
});
