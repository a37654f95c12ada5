import { afterEach, describe, expect, test } from 'vitest';
import { entries, OK, OVER, type RateLimitResponse, type Served, serve } from './client.ts';

const CONFIG = `
policies:
  perUser: { limit: 3, window: 1m }
  burst: { limit: 10, window: 1s, algorithm: token-bucket, burst: 30 }
rules:
  - match: { domain: shop, descriptor: { user: '*' } }
    limits: [{ policy: perUser, key: 'descriptor:user' }]
  - match: { domain: shop, descriptor: { burst: '*' } }
    limits: [{ policy: burst, key: 'descriptor:burst' }]
domains:
  - domain: shop
    descriptors:
      - { key: one, rate_limit: { unit: hour, requests_per_unit: 1 } }
      - { key: five, rate_limit: { unit: minute, requests_per_unit: 5 } }
      - { key: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
      - { key: soft, value: a, quota_mode: true, rate_limit: { window: 1m, limit: 1 } }
      - { key: soft, value: b, quota_mode: true, rate_limit: { window: 1m, limit: 2 } }
      - { key: soft, value: never, quota_mode: true, rate_limit: { window: 1m, limit: 0 } }
      - key: first
        metadata: { to: a, of: { x: 1 } }
        rate_limit: { unit: minute, requests_per_unit: 1 }
      - key: second
        metadata: { to: b, of: { x: 2, y: 2 } }
        rate_limit: { unit: minute, requests_per_unit: 9 }
`;

let served: Served;
afterEach(() => served.close());

const check = (...descriptors: object[]): Promise<RateLimitResponse> =>
  served.client.shouldRateLimit({ domain: 'shop', descriptors });
const headers = ({ response_headers_to_add: list }: RateLimitResponse): Record<string, string> =>
  Object.fromEntries(list.map(({ key, value }) => [key, value]));
const codes = ({ statuses }: RateLimitResponse): readonly string[] =>
  statuses.map(({ code }) => code);

