import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { entries, FREE, failureOf, OK, OVER, type Served, serve, type Verdict } from './client.ts';

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

const asking = (hits: number, ...descriptors: object[]): Promise<Verdict> =>
  served.client.ask({ domain: 'shop', descriptors, hits_addend: hits });
const ask = (...descriptors: object[]): Promise<Verdict> => asking(0, ...descriptors);
const remaining = ({ statuses }: Verdict): readonly number[] =>
  statuses.map(({ limit_remaining }) => limit_remaining);
const codes = ({ statuses }: Verdict): readonly string[] => statuses.map(({ code }) => code);
const withHits = (value: number | string, ...texts: string[]) => ({
  ...entries(...texts),
  hits_addend: { value },
});

describe('hits of the request', () => {
  test('hits of 0 in the request mean 1', async () => {
    expect(remaining(await asking(0, entries('ten', name())))).toEqual([9]);
  });

  test('hits of the request are charged to each descriptor', async () => {
    const [a, b] = [name(), name()];
    expect(remaining(await asking(5, entries('ten', a), entries('ten', b)))).toEqual([5, 5]);
  });

  test('denied hits are not charged', async () => {
    const ten = entries('ten', name());
    await asking(8, ten);
    const denied = await asking(5, ten);
    expect(denied.overall_code).toBe(OVER);
    expect(remaining(denied)).toEqual([2]);
    expect((await asking(2, ten)).overall_code).toBe(OK);
  });

  test('hits above the limit are denied without charge or Retry-After', async () => {
    const [ten, two] = [entries('ten', name()), entries('two', name())];
    const denied = await asking(11, ten);
    expect(denied.overall_code).toBe(OVER);
    expect(denied.statuses[0]).toMatchObject({ code: OVER, limit_remaining: 10 });
    expect(denied.response_headers_to_add.map(({ key }) => key)).not.toContain('Retry-After');
    const both = await asking(5, ten, two);
    expect(codes(both)).toEqual([OK, OVER]);
    expect(both.overall_code).toBe(OVER);
    expect(remaining(await asking(1, ten, two))).toEqual([9, 1]);
  });

  test('hits above a shadow limit are allowed', async () => {
    const [watched, ten] = [entries('watched', name()), entries('ten', name())];
    const verdict = await asking(5, watched, ten);
    expect(verdict.overall_code).toBe(OK);
    expect(codes(verdict)).toEqual([OK, OK]);
    expect(remaining(verdict)[1]).toBe(5);
  });
});

describe('hits of a descriptor', () => {
  test('hits of a descriptor win over those of the request', async () => {
    const [a, b] = [name(), name()];
    const verdict = await asking(5, withHits(3, 'ten', a), entries('ten', b));
    expect(remaining(verdict)).toEqual([7, 5]);
  });

  test('hits of 0 in a descriptor are a peek', async () => {
    const user = name();
    const asked = withHits(0, 'two', user);
    expect(remaining(await ask(asked))).toEqual([2]);
    await asking(2, entries('two', user));
    const over = await ask(asked);
    expect(over.overall_code).toBe(OVER);
    expect(over.statuses[0].limit_remaining).toBe(0);
    expect(over.statuses[0].duration_until_reset!.seconds).toBeGreaterThan(0);
  });

  test('an empty hits_addend in a descriptor is a peek', async () => {
    const user = name();
    await ask({ ...entries('two', user), hits_addend: {} });
    expect(remaining(await ask(entries('two', user)))).toEqual([1]);
  });

  test('a peek includes the charges of other descriptors with the same limit', async () => {
    const user = name();
    const verdict = await ask(withHits(0, 'two', user), withHits(2, 'two', user));
    expect(verdict.overall_code).toBe(OK);
    expect(remaining(verdict)).toEqual([0, 0]);
  });

  test('a denied peek prevents the charges of other descriptors', async () => {
    const [full, user] = [name(), name()];
    await asking(2, entries('two', full));
    const verdict = await ask(withHits(0, 'two', full), entries('ten', user));
    expect(verdict.overall_code).toBe(OVER);
    expect(codes(verdict)).toEqual([OVER, OK]);
    expect(remaining(await ask(withHits(0, 'ten', user)))).toEqual([10]);
  });

  test('a peek is denied by a limit of 0 and allowed by unlimited', async () => {
    expect((await ask(withHits(0, 'never', 'x'))).overall_code).toBe(OVER);
    expect((await ask(withHits(0, 'free', 'x'))).overall_code).toBe(OK);
    expect((await ask(withHits(0, 'watched', 'x'))).overall_code).toBe(OK);
  });

  test('hits of a descriptor may have 64 bits', async () => {
    const largest = withHits('18446744073709551615', 'ten', name());
    expect((await ask(largest)).overall_code).toBe(OVER);
  });

  test('rejects negative hits without a charge', async () => {
    const user = name();
    const given = { ...withHits(3, 'ten', user), is_negative_hits: true };
    expect(await failureOf(ask(given))).toEqual([
      'INVALID_ARGUMENT',
      'Expected a positive number of hits, got `is_negative_hits`',
    ]);
    expect(remaining(await ask(entries('ten', user)))).toEqual([9]);
  });
});

