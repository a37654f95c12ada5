import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  entries,
  FREE,
  failureOf,
  OK,
  OVER,
  type RateLimitResponse,
  type Served,
  serve,
} from './client.ts';

const CONFIG = `
domain: shop
descriptors:
  - { key: ten, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: two, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: watched, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true } }
`;

let served: Served;
beforeAll(async () => {
  served = await serve(CONFIG);
});
afterAll(() => served.close());

let names = 0;
const name = (): string => `name-${names++}`;

const checkHits = (hits: number, ...descriptors: object[]): Promise<RateLimitResponse> =>
  served.client.shouldRateLimit({ domain: 'shop', descriptors, hits_addend: hits });
const check = (...descriptors: object[]): Promise<RateLimitResponse> =>
  checkHits(0, ...descriptors);
const remaining = ({ statuses }: RateLimitResponse): readonly number[] =>
  statuses.map(({ limit_remaining }) => limit_remaining);
const codes = ({ statuses }: RateLimitResponse): readonly string[] =>
  statuses.map(({ code }) => code);
const withHits = (value: number | string, ...texts: string[]) => ({
  ...entries(...texts),
  hits_addend: { value },
});

describe('hits of the request', () => {
  test('hits of 0 in the request are charged as 1', async () => {
    expect(remaining(await checkHits(0, entries('ten', name())))).toEqual([9]);
  });

  test('hits of the request are charged to each descriptor', async () => {
    const [a, b] = [name(), name()];
    expect(remaining(await checkHits(5, entries('ten', a), entries('ten', b)))).toEqual([5, 5]);
  });

  test('denied hits are not charged', async () => {
    const ten = entries('ten', name());
    await checkHits(8, ten);
    const denied = await checkHits(5, ten);
    expect(denied.overall_code).toBe(OVER);
    expect(remaining(denied)).toEqual([2]);
    expect((await checkHits(2, ten)).overall_code).toBe(OK);
  });

  test('hits above the limit are denied without charge or Retry-After', async () => {
    const [ten, two] = [entries('ten', name()), entries('two', name())];
    const denied = await checkHits(11, ten);
    expect(denied.overall_code).toBe(OVER);
    expect(denied.statuses[0]).toMatchObject({ code: OVER, limit_remaining: 10 });
    expect(denied.response_headers_to_add.map(({ key }) => key)).not.toContain('Retry-After');
    const both = await checkHits(5, ten, two);
    expect(codes(both)).toEqual([OK, OVER]);
    expect(both.overall_code).toBe(OVER);
    expect(remaining(await checkHits(1, ten, two))).toEqual([9, 1]);
  });

  test('hits above a shadow limit are allowed', async () => {
    const [watched, ten] = [entries('watched', name()), entries('ten', name())];
    const response = await checkHits(5, watched, ten);
    expect(response.overall_code).toBe(OK);
    expect(codes(response)).toEqual([OK, OK]);
    expect(remaining(response)[1]).toBe(5);
  });
});

