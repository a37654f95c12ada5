/** Hono on Node, where the headers are set on Node's response. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, createServer as createHttp2Server } from 'node:http2';
import { getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { stream } from 'hono/streaming';
import { describe, expect, it } from 'vitest';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { withServer } from './listening.ts';

it('Hono: an immutable response gets the rate-limit headers', async () => {
  const app = new Hono();
  app.use(honoLimit({ limit: 2, window: '1h', key: () => 'a' }));
  app.get('/', () => Response.redirect('http://localhost/elsewhere', 302));
  const response = await app.request('/');
  expect([response.status, response.headers.get('ratelimit')]).toEqual([
    302,
    '"default";r=1;t=3600',
  ]);
});

describe('a Hono app on Node', () => {
  /** Serves an app during a test. */
  async function withApp(app: Hono, test: (url: string) => Promise<void>): Promise<void> {
    await withServer(createServer(getRequestListener(app.fetch)), test);
  }

  /** An app with all kinds of responses, and optionally a limit. */
  function manyResponses(limit?: ReturnType<typeof honoLimit>): Hono {
    const app = new Hono();
    if (limit) app.use(limit);
    app.get('/json', (context) => context.json({ hello: 'world' }));
    app.get('/raw', () => new Response('hello', { headers: { 'x-own': 'yes' } }));
    app.get('/redirect', () => Response.redirect('http://localhost/elsewhere', 302));
    app.get('/stream', (context) => stream(context, async (out) => void (await out.write('hi'))));
    app.get('/error', () => {
      throw new Error('mine');
    });
    app.get('/sent', (context) => {
      const { outgoing } = context.env as { outgoing: ServerResponse };
      outgoing.setHeader('x-own', 'yes').end('hello');
      // If this response was created after @hono/node-server replaced the global class, the server
      // ignores its meaning until a property such as `bodyUsed` has been read.
      void RESPONSE_ALREADY_SENT.bodyUsed;
      return RESPONSE_ALREADY_SENT;
    });
    app.onError((_, context) => context.text('sorry', 500));
    return app;
  }

  const options = { limit: 99, window: '1h' } as const;
  it.each([
    ['a middleware', manyResponses(honoLimit(options)).fetch],
    ['a limit in front', fetchLimit(options)(manyResponses().fetch)],
  ])('Hono on Node with %s sends the headers on every kind of response', async (_, fetcher) => {
    await withServer(createServer(getRequestListener(fetcher)), async (url) => {
      const responses: [string, number, string | null][] = [];
      for (const path of ['json', 'raw', 'redirect', 'stream', 'error', 'sent', 'missing']) {
        const response = await fetch(url + path, { redirect: 'manual' });
        await response.text();
        responses.push([path, response.status, response.headers.get('ratelimit')]);
      }
      expect(responses).toEqual([
        ['json', 200, '"default";r=98;t=3600'],
        ['raw', 200, '"default";r=97;t=3600'],
        ['redirect', 302, '"default";r=96;t=3600'],
        ['stream', 200, '"default";r=95;t=3600'],
        ['error', 500, '"default";r=94;t=3600'],
        ['sent', 200, '"default";r=93;t=3600'],
        ['missing', 404, '"default";r=92;t=3600'],
      ]);
    });
  });

  it('Hono on Node combines the headers of two limits, also if one denies', async () => {
    const app = new Hono();
    app.use(honoLimit({ name: 'wide', limit: 9, window: '1h' }));
    app.use(honoLimit({ name: 'tight', limit: 1, window: '1h' }));
    app.get('/', (context) => context.text('hello'));
    await withApp(app, async (url) => {
      const [first, second] = [await fetch(url), await fetch(url)];
      expect(first.headers.get('ratelimit')).toBe('"wide";r=8;t=3600, "tight";r=0;t=3600');
      expect([second.status, second.headers.get('retry-after')]).toEqual([429, '3600']);
      expect(second.headers.get('ratelimit')).toBe('"wide";r=7;t=3600, "tight";r=0;t=3600');
    });
  });

  it('Hono on Node sends the headers over HTTP/2', async () => {
    const app = new Hono();
    app.use(honoLimit({ limit: 9, window: '1h' }));
    app.get('/', (context) => context.json({ hello: 'world' }));
    const server = createHttp2Server(getRequestListener(app.fetch));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = connect(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
    const [headers] = await once(client.request().resume(), 'response');
    expect(headers).toMatchObject({
      ':status': 200,
      'content-type': 'application/json',
      'ratelimit-policy': '"default";q=9;w=3600',
      ratelimit: '"default";r=8;t=3600',
    });
    client.close();
    server.close();
  });

  it('Hono on Node reads request headers as changed by earlier middleware', async () => {
    const app = new Hono();
    app.use((context, next) => {
      const headers = { 'x-user': context.req.query('user') ?? '' };
      context.req.raw = new Request(context.req.raw, { headers });
      return next();
    });
    app.use(honoLimit({ limit: 1, window: '1h', key: { header: 'x-user' } }));
    app.get('/', (context) => context.text('hello'));
    await withApp(app, async (url) => {
      const statusOf = async (user: string) => (await fetch(`${url}?user=${user}`)).status;
      expect([await statusOf('ada'), await statusOf('bob'), await statusOf('ada')]).toEqual([
        200, 200, 429,
      ]);
    });
  });

  it('Hono on Node adds the headers to the response of the handler option', async () => {
    const app = new Hono();
    const handler = () => new Response('slow down', { status: 420 });
    app.use(honoLimit({ limit: 1, window: '1h', key: () => 'a', handler }));
    app.get('/', (context) => context.text('hello'));
    await withApp(app, async (url) => {
      await fetch(url);
      const denied = await fetch(url);
      expect([denied.status, await denied.text()]).toEqual([420, 'slow down']);
      expect(denied.headers.get('retry-after')).toBe('3600');
    });
    // Without a Node server the headers are on the Response.
    const elsewhere = await app.request('/');
    expect([elsewhere.status, elsewhere.headers.get('retry-after')]).toEqual([420, '3600']);
  });
});
