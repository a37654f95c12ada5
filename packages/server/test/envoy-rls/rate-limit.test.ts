import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  entries,
  FREE,
  failureOf,
  OK,
  OVER,
  type RateLimitResponse,
  type Served,
  serve,
  UNLIMITED,
} from './client.ts';

const CONFIG = `
policies:
  perUser: 3/1m
  perTenant: { limit: 5, window: 5m }
  weighted: { limit: 10, window: 1m, costs: { search: 5 } }
rules:
  - match: { domain: shop, descriptor: { user: '*', tenant: 'big-*' } }
    limits:
      - { policy: perUser, key: 'descriptor:user' }
      - { policy: perTenant, key: 'descriptor:tenant' }
  - match: { domain: shop, descriptor: { search: '*' } }
    limits: [{ policy: weighted, key: 'descriptor:search', operation: search }]
  - match: { domain: shop, descriptor: { vip: '*' } }
    limits: []
domains:
  - domain: shop
    descriptors:
      - { key: few, rate_limit: { unit: minute, requests_per_unit: 2 } }
      - { key: few, value: special, rate_limit: { unit: minute, requests_per_unit: 4 } }
      - { key: few, value: 'robot*', rate_limit: { unit: minute, requests_per_unit: 1 } }
      - { key: many, rate_limit: { unit: hour, requests_per_unit: 100, name: plenty } }
      - { key: ten, rate_limit: { unit: day, requests_per_unit: 10 } }
      - { key: watched, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
      - { key: free, rate_limit: { unlimited: true } }
      - { key: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
      - key: never
        value: watched
        shadow_mode: true
        rate_limit: { unit: minute, requests_per_unit: 0 }
      - key: replacement
        rate_limit: { unit: minute, requests_per_unit: 50, replaces: [{ name: plenty }] }
      - { key: waived, rate_limit: { unlimited: true, replaces: [{ name: plenty }] } }
      - key: outer
        rate_limit: { unit: minute, requests_per_unit: 1 }
        descriptors:
          - { key: inner, rate_limit: { unit: minute, requests_per_unit: 2 } }
          - { key: inner, value: fixed, rate_limit: { unit: minute, requests_per_unit: 3 } }
      - { key: span, value: second, rate_limit: { unit: second, requests_per_unit: 1 } }
      - { key: span, value: week, rate_limit: { unit: week, requests_per_unit: 1 } }
      - { key: span, value: month, rate_limit: { unit: month, requests_per_unit: 1 } }
      - { key: span, value: year, rate_limit: { unit: year, requests_per_unit: 1 } }
      - { key: span, value: odd, rate_limit: { window: 5m, limit: 1 } }
`;

let served: Served;
beforeAll(async () => {
  served = await serve(CONFIG);
});
afterAll(() => served.close());

const shop = (...descriptors: object[]) => ({ domain: 'shop', descriptors });
const check = (...descriptors: object[]): Promise<RateLimitResponse> =>
  served.client.shouldRateLimit(shop(...descriptors));
const countAllowed = (times: number, ...descriptors: object[]): Promise<number> =>
  served.client.countAllowed(shop(...descriptors), times);
const codes = ({ statuses }: RateLimitResponse): readonly string[] =>
  statuses.map(({ code }) => code);

/** Returns a new name. All tests of this file share the counters. */
let names = 0;
const name = (): string => `name-${names++}`;

