/** When a response counts as complete: HTTP/2, and clients that disconnect early. */
import { createServer, get, type RequestListener } from 'node:http';
import { connect, createServer as createHttp2, type Http2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { fastify } from 'fastify';
import { describe, expect, it, vi } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import { memoryStore } from '../../src/index.ts';
import { withServer } from './listening.ts';

/** Sends requests over HTTP/2, each with the status to respond with. */
async function statuses(server: Http2Server, ...wanted: number[]): Promise<number[]> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const found: number[] = [];
  for (const status of wanted) {
    const stream = session.request({ ':path': '/', 'x-status': String(status) });
    const headers = await new Promise<Record<string, unknown>>((resolve) =>
      stream.once('response', resolve),
    );
    stream.resume();
    await new Promise((resolve) => stream.once('close', resolve));
    found.push(Number(headers[':status']));
  }
  session.close();
  server.close();
  return found;
}

describe('HTTP/2', () => {
  const options = { limit: 1, window: '1h', count: 'failures' } as const;

  it('node: `count` refunds successful requests over HTTP/2', async () => {
    const listener = nodeLimit(options)((request, response) => {
      response.statusCode = Number(request.headers['x-status']);
      response.end('hello');
    });
    const server = createHttp2(listener as never);
    expect(await statuses(server, 200, 200, 401, 200)).toEqual([200, 200, 401, 429]);
  });

  it('Fastify: `count` refunds successful requests over HTTP/2', async () => {
    const app = fastify({ http2: true });
    await app.register(fastifyLimit, options);
    app.get('/', async (request, reply) =>
      reply.code(Number(request.headers['x-status'])).send('hello'),
    );
    await app.ready();
    expect(await statuses(app.server, 200, 200, 401, 200)).toEqual([200, 200, 401, 429]);
  });
});

describe('a client that disconnects while the store decides', () => {
  /** A store that decides when `release` is called. */
  function heldStore() {
    const store = memoryStore();
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const waiting = {
      decide: async (...args: Parameters<typeof store.decide>) => {
        await held;
        return store.decide(...args);
      },
      adjust: store.adjust.bind(store),
      reset: store.reset.bind(store),
      close: async () => {},
    };
    return { store: waiting, release, size: () => store.size };
  }

  const apps: Readonly<Record<string, (options: object) => RequestListener>> = {
    express: (options) => {
      const app = express();
      app.use(expressLimit(options as never) as never);
      app.use((_request, response) => void response.send('hello'));
      return app;
    },
    node: (options) => nodeLimit(options as never)((_request, response) => response.end('hello')),
  };

  it.each(Object.entries(apps))(
    '%s: if the client disconnects before the decision, `finished` is false',
    async (_, listenerOf) => {
      const { store, release } = heldStore();
      const outcomes: unknown[] = [];
      const settle = ({ finished }: { finished: boolean }) => void outcomes.push(finished);
      const options = { limit: 1, window: '1h', key: () => 'ada', store, settle, name: 'one' };
      let closed = (): void => {};
      const isClosed = new Promise<void>((resolve) => {
        closed = resolve;
      });
      const listener = listenerOf(options);
      const server = createServer((request, response) => {
        response.once('close', () => closed());
        listener(request, response);
      });
      await withServer(server, async (url) => {
        const sent = get(url, { agent: false });
        sent.on('error', () => {});
        await new Promise((resolve) => server.once('request', resolve));
        sent.destroy();
        await isClosed;
        release();
        await vi.waitFor(() => expect(outcomes).toEqual([false]));
      });
    },
  );
});
