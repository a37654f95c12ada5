import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { entries, failureOf, OK, OVER, type Served, serve } from './client.ts';

const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;

const CONFIG = `
domain: shop
descriptors:
  - { key: ten, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: two, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: watched, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: soft, value: a, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: soft, value: b, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: fails, value: allow, rate_limit: { window: 1m, limit: 2, on_failure: allow } }
  - { key: fails, value: deny, rate_limit: { window: 1m, limit: 2, on_failure: deny } }
  - { key: fails, value: local, rate_limit: { window: 1m, limit: 2, on_failure: local } }
  - { key: fails, value: throw, rate_limit: { window: 1m, limit: 2, on_failure: throw } }
  - key: fails
    value: watched
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 2, on_failure: throw }
`;

let redis: RedisServer;
beforeAll(async () => {
  execFileSync(ensureServices, ['redis']);
  redis = await startRedis();
}, 300_000);
afterAll(() => redis.stop());

async function serveOnRedis(): Promise<Served> {
  const served = await serve(CONFIG, { settings: { store: redis.url, deadlineMs: '5s' } });
  await vi.waitFor(async () => expect(await served.client.health()).toBe('STATE_SERVING'), 10_000);
  return served;
}

const shop = (...descriptors: object[]) => ({ domain: 'shop', descriptors });
const fails = (value: string) => shop(entries('fails', value));

describe('descriptors on Redis', () => {
  let served: Served;
  beforeAll(async () => {
    served = await serveOnRedis();
  });
  afterAll(() => served.close());

  test('on Redis, all descriptors of a request are charged, or none', async () => {
    const request = shop(entries('two', 'a'), entries('ten', 'a'));
    expect(await served.client.countAllowed(request, 4)).toBe(2);
    const denied = await served.client.shouldRateLimit(request);
    expect(denied.statuses.map(({ code }) => code)).toEqual([OVER, OK]);
    expect(denied.statuses[1].limit_remaining).toBe(8);
  });

  test('on Redis, hits of 0 in a descriptor charge nothing', async () => {
    const peek = { ...entries('two', 'b'), hits_addend: { value: 0 } };
    expect((await served.client.shouldRateLimit(shop(peek))).statuses[0].limit_remaining).toBe(2);
    await served.client.shouldRateLimit({ ...shop(entries('two', 'b')), hits_addend: 2 });
    expect((await served.client.shouldRateLimit(shop(peek))).overall_code).toBe(OVER);
  });

  test('on Redis, a descriptor in shadow mode does not deny the request', async () => {
    const request = shop(entries('watched', 'a'), entries('two', 'c'));
    expect(await served.client.countAllowed(request, 2)).toBe(2);
    const { statuses } = await served.client.shouldRateLimit(request);
    expect(statuses.map(({ code }) => code)).toEqual([OK, OVER]);
  });

  test('on Redis, quota_mode limits of 1 and 2 allow 2 or 3 of 20 concurrent calls', async () => {
    const request = shop(entries('soft', 'a'), entries('soft', 'b'));
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => served.client.shouldRateLimit(request)),
    );
    const passed = responses.filter(({ overall_code }) => overall_code === OK).length;
    // The limits are 1 and 2: at least 2 requests are allowed, and 3 if no request used both.
    expect(passed).toBeGreaterThanOrEqual(2);
    expect(passed).toBeLessThanOrEqual(3);
  });

  test('on Redis, concurrent requests are allowed exactly up to the limit', async () => {
    const request = shop(entries('ten', 'crowded'));
    const responses = await Promise.all(
      Array.from({ length: 300 }, () => served.client.shouldRateLimit(request)),
    );
    expect(responses.filter(({ overall_code }) => overall_code === OK)).toHaveLength(10);
  });
});

describe('failure actions without Redis', () => {
  let served: Served;
  beforeAll(async () => {
    served = await serveOnRedis();
    await redis.kill();
  });
  afterAll(async () => {
    await served.close();
    await redis.restart();
  });

  test('without Redis, on_failure: allow allows every request', async () => {
    const response = await served.client.shouldRateLimit(fails('allow'));
    expect(response.overall_code).toBe(OK);
    expect(await served.client.countAllowed(fails('allow'), 5)).toBe(5);
  });

  test('without Redis, on_failure: deny denies the request with Retry-After only', async () => {
    const response = await served.client.shouldRateLimit(fails('deny'));
    expect(response.overall_code).toBe(OVER);
    expect(response.statuses[0]).toMatchObject({ code: OVER, limit_remaining: 0 });
    expect(response.response_headers_to_add.map(({ key }) => key)).toEqual(['Retry-After']);
  });

  test('without Redis, on_failure: local applies the limit in the process', async () => {
    expect(await served.client.countAllowed(fails('local'), 5)).toBe(2);
  });

  test('without Redis, on_failure: throw responds UNAVAILABLE, or 503 over JSON', async () => {
    const [code, message] = await failureOf(served.client.shouldRateLimit(fails('throw')));
    expect(code).toBe('UNAVAILABLE');
    expect(message).toContain('store');
    const response = await served.running.post('/json', fails('throw'));
    expect([response.status, response.json.code]).toEqual([503, 'ERR_STORE_UNAVAILABLE']);
  });

  test('without Redis, a shadow limit with on_failure: throw allows the request', async () => {
    const response = await served.client.shouldRateLimit(fails('watched'));
    expect(response.overall_code).toBe(OK);
    expect(response.statuses[0].code).toBe(OK);
  });

  test('without Redis, the strictest on_failure of several descriptors applies', async () => {
    const both = shop(entries('fails', 'allow'), entries('fails', 'throw'));
    expect((await failureOf(served.client.shouldRateLimit(both)))[0]).toBe('UNAVAILABLE');
  });

  test('the gRPC health is NOT_SERVING until Redis is available', async () => {
    await vi.waitFor(
      async () => expect(await served.client.health()).toBe('STATE_NOT_SERVING'),
      10_000,
    );
    await redis.restart();
    await vi.waitFor(
      async () => expect(await served.client.health()).toBe('STATE_SERVING'),
      20_000,
    );
  });
});