describe('response headers to add', () => {
  test('the default response headers are those of the newest RateLimit draft', async () => {
    served = await serve(CONFIG);
    expect(headers(await check(entries('user', 'ann'), entries('one', 'x')))).toEqual({
      'RateLimit-Policy': '"perUser";q=3;w=60, "shop.one";q=1;w=3600',
      RateLimit: '"perUser";r=2;t=60, "shop.one";r=0;t=3600',
    });
    const denied = headers(await check(entries('user', 'ann'), entries('one', 'x')));
    expect(denied['RateLimit-Policy']).toBe('"perUser";q=3;w=60, "shop.one";q=1;w=3600');
    expect(Number(denied['Retry-After'])).toBeGreaterThan(3000);
  });

  test('the response headers contain the limit that is given in a descriptor', async () => {
    served = await serve(CONFIG);
    const override = { ...entries('x', 'y'), limit: { requests_per_unit: 7, unit: 3 } };
    expect(headers(await check(override))).toEqual({
      'RateLimit-Policy': '"sluice.override.hour";q=7;w=3600',
      RateLimit: '"sluice.override.hour";r=6;t=3600',
    });
  });

  test.each([
    ['draft-7', ['RateLimit-Policy', 'RateLimit', 'Retry-After']],
    [
      'draft-6',
      [
        ...['RateLimit-Policy', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
        'Retry-After',
      ],
    ],
    ['legacy', ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Retry-After']],
    ['none', []],
  ])('with headers: %s, a denial has exactly the response headers %j', async (form, names) => {
    served = await serve(CONFIG, { settings: { headers: form } });
    await check(entries('one', 'x'));
    expect(Object.keys(headers(await check(entries('one', 'x'))))).toEqual(names);
  });

  test('a denial has no Retry-After if another descriptor has a limit of 0', async () => {
    served = await serve(CONFIG);
    await check(entries('one', 'x'));
    const denied = await check(entries('one', 'x'), entries('never', 'x'));
    expect(Object.keys(headers(denied))).toEqual(['RateLimit-Policy', 'RateLimit']);
  });
});

describe('descriptor statuses', () => {
  test('a status contains the rate of a token bucket and the remaining burst', async () => {
    served = await serve(CONFIG);
    const { statuses } = await check(entries('burst', 'x'));
    expect(statuses[0].current_limit).toEqual({
      requests_per_unit: 10,
      unit: 'PERIOD_SECOND',
      name: 'burst',
    });
    expect(statuses[0].limit_remaining).toBe(29);
  });

  test('a status contains the override of a key', async () => {
    served = await serve(CONFIG);
    const { overrides } = served.running.service.app.decisionService;
    overrides.set({ policy: 'perUser', key: 'ann', limit: 1 });
    expect((await check(entries('user', 'ann'))).statuses[0]).toMatchObject({
      current_limit: { requests_per_unit: 1 },
      limit_remaining: 0,
    });
    expect((await check(entries('user', 'ann'))).overall_code).toBe(OVER);
    expect((await check(entries('user', 'ben'))).statuses[0].limit_remaining).toBe(2);
  });
});

describe('soft limits (quota_mode)', () => {
  const [a, b, never] = ['a', 'b', 'never'].map((value) => entries('soft', value));

  test('soft limits deny only if all are exceeded', async () => {
    served = await serve(CONFIG);
    const first = await check(a, b);
    expect([first.overall_code, ...codes(first)]).toEqual([OK, OK, OK]);
    const second = await check(a, b);
    expect([second.overall_code, ...codes(second)]).toEqual([OK, OVER, OK]);
    expect(Object.keys(headers(second))).not.toContain('Retry-After');
    const third = await check(a, b);
    expect([third.overall_code, ...codes(third)]).toEqual([OVER, OVER, OVER]);
    expect(Object.keys(headers(third))).toContain('Retry-After');
  });

  test('an exceeded soft limit denies a request if it is the only soft limit', async () => {
    served = await serve(CONFIG);
    expect((await check(a)).overall_code).toBe(OK);
    expect((await check(a)).overall_code).toBe(OVER);
    expect((await check(never)).overall_code).toBe(OVER);
    expect((await check(never, b)).overall_code).toBe(OK);
  });

  test('soft limits are not charged if a hard limit denies', async () => {
    served = await serve(CONFIG);
    await check(entries('one', 'x'));
    const denied = await check(entries('one', 'x'), a, b);
    expect([denied.overall_code, ...codes(denied)]).toEqual([OVER, OVER, OK, OK]);
    expect((await check(a)).overall_code).toBe(OK);
  });

  test('hard limits are not charged if all soft limits are exceeded', async () => {
    served = await serve(CONFIG);
    await check(a);
    const denied = await check(a, entries('five', 'x'));
    expect([denied.overall_code, ...codes(denied)]).toEqual([OVER, OVER, OK]);
    expect((await check(entries('five', 'x'))).statuses[0].limit_remaining).toBe(4);
  });
});

describe('metadata', () => {
  const text = (value: string) => ({ string_value: value });
  const number = (value: number) => ({ number_value: value });

  test('the metadata of all allowed descriptors is merged', async () => {
    served = await serve(CONFIG);
    const both = [entries('first', 'x'), entries('second', 'x')];
    const metadata = metadataOf(await check(...both));
    expect(metadata).toMatchObject({ to: text('a') });
    expect(fieldsOf(metadata.of)).toMatchObject({ x: number(1), y: number(2) });
    // Now the first descriptor is over its limit, and the second is not.
    expect(metadataOf(await check(...both))).toMatchObject({ to: text('b') });
    expect((await check(entries('one', 'x'))).dynamic_metadata).toBeNull();
  });

  interface Fields {
    readonly fields: Record<string, { readonly struct_value: Fields }>;
  }
  const fieldsOf = (value: { readonly struct_value: Fields }) => value.struct_value.fields;
  function metadataOf({ dynamic_metadata }: RateLimitResponse) {
    const { domain, metadata } = (dynamic_metadata as Fields).fields;
    expect(domain).toMatchObject(text('shop'));
    return fieldsOf(metadata);
  }
});