describe('descriptors of a domain', () => {
  test('the limit of a descriptor is enforced, and the remaining hits reported', async () => {
    const few = entries('few', name());
    const first = await check(few);
    expect(first.overall_code).toBe(OK);
    expect(first.statuses).toMatchObject([
      {
        code: OK,
        current_limit: { requests_per_unit: 2, unit: 'PERIOD_MINUTE' },
        limit_remaining: 1,
        duration_until_reset: { seconds: 60 },
      },
    ]);
    await check(few);
    const third = await check(few);
    expect(third.overall_code).toBe(OVER);
    expect(third.statuses[0]).toMatchObject({ code: OVER, limit_remaining: 0 });
    const until = third.statuses[0].duration_until_reset!;
    const untilMs = until.seconds * 1000 + until.nanos / 1e6;
    expect(untilMs).toBeLessThanOrEqual(60_000);
    expect(untilMs).toBeGreaterThan(0);
  });

  test('a descriptor without a value counts each value separately', async () => {
    const [a, b] = [entries('few', name()), entries('few', name())];
    expect(await countAllowed(3, a)).toBe(2);
    expect(await countAllowed(3, b)).toBe(2);
  });

  test('an exact value has precedence over the key alone', async () => {
    expect(await countAllowed(9, entries('few', 'special'))).toBe(4);
  });

  test('a pattern has precedence over the key and counts each value separately', async () => {
    expect(await countAllowed(9, entries('few', 'robot-1'))).toBe(1);
    expect(await countAllowed(9, entries('few', 'robot-2'))).toBe(1);
  });

  test('nested descriptors with and without values match', async () => {
    expect(await countAllowed(9, entries('outer', 'a', 'inner', 'x'))).toBe(2);
    expect(await countAllowed(9, entries('outer', 'a', 'inner', 'y'))).toBe(2);
    expect(await countAllowed(9, entries('outer', 'b', 'inner', 'x'))).toBe(2);
    expect(await countAllowed(9, entries('outer', 'a', 'inner', 'fixed'))).toBe(3);
  });

  test.each([
    ['deeper than the tree', entries('outer', 'c', 'inner', 'x', 'more', 'z')],
    ['outside the tree', entries('outer', 'c', 'else', 'x')],
    ['with an unknown key', entries('unknown', 'x')],
    ['in the wrong order', entries('inner', 'x', 'outer', 'c')],
    ['without entries', { entries: [] }],
    ['with names of Object.prototype', entries('__proto__', 'constructor', 'toString', 'x')],
  ])('a descriptor %s has no limit', async (_, descriptor) => {
    const { overall_code, statuses } = await check(descriptor);
    expect(overall_code).toBe(OK);
    expect(statuses).toEqual([FREE]);
  });

  test('the limit of a parent does not apply to nested descriptors', async () => {
    const at = name();
    expect(await countAllowed(2, entries('outer', at, 'inner', 'x'))).toBe(2);
    expect(await countAllowed(9, entries('outer', at))).toBe(1);
  });

  test.each([
    ['second', 'PERIOD_SECOND', 1],
    ['week', 'PERIOD_WEEK', 7 * 86_400],
    ['month', 'PERIOD_MONTH', 30 * 86_400],
    ['year', 'PERIOD_YEAR', 365 * 86_400],
    ['odd', 'PERIOD_UNKNOWN', 300],
  ])('the status of the descriptor span=%s has the unit %s', async (span, unit, seconds) => {
    const { statuses } = await check(entries('span', span));
    expect(statuses[0].current_limit).toEqual({ requests_per_unit: 1, unit, name: '' });
    expect(statuses[0].duration_until_reset).toEqual({ seconds, nanos: 0 });
  });

  test('an unlimited descriptor has the largest remaining value and no headers', async () => {
    const { statuses, response_headers_to_add: headers } = await check(entries('free', name()));
    expect(statuses).toEqual([UNLIMITED]);
    expect(headers).toEqual([]);
  });

  test('a descriptor in shadow mode is counted and never over the limit', async () => {
    const user = name();
    const first = await check(entries('watched', user));
    expect(first.statuses[0]).toMatchObject({
      code: OK,
      current_limit: { requests_per_unit: 1 },
      limit_remaining: 0,
    });
    const second = await check(entries('watched', user));
    expect(second.overall_code).toBe(OK);
    expect(second.statuses[0].code).toBe(OK);
    expect(second.response_headers_to_add).toEqual([]);
    const { decisionService } = served.running.service.app;
    expect((await decisionService.inspect('shop.watched', ['watched', user]))?.used).toBe(1);
  });

  test('a limit of 0 denies everything and reports its window without Retry-After', async () => {
    const { overall_code, statuses, response_headers_to_add } = await check(entries('never', 'x'));
    expect(overall_code).toBe(OVER);
    const limit = { requests_per_unit: 0, unit: 'PERIOD_MINUTE', name: '' };
    const duration_until_reset = { seconds: 60, nanos: 0 };
    const status = { ...FREE, code: OVER, current_limit: limit, duration_until_reset };
    expect(statuses).toEqual([status]);
    expect(response_headers_to_add).toMatchObject([
      { key: 'RateLimit-Policy', value: '"shop.never";q=0;w=60' },
      { key: 'RateLimit', value: '"shop.never";r=0;t=60' },
    ]);
  });

  test('a limit of 0 in shadow mode allows everything', async () => {
    expect(await countAllowed(3, entries('never', 'watched'))).toBe(3);
  });

  test('the status contains the name of a limit', async () => {
    const { statuses } = await check(entries('many', name()), entries('few', name()));
    expect(statuses.map((status) => status.current_limit?.name)).toEqual(['plenty', '']);
  });
});

