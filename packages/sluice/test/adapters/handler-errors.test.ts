/** Errors that handlers throw, as responses and as outcomes. */
import { createServer } from 'node:http';
import { Hono } from 'hono';
import Koa from 'koa';
import { describe, expect, it } from 'vitest';
import { rateLimit as honoLimit } from '../../src/adapters/hono.ts';
import { rateLimit as koaLimit } from '../../src/adapters/koa.ts';
import { rateLimit as nodeLimit } from '../../src/adapters/node.ts';
import { withServer } from './listening.ts';

const MANY = { limit: 99, window: '1h' } as const;

describe('a handler behind sluice/node that throws', () => {
  it.each([
    ['an error', new Error('mine')],
    ['an error with an invalid status', Object.assign(new Error('mine'), { status: 'NOT_FOUND' })],
    ['an error with a success status', Object.assign(new Error('mine'), { status: 200 })],
    ['null', null],
  ])('node: a handler that throws %s results in 500 and a complete response', async (_, error) => {
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

it('Hono: a request whose handler throws a non-error counts as failed', async () => {
  const app = new Hono();
  app.use(honoLimit({ limit: 1, window: '1h', key: () => 'a', count: 'successes' }));
  app.get('/', () => {
    throw 'no error';
  });
  for (let call = 0; call < 3; call++) {
    await expect(Promise.resolve(app.request('/'))).rejects.toBe('no error');
  }
});