describe('hits of a descriptor', () => {
  test('hits of a descriptor override those of the request', async () => {
    const [a, b] = [name(), name()];
    const response = await checkHits(5, withHits(3, 'ten', a), entries('ten', b));
    expect(remaining(response)).toEqual([7, 5]);
  });

  test('hits of 0 in a descriptor check the limit without a charge (a peek)', async () => {
    const user = name();
    const peek = withHits(0, 'two', user);
    expect(remaining(await check(peek))).toEqual([2]);
    await checkHits(2, entries('two', user));
    const over = await check(peek);
    expect(over.overall_code).toBe(OVER);
    expect(over.statuses[0].limit_remaining).toBe(0);
    expect(over.statuses[0].duration_until_reset!.seconds).toBeGreaterThan(0);
  });

  test('an empty hits_addend in a descriptor charges nothing', async () => {
    const user = name();
    await check({ ...entries('two', user), hits_addend: {} });
    expect(remaining(await check(entries('two', user)))).toEqual([1]);
  });

  test('a peek includes the charges of other descriptors with the same counter', async () => {
    const user = name();
    const response = await check(withHits(0, 'two', user), withHits(2, 'two', user));
    expect(response.overall_code).toBe(OK);
    expect(remaining(response)).toEqual([0, 0]);
  });

  test('a denied peek prevents the charges of other descriptors', async () => {
    const [full, user] = [name(), name()];
    await checkHits(2, entries('two', full));
    const response = await check(withHits(0, 'two', full), entries('ten', user));
    expect(response.overall_code).toBe(OVER);
    expect(codes(response)).toEqual([OVER, OK]);
    expect(remaining(await check(withHits(0, 'ten', user)))).toEqual([10]);
  });

  test('a peek is denied by a limit of 0 and allowed by unlimited or shadow limits', async () => {
    expect((await check(withHits(0, 'never', 'x'))).overall_code).toBe(OVER);
    expect((await check(withHits(0, 'free', 'x'))).overall_code).toBe(OK);
    expect((await check(withHits(0, 'watched', 'x'))).overall_code).toBe(OK);
  });

  test('the largest 64-bit hits of a descriptor are denied, not rejected', async () => {
    const largest = withHits('18446744073709551615', 'ten', name());
    expect((await check(largest)).overall_code).toBe(OVER);
  });

  test('negative hits of a descriptor are rejected without a charge', async () => {
    const user = name();
    const given = { ...withHits(3, 'ten', user), is_negative_hits: true };
    expect(await failureOf(check(given))).toEqual([
      'INVALID_ARGUMENT',
      'Expected a positive number of hits, got `is_negative_hits`',
    ]);
    expect(remaining(await check(entries('ten', user)))).toEqual([9]);
  });
});

describe('limits in descriptors', () => {
  const override = (requests_per_unit: number, unit: number, ...texts: string[]) => ({
    ...entries(...texts),
    limit: { requests_per_unit, unit },
  });

  test.each([
    [1, 'PERIOD_SECOND', 1],
    [2, 'PERIOD_MINUTE', 60],
    [3, 'PERIOD_HOUR', 3600],
    [4, 'PERIOD_DAY', 86_400],
    [5, 'PERIOD_MONTH', 30 * 86_400],
    [6, 'PERIOD_YEAR', 365 * 86_400],
  ])(
    'a limit in a descriptor with unit %i has the window of %s',
    async (unit, unitName, seconds) => {
      const { statuses } = await check(override(3, unit, 'anything', name()));
      expect(statuses).toEqual([
        {
          code: OK,
          current_limit: { requests_per_unit: 3, unit: unitName, name: '' },
          limit_remaining: 2,
          duration_until_reset: { seconds, nanos: 0 },
        },
      ]);
    },
  );

  test.each([0, 7, 99])('the unit %i of a limit in a descriptor is rejected', async (unit) => {
    const [code, message] = await failureOf(check(override(3, unit, 'ten', name())));
    expect(code).toBe('INVALID_ARGUMENT');
    expect(message).toBe(`Expected the unit of a limit to be SECOND to YEAR, got ${unit}`);
  });

  test('a limit in a descriptor overrides the configuration', async () => {
    for (const key of ['ten', 'free', 'watched', 'never']) {
      const request = { domain: 'shop', descriptors: [override(1, 2, key, name())] };
      expect(await served.client.countAllowed(request, 3)).toBe(1);
    }
  });

  test('a limit in a descriptor has its own counter', async () => {
    const user = name();
    await check(override(1, 2, 'ten', user));
    expect(remaining(await check(entries('ten', user)))).toEqual([9]);
    expect((await check(override(1, 2, 'ten', name()))).overall_code).toBe(OK);
    expect((await check(override(1, 3, 'ten', user))).overall_code).toBe(OK);
    expect((await check(override(1, 2, 'ten', user))).overall_code).toBe(OVER);
  });

  test('a changed limit in a descriptor keeps its counter', async () => {
    const user = name();
    await checkHits(4, override(10, 2, 'x', user));
    expect(remaining(await check(override(6, 2, 'x', user)))).toEqual([1]);
    expect((await checkHits(1, override(4, 2, 'x', user))).overall_code).toBe(OVER);
  });

  test('of two limits in equal descriptors the smaller applies', async () => {
    const user = name();
    const both = [override(5, 2, 'x', user), override(2, 2, 'x', user)];
    expect((await check(...both)).overall_code).toBe(OK);
    expect((await check(...both)).overall_code).toBe(OVER);
  });

  test('a limit of 0 in a descriptor denies everything', async () => {
    const { overall_code, statuses } = await check(override(0, 2, 'ten', name()));
    expect(overall_code).toBe(OVER);
    expect(statuses[0].current_limit).toEqual({
      requests_per_unit: 0,
      unit: 'PERIOD_MINUTE',
      name: '',
    });
  });

  test('a limit in a descriptor that is too large to be exact is rejected', async () => {
    const [code, message] = await failureOf(check(override(4_294_967_295, 6, 'ten', name())));
    expect(code).toBe('INVALID_ARGUMENT');
    expect(message).toContain('at most 2^53 - 1');
    expect((await check(override(4_294_967_295, 1, 'ten', name()))).overall_code).toBe(OK);
  });

  test('a limit in a descriptor of an unknown domain is ignored', async () => {
    const request = { domain: 'unknown', descriptors: [override(1, 2, 'ten', 'x')] };
    expect(await served.client.countAllowed(request, 3)).toBe(3);
  });
});

