import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type LimitFetchOptions, limitFetch } from '../../src/http/limit-fetch.ts';
import { createLimiter } from '../../src/index.ts';

let upstream: Server;
let url: string;
let calls = 0;
let answer: { status: number; headers: Record<string, string> };

beforeAll(async () => {
  upstream = createServer((_request, response) => {
    calls++;
    response.writeHead(answer.status, answer.headers).end();
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
  answer = { status: 200, headers: {} };
});

function limited(
  options: Partial<Omit<LimitFetchOptions, 'policy'>> = {},
  limit = 2,
  window: string | number = '1h',
) {
  const limiter = createLimiter({ policies: { budget: { limit, window } } });
  return { limiter, call: limitFetch(fetch, limiter, { policy: 'budget', ...options }) };
}

describe('a fetch that keeps to a budget', () => {
  it('spends before it calls, and does not call when nothing is left', async () => {
    const { call } = limited();
    const statuses = [];
    for (let number = 0; number < 3; number++) statuses.push((await call(url)).status);
    expect(statuses).toEqual([200, 200, 429]);
    expect(calls).toBe(2);
  });

  it('tells how long to wait, as the other side would', async () => {
    const { call } = limited({}, 1);
    await call(url);
    const refused = await call(url);
    const seconds = Number(refused.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(3590);
    expect(seconds).toBeLessThanOrEqual(3600);
  });

  it('throws instead, if told so, with the wait', async () => {
    const { call } = limited({ onDenied: 'throw' }, 1);
    await call(url);
    await expect(call(url)).rejects.toMatchObject({
      code: 'ERR_RATE_LIMITED',
      retryAfterMs: expect.any(Number),
    });
  });

  it('waits for its turn as long as it may', async () => {
    const { call } = limited({ maxWaitMs: 5000 }, 1, 200);
    await call(url);
    expect((await call(url)).status).toBe(200);
    expect(calls).toBe(2);
  });

  it('takes the cost and the key that functions say', async () => {
    const { limiter, call } = limited({
      cost: (_input, init) => (init?.method === 'POST' ? 2 : 1),
      key: (input) => ['host', new URL(String(input)).hostname],
    });
    await call(url, { method: 'POST' });
    expect((await limiter.peek('budget', ['host', '127.0.0.1'])).remaining).toBe(0);
    expect((await call(url)).status).toBe(429);
  });

  it('leaves the other side alone for as long as it says in a refusal', async () => {
    const { call } = limited({}, 100);
    answer = { status: 429, headers: { 'Retry-After': '30' } };
    expect((await call(url)).status).toBe(429);
    answer = { status: 200, headers: {} };
    const held = await call(url);
    expect([held.status, calls]).toEqual([429, 1]);
    expect(Number(held.headers.get('retry-after'))).toBeGreaterThan(28);
  });

  it('leaves it alone when its budget there is used up, though the answer is well', async () => {
    const { call } = limited({}, 100);
    answer = { status: 200, headers: { RateLimit: '"minute";r=0;t=20, "day";r=5;t=4000' } };
    expect((await call(url)).status).toBe(200);
    const held = await call(url);
    expect([held.status, calls]).toEqual([429, 1]);
    expect(Number(held.headers.get('retry-after'))).toBeLessThanOrEqual(20);
  });

  it('waits that out, if it may', async () => {
    const { call } = limited({ maxWaitMs: 5000 }, 100);
    answer = { status: 503, headers: { 'Retry-After': '1' } };
    await call(url);
    answer = { status: 200, headers: {} };
    expect((await call(url)).status).toBe(200);
    expect(calls).toBe(2);
  });

  it('what it says about one key does not concern another', async () => {
    const { call } = limited({
      key: (_input, init) => String(new Headers(init?.headers).get('x-key')),
    });
    answer = { status: 429, headers: { 'Retry-After': '30' } };
    await call(url, { headers: { 'x-key': 'a' } });
    answer = { status: 200, headers: {} };
    expect((await call(url, { headers: { 'x-key': 'a' } })).status).toBe(429);
    expect((await call(url, { headers: { 'x-key': 'b' } })).status).toBe(200);
  });

  it('stops waiting when it is called off, and has spent nothing', async () => {
    const { limiter, call } = limited({ maxWaitMs: 60_000, key: 'k' }, 1, '30s');
    await call(url);
    const control = new AbortController();
    const waiting = call(url, { signal: control.signal });
    control.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect((await limiter.inspect('budget', 'k'))?.used).toBe(1);
  });

  it('refuses what it does not know', () => {
    expect(() => limited({ onDenied: 'wait' as never })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
    expect(() => limited({ maxWait: 5 } as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  });
});