describe('limit in a descriptor', () => {
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
  ])('a limit in a descriptor counts in unit %i', async (unit, unitName, seconds) => {
    const { statuses } = await ask(override(3, unit, 'anything', name()));
    expect(statuses).toEqual([
      {
        code: OK,
        current_limit: { requests_per_unit: 3, unit: unitName, name: '' },
        limit_remaining: 2,
        duration_until_reset: { seconds, nanos: 0 },
      },
    ]);
  });

  test.each([0, 7, 99])('rejects unit %i of a limit in a descriptor', async (unit) => {
    const [code, message] = await failureOf(ask(override(3, unit, 'ten', name())));
    expect(code).toBe('INVALID_ARGUMENT');
    expect(message).toBe(`Expected the unit of a limit to be SECOND to YEAR, got ${unit}`);
  });

  test('a limit in a descriptor wins over the configuration', async () => {
    for (const key of ['ten', 'free', 'watched', 'never']) {
      const question = { domain: 'shop', descriptors: [override(1, 2, key, name())] };
      expect(await served.client.passing(question, 3)).toBe(1);
    }
  });

  test('a limit in a descriptor has its own counter', async () => {
    const user = name();
    await ask(override(1, 2, 'ten', user));
    expect(remaining(await ask(entries('ten', user)))).toEqual([9]);
    expect((await ask(override(1, 2, 'ten', name()))).overall_code).toBe(OK);
    expect((await ask(override(1, 3, 'ten', user))).overall_code).toBe(OK);
    expect((await ask(override(1, 2, 'ten', user))).overall_code).toBe(OVER);
  });

  test('a changed limit in a descriptor keeps its counter', async () => {
    const user = name();
    await asking(4, override(10, 2, 'x', user));
    expect(remaining(await ask(override(6, 2, 'x', user)))).toEqual([1]);
    expect((await asking(1, override(4, 2, 'x', user))).overall_code).toBe(OVER);
  });

  test('of two limits in equal descriptors the smaller applies', async () => {
    const user = name();
    const both = [override(5, 2, 'x', user), override(2, 2, 'x', user)];
    expect((await ask(...both)).overall_code).toBe(OK);
    expect((await ask(...both)).overall_code).toBe(OVER);
  });

  test('a limit of 0 in a descriptor denies everything', async () => {
    const { overall_code, statuses } = await ask(override(0, 2, 'ten', name()));
    expect(overall_code).toBe(OVER);
    expect(statuses[0].current_limit).toEqual({
      requests_per_unit: 0,
      unit: 'PERIOD_MINUTE',
      name: '',
    });
  });

  test('rejects a limit in a descriptor that is too large to be exact', async () => {
    const [code, message] = await failureOf(ask(override(4_294_967_295, 6, 'ten', name())));
    expect(code).toBe('INVALID_ARGUMENT');
    expect(message).toContain('at most 2^53 - 1');
    expect((await ask(override(4_294_967_295, 1, 'ten', name()))).overall_code).toBe(OK);
  });

  test('ignores a limit in a descriptor of an unknown domain', async () => {
    const question = { domain: 'unheard', descriptors: [override(1, 2, 'ten', 'x')] };
    expect(await served.client.passing(question, 3)).toBe(3);
  });
});

describe('a request', () => {
  test.each([
    ['without anything', {}, 'Expected a domain, got none'],
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
  ])('rejects %s', async (_, question, message) => {
    expect(await failureOf(served.client.ask(question))).toEqual(['INVALID_ARGUMENT', message]);
  });

  test('allows everything in an unknown domain', async () => {
    const descriptors = [entries('ten', 'x'), entries('two', 'x')];
    const verdict = await served.client.ask({ domain: '__proto__', descriptors });
    expect(verdict).toMatchObject({ overall_code: OK, response_headers_to_add: [] });
    expect(verdict.statuses).toEqual([FREE, FREE]);
  });

  test('ignores unknown fields', async () => {
    const descriptors = [entries('ten', name())];
    const question = { domain: 'shop', descriptors, from_the_future: 'x' };
    expect((await served.client.ask(question)).overall_code).toBe(OK);
  });

  test('counts long values separately', async () => {
    const long = 'v'.repeat(20_000);
    expect(await served.client.passing(shopOf(entries('two', `${long}a`)), 3)).toBe(2);
    expect(await served.client.passing(shopOf(entries('two', `${long}b`)), 3)).toBe(2);
    const many = Array.from({ length: 128 }, (_, at) => `part ${at} of many`);
    const override = { ...entries(...many), limit: { requests_per_unit: 1, unit: 2 } };
    expect(await served.client.passing(shopOf(override), 3)).toBe(1);
  });

  test('counts values with separators separately', async () => {
    for (const value of ['a:b', 'a\\:b', 'a\\', ':', '', '{a}', '\u0000', 'ä', '__proto__']) {
      expect(await served.client.passing(shopOf(entries('two', value)), 3)).toBe(2);
    }
  });
});

const shopOf = (...descriptors: object[]) => ({ domain: 'shop', descriptors });
