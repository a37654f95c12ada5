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

describe('on Redis', () => {
  let served: Served;
  beforeAll(async () => {
    served = await serveOnRedis();
  });
  afterAll(() => served.close());

  test('Redis charges several descriptors all or none', async () => {
    const question = shop(entries('two', 'a'), entries('ten', 'a'));
    expect(await served.client.passing(question, 4)).toBe(2);
    const denied = await served.client.ask(question);
    expect(denied.statuses.map(({ code }) => code)).toEqual([OVER, OK]);
    expect(denied.statuses[1].limit_remaining).toBe(8);
  });

  test('hits of 0 charge nothing on Redis', async () => {
    const asked = { ...entries('two', 'b'), hits_addend: { value: 0 } };
    expect((await served.client.ask(shop(asked))).statuses[0].limit_remaining).toBe(2);
    await served.client.ask({ ...shop(entries('two', 'b')), hits_addend: 2 });
    expect((await served.client.ask(shop(asked))).overall_code).toBe(OVER);
  });

  test('a shadow limit on Redis is counted and never over the limit', async () => {
    const question = shop(entries('watched', 'a'), entries('two', 'c'));
    expect(await served.client.passing(question, 2)).toBe(2);
    const { statuses } = await served.client.ask(question);
    expect(statuses.map(({ code }) => code)).toEqual([OK, OVER]);
  });

  test('soft limits on Redis deny only together under concurrent requests', async () => {
    const question = shop(entries('soft', 'a'), entries('soft', 'b'));
    const verdicts = await Promise.all(
      Array.from({ length: 20 }, () => served.client.ask(question)),
    );
    const passed = verdicts.filter(({ overall_code }) => overall_code === OK).length;
    // One of the first and two of the second: two at least, and three if they did not meet.
    expect(passed).toBeGreaterThanOrEqual(2);
    expect(passed).toBeLessThanOrEqual(3);
  });

  test('Redis allows exactly the limit of concurrent requests', async () => {
    const question = shop(entries('ten', 'crowded'));
    const verdicts = await Promise.all(
      Array.from({ length: 300 }, () => served.client.ask(question)),
    );
    expect(verdicts.filter(({ overall_code }) => overall_code === OK)).toHaveLength(10);
  });
});

describe('if Redis is unavailable', () => {
  let served: Served;
  beforeAll(async () => {
    served = await serveOnRedis();
    await redis.kill();
  });
  afterAll(async () => {
    await served.close();
    await redis.restart();
  });

  test('the action allow allows the request', async () => {
    const verdict = await served.client.ask(fails('allow'));
    expect(verdict.overall_code).toBe(OK);
    expect(await served.client.passing(fails('allow'), 5)).toBe(5);
  });

  test('the action deny denies the request, with Retry-After only', async () => {
    const verdict = await served.client.ask(fails('deny'));
    expect(verdict.overall_code).toBe(OVER);
    expect(verdict.statuses[0]).toMatchObject({ code: OVER, limit_remaining: 0 });
    expect(verdict.response_headers_to_add.map(({ key }) => key)).toEqual(['Retry-After']);
  });

  test('the action local counts in the process', async () => {
    expect(await served.client.passing(fails('local'), 5)).toBe(2);
  });

  test('the action throw is UNAVAILABLE', async () => {
    const [code, message] = await failureOf(served.client.ask(fails('throw')));
    expect(code).toBe('UNAVAILABLE');
    expect(message).toContain('store');
    const answer = await served.running.post('/json', fails('throw'));
    expect([answer.status, answer.json.code]).toEqual([503, 'ERR_STORE_UNAVAILABLE']);
  });

  test('a shadow limit allows the request without Redis', async () => {
    const verdict = await served.client.ask(fails('watched'));
    expect(verdict.overall_code).toBe(OK);
    expect(verdict.statuses[0].code).toBe(OK);
  });

  test('the strictest action of several descriptors applies', async () => {
    const both = shop(entries('fails', 'allow'), entries('fails', 'throw'));
    expect((await failureOf(served.client.ask(both)))[0]).toBe('UNAVAILABLE');
  });

  test('the service is NOT_SERVING until Redis is available', async () => {
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
