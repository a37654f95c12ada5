import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type LimitFetchOptions, limitFetch } from '../../src/http/limit-fetch.ts';
import { createLimiter } from '../../src/index.ts';

let upstream: Server;
let url: string;
let calls = 0;
let reply: { status: number; headers: Record<string, string> };

beforeAll(async () => {
  upstream = createServer((_request, response) => {
    calls++;
    response.writeHead(reply.status, reply.headers).end();
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/`;
});
afterAll(() => {
  upstream.close();
  upstream.closeAllConnections();
});
beforeEach(() => {
  calls = 0;
  reply = { status: 200, headers: {} };
});

function limited(
  options: Partial<Omit<LimitFetchOptions, 'policy'>> = {},
  limit = 2,
  window: string | number = '1h',
) {
  const limiter = createLimiter({ policies: { budget: { limit, window } } });
  return { limiter, call: limitFetch(fetch, limiter, { policy: 'budget', ...options }) };
}

describe('limitFetch', () => {
  it('limitFetch charges the limit before each call and sends no denied call', async () => {
    const { call } = limited();
    const statuses = [];
    for (let number = 0; number < 3; number++) statuses.push((await call(url)).status);
    expect(statuses).toEqual([200, 200, 429]);
    expect(calls).toBe(2);
  });

  it('limitFetch returns 429 with Retry-After if denied', async () => {
    const { call } = limited({}, 1);
    await call(url);
    const denied = await call(url);
    const seconds = Number(denied.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(3590);
    expect(seconds).toBeLessThanOrEqual(3600);
  });

  it("limitFetch throws ERR_RATE_LIMITED with the wait if onDenied is 'throw'", async () => {
    const { call } = limited({ onDenied: 'throw' }, 1);
    await call(url);
    await expect(call(url)).rejects.toMatchObject({
      code: 'ERR_RATE_LIMITED',
      retryAfterMs: expect.any(Number),
    });
  });

  it('limitFetch waits for capacity up to maxWaitMs', async () => {
    const { call } = limited({ maxWaitMs: 5000 }, 1, 200);
    await call(url);
    expect((await call(url)).status).toBe(200);
    expect(calls).toBe(2);
  });

  it('limitFetch accepts functions for cost and key', async () => {
    const { limiter, call } = limited({
      cost: (_input, init) => (init?.method === 'POST' ? 2 : 1),
      key: (input) => ['host', new URL(String(input)).hostname],
    });
    await call(url, { method: 'POST' });
    expect((await limiter.peek('budget', ['host', '127.0.0.1'])).remaining).toBe(0);
    expect((await call(url)).status).toBe(429);
  });

  it('limitFetch makes no calls until the Retry-After of a 429 has passed', async () => {
    const { call } = limited({}, 100);
    reply = { status: 429, headers: { 'Retry-After': '30' } };
    expect((await call(url)).status).toBe(429);
    reply = { status: 200, headers: {} };
    const held = await call(url);
    expect([held.status, calls]).toEqual([429, 1]);
    expect(Number(held.headers.get('retry-after'))).toBeGreaterThan(28);
  });

  it('limitFetch makes no calls until the reset if a response has 0 remaining', async () => {
    const { call } = limited({}, 100);
    reply = { status: 200, headers: { RateLimit: '"minute";r=0;t=20, "day";r=5;t=4000' } };
    expect((await call(url)).status).toBe(200);
    const held = await call(url);
    expect([held.status, calls]).toEqual([429, 1]);
    expect(Number(held.headers.get('retry-after'))).toBeLessThanOrEqual(20);
  });

  it('limitFetch waits for the end of a pause within maxWaitMs', async () => {
    const { call } = limited({ maxWaitMs: 5000 }, 100);
    reply = { status: 503, headers: { 'Retry-After': '1' } };
    await call(url);
    reply = { status: 200, headers: {} };
    expect((await call(url)).status).toBe(200);
    expect(calls).toBe(2);
  });

  it('limitFetch pauses the key of a 429 without affecting other keys', async () => {
    const { call } = limited({
      key: (_input, init) => String(new Headers(init?.headers).get('x-key')),
    });
    reply = { status: 429, headers: { 'Retry-After': '30' } };
    await call(url, { headers: { 'x-key': 'a' } });
    reply = { status: 200, headers: {} };
    expect((await call(url, { headers: { 'x-key': 'a' } })).status).toBe(429);
    expect((await call(url, { headers: { 'x-key': 'b' } })).status).toBe(200);
  });

  it('limitFetch stops waiting on abort and charges nothing', async () => {
    const { limiter, call } = limited({ maxWaitMs: 60_000, key: 'k' }, 1, '30s');
    await call(url);
    const control = new AbortController();
    const waiting = call(url, { signal: control.signal });
    control.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect((await limiter.inspect('budget', 'k'))?.used).toBe(1);
  });

  it('limitFetch rejects unknown options', () => {
    expect(() => limited({ onDenied: 'wait' as never })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
    expect(() => limited({ maxWait: 5 } as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  });
});