describe('rules for descriptors', () => {
  test('a rule matches a descriptor with exactly its entries in any order', async () => {
    const user = name();
    expect(await countAllowed(9, entries('user', user, 'tenant', 'big-one'))).toBe(3);
    const reordered = await check(entries('tenant', 'big-one', 'user', user));
    expect(reordered.overall_code).toBe(OVER);
    expect(reordered.statuses[0].current_limit).toEqual({
      requests_per_unit: 3,
      unit: 'PERIOD_MINUTE',
      name: 'perUser',
    });
    expect(await countAllowed(9, entries('tenant', 'big-one', 'user', name()))).toBe(2);
  });

  test.each([
    ['another value', entries('user', 'a', 'tenant', 'small')],
    ['an additional entry', entries('user', 'a', 'tenant', 'big-two', 'more', 'x')],
    ['a missing entry', entries('tenant', 'big-two')],
    ['a repeated entry', entries('user', 'a', 'user', 'a')],
  ])('a rule does not match a descriptor with %s', async (_, descriptor) => {
    expect((await check(descriptor)).statuses).toEqual([FREE]);
  });

  test('a descriptor that matches a rule without limits is unlimited', async () => {
    expect((await check(entries('vip', 'x'))).statuses).toEqual([UNLIMITED]);
  });

  test('a rule charges the cost of an operation times the hits', async () => {
    const search = entries('search', name());
    expect((await check(search)).statuses[0].limit_remaining).toBe(5);
    const twice = await served.client.shouldRateLimit({ ...shop(search), hits_addend: 2 });
    expect(twice.overall_code).toBe(OVER);
    expect((await check(search)).overall_code).toBe(OK);
  });
});

describe('requests with several descriptors', () => {
  test('statuses are in the order of the descriptors', async () => {
    const response = await check(
      entries('unknown', 'x'),
      entries('few', name()),
      entries('free', 'x'),
      entries('many', name()),
    );
    expect(response.statuses.map((status) => status.limit_remaining)).toEqual([
      0, 1, 4_294_967_295, 99,
    ]);
  });

  test('all descriptors of a request are charged, or none', async () => {
    const [few, many] = [entries('few', name()), entries('many', name())];
    expect(await countAllowed(5, few, many)).toBe(2);
    const denied = await check(few, many);
    expect(codes(denied)).toEqual([OVER, OK]);
    expect((await check(many)).statuses[0].limit_remaining).toBe(97);
  });

  test('the hits of equal descriptors add up', async () => {
    const many = entries('many', name());
    const { statuses } = await check(many, many, many);
    expect(statuses.map((status) => status.limit_remaining)).toEqual([97, 97, 97]);
    const few = entries('few', name());
    expect(codes(await check(few, few))).toEqual([OK, OK]);
    expect(codes(await check(few, few))).toEqual([OVER, OVER]);
  });

  test('equal descriptors are denied if their sum exceeds the limit', async () => {
    const few = entries('few', name());
    expect((await check(few, few, few)).overall_code).toBe(OVER);
    expect((await check(few, few)).overall_code).toBe(OK);
  });

  test('a replaced limit is not charged', async () => {
    const many = entries('many', name());
    const { statuses } = await check(many, entries('replacement', name()));
    expect(statuses.map((status) => status.current_limit?.requests_per_unit)).toEqual([
      undefined,
      50,
    ]);
    expect((await check(entries('waived', 'x'), many)).statuses[1]).toEqual(FREE);
    expect((await check(many)).statuses[0].limit_remaining).toBe(99);
  });

  test('a descriptor in shadow mode does not deny the others', async () => {
    const [watched, few] = [entries('watched', name()), entries('few', name())];
    expect(await countAllowed(3, watched, few)).toBe(2);
    expect(codes(await check(watched, few))).toEqual([OK, OVER]);
  });

  test('a limit of 0 prevents the charges of all descriptors of the request', async () => {
    const many = entries('many', name());
    const response = await check(many, entries('never', 'x'));
    expect(codes(response)).toEqual([OK, OVER]);
    expect(response.overall_code).toBe(OVER);
    expect((await check(many)).statuses[0].limit_remaining).toBe(99);
  });

  test('descriptors with more than 64 limits together are rejected', async () => {
    const some = (count: number) => Array.from({ length: count }, () => entries('many', name()));
    expect((await check(...some(64))).overall_code).toBe(OK);
    expect(await failureOf(check(...some(65)))).toEqual([
      'INVALID_ARGUMENT',
      'Expected at most 64 limits in a request, got more',
    ]);
    const free = Array.from({ length: 200 }, () => entries('free', 'x'));
    expect((await check(...free)).statuses).toHaveLength(200);
  });
});

describe('sliding windows', () => {
  test('a window of one minute slides over the minute boundary', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      const minute = 60_000;
      const start = Math.ceil(Date.now() / minute) * minute + 10 * minute;
      const few = entries('few', name());
      vi.setSystemTime(start - 100);
      expect(await countAllowed(3, few)).toBe(2);
      vi.setSystemTime(start + 100);
      const denied = await check(few);
      expect(denied.overall_code).toBe(OVER);
      expect(denied.statuses[0].duration_until_reset).toEqual({ seconds: 59, nanos: 800_000_000 });
      vi.setSystemTime(start + minute - 101);
      expect(await countAllowed(1, few)).toBe(0);
      vi.setSystemTime(start + minute - 100);
      expect(await countAllowed(3, few)).toBe(2);
    } finally {
      vi.useRealTimers();
    }
  });
});