describe('validation of requests', () => {
  test.each([
    ['without any field', {}, 'Expected a domain, got none'],
    ['without a domain', { descriptors: [entries('ten', 'x')] }, 'Expected a domain, got none'],
    ['without descriptors', { domain: 'shop' }, 'Expected at least one descriptor, got none'],
    [
      'with too many descriptors',
      { domain: 'shop', descriptors: Array.from({ length: 257 }, () => entries('free', 'x')) },
      'Expected at most 256 descriptors, got 257',
    ],
    [
      'with too many entries',
      { domain: 'shop', descriptors: [entries(...Array.from({ length: 130 }, () => 'x'))] },
      'Expected at most 64 entries in a descriptor, got 65',
    ],
  ])('a rate limit request %s is rejected', async (_, request, message) => {
    expect(await failureOf(served.client.shouldRateLimit(request))).toEqual([
      'INVALID_ARGUMENT',
      message,
    ]);
  });

  test('all requests in an unknown domain are allowed', async () => {
    const descriptors = [entries('ten', 'x'), entries('two', 'x')];
    const response = await served.client.shouldRateLimit({ domain: '__proto__', descriptors });
    expect(response).toMatchObject({ overall_code: OK, response_headers_to_add: [] });
    expect(response.statuses).toEqual([FREE, FREE]);
  });

  test('unknown fields of a request are ignored', async () => {
    const descriptors = [entries('ten', name())];
    const request = { domain: 'shop', descriptors, from_the_future: 'x' };
    expect((await served.client.shouldRateLimit(request)).overall_code).toBe(OK);
  });

  test('long descriptor values that differ only at the end have separate counters', async () => {
    const long = 'v'.repeat(20_000);
    expect(await served.client.countAllowed(shopOf(entries('two', `${long}a`)), 3)).toBe(2);
    expect(await served.client.countAllowed(shopOf(entries('two', `${long}b`)), 3)).toBe(2);
    const many = Array.from({ length: 128 }, (_, at) => `part ${at} of many`);
    const override = { ...entries(...many), limit: { requests_per_unit: 1, unit: 2 } };
    expect(await served.client.countAllowed(shopOf(override), 3)).toBe(1);
  });

  test('descriptor values with separators or escapes have separate counters', async () => {
    for (const value of ['a:b', 'a\\:b', 'a\\', ':', '', '{a}', '\u0000', 'ä', '__proto__']) {
      expect(await served.client.countAllowed(shopOf(entries('two', value)), 3)).toBe(2);
    }
  });
});

const shopOf = (...descriptors: object[]) => ({ domain: 'shop', descriptors });
