import { describe, expect, it } from 'vitest';
import { type HeaderSource, parseRateLimit } from '../../src/http/parse-rate-limit.ts';
import { growth, MAX_LINEAR_GROWTH } from './growth.ts';

const NOW_MS = 1_745_000_100_000;
const NOTHING = { policies: [], limits: [], form: 'none' };

const parse = (headers: HeaderSource) => parseRateLimit(headers, { nowMs: NOW_MS });
const limitsOf = (ratelimit: string) => parse({ ratelimit }).limits;
const policiesOf = (policy: string) => parse({ 'ratelimit-policy': policy }).policies;
const waitOf = (retryAfter: string) => parse({ 'retry-after': retryAfter }).retryAfterMs;
const resetOf = (reset: string) =>
  parse({ 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': reset }).limits[0].resetAfterMs;

describe('header forms', () => {
  it('parseRateLimit parses the current draft', () => {
    const headers = {
      'RateLimit-Policy': '"burst";q=100;w=60, "daily";q=1000;w=86400',
      RateLimit: '"burst";r=50;t=30, "daily";r=900',
    };
    expect(parse(headers)).toEqual({
      policies: [
        { name: 'burst', limit: 100, windowMs: 60_000 },
        { name: 'daily', limit: 1000, windowMs: 86_400_000 },
      ],
      limits: [
        { name: 'burst', remaining: 50, resetAfterMs: 30_000 },
        { name: 'daily', remaining: 900 },
      ],
      form: 'draft',
    });
  });

  it('parseRateLimit parses draft 7', () => {
    const headers = {
      'ratelimit-policy': '100;w=60, 1000;w=86400;comment="a day"',
      ratelimit: 'limit=100, remaining=50, reset=30',
    };
    expect(parse(headers)).toEqual({
      policies: [
        { limit: 100, windowMs: 60_000 },
        { limit: 1000, windowMs: 86_400_000 },
      ],
      limits: [{ limit: 100, remaining: 50, resetAfterMs: 30_000 }],
      form: 'draft-7',
    });
    // `remaining` is optional in draft 7. Without it there is no limit to return.
    expect(parse({ ratelimit: 'limit=100, reset=30' })).toEqual({ ...NOTHING, form: 'draft-7' });
  });

  it('parseRateLimit parses draft 6, also with the policies of older drafts', () => {
    const headers = { 'RateLimit-Remaining': '50', 'RateLimit-Reset': '30' };
    const limits = [{ limit: 100, remaining: 50, resetAfterMs: 30_000 }];
    for (const limit of ['100', '100, 100;w=60, 1000;w=86400']) {
      const all = parse({ ...headers, 'RateLimit-Limit': limit });
      expect(all).toEqual({ policies: [], limits, form: 'draft-6' });
    }
  });

  it('parseRateLimit parses the headers of GitHub', () => {
    const headers = {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '56',
      'x-ratelimit-used': '4',
      'x-ratelimit-reset': '1745000130',
      'x-ratelimit-resource': 'core',
    };
    expect(parse(headers)).toEqual({
      policies: [],
      limits: [{ limit: 60, remaining: 56, resetAfterMs: 30_000 }],
      form: 'legacy',
    });
    expect(parseRateLimit(headers).limits).toEqual([{ limit: 60, remaining: 56 }]);
  });

  it('parseRateLimit parses the headers of OpenAI', () => {
    const headers = {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-reset-tokens': '6m0s',
    };
    expect(parse(headers)).toEqual({
      policies: [],
      limits: [
        { name: 'requests', limit: 60, remaining: 59, resetAfterMs: 1000 },
        { name: 'tokens', limit: 150_000, remaining: 149_984, resetAfterMs: 360_000 },
      ],
      form: 'legacy',
    });
  });

  it('if several header forms are sent, parseRateLimit parses the newest form', () => {
    const legacy = { 'x-ratelimit-remaining': '1' };
    const draft6 = { ...legacy, 'ratelimit-remaining': '2' };
    expect(parse(draft6)).toMatchObject({ form: 'draft-6', limits: [{ remaining: 2 }] });
    const draft = { ...draft6, ratelimit: '"a";r=3' };
    expect(parse(draft)).toMatchObject({ form: 'draft', limits: [{ remaining: 3 }] });
    expect(parse({ ...draft6, ratelimit: 'what?' }).form).toBe('draft-6');
  });

  it('without limits, parseRateLimit returns the form of the policies', () => {
    expect(parse({ 'ratelimit-policy': '"a";q=1' }).form).toBe('draft');
    expect(parse({ 'ratelimit-policy': '1;w=1' }).form).toBe('draft-7');
    expect(parse({ 'retry-after': '1' })).toEqual({ ...NOTHING, retryAfterMs: 1000 });
  });
});

describe('a structured field', () => {
  it.each([
    ['"a"; r=1;  t=2', { name: 'a', remaining: 1, resetAfterMs: 2000 }],
    ['"a";t=2;r=1', { name: 'a', remaining: 1, resetAfterMs: 2000 }],
    ['"a";r=1;r=2', { name: 'a', remaining: 2 }],
    ['"a";r=-0', { name: 'a', remaining: 0 }],
    ['"a";r=007', { name: 'a', remaining: 7 }],
    ['"a";r=1;pk=:cHsdsRa894==:', { name: 'a', remaining: 1 }],
    ['"a";r=1;x;y=?0;z=tok/en:1;d=-1.25;e=@-5;f=%"%c3%a4";g="r=9"', { name: 'a', remaining: 1 }],
    ['"a";r=999999999999999', { name: 'a', remaining: 999_999_999_999_999 }],
    ['"\\"a\\\\";r=1', { name: '"a\\', remaining: 1 }],
    ['"";r=1', { name: '', remaining: 1 }],
  ])('parseRateLimit accepts the field %s', (text, limit) => {
    expect(limitsOf(text)).toEqual([limit]);
  });

  it.each([
    ['no text', ''],
    ['only spaces', '   '],
    ['a name without quotes', 'a;r=1'],
    ['a quote that stays open', '"a;r=1'],
    ['an unknown escape', '"\\a";r=1'],
    ['a letter beyond ASCII', '"ä";r=1'],
    ['a control character', '"a\x01";r=1'],
    ['a space before the semicolon', '"a" ;r=1'],
    ['a space around the equals sign', '"a";r= 1'],
    ['a capital key', '"a";R=1'],
    ['no key', '"a";=1'],
    ['no value', '"a";r='],
    ['a comma too many', '"a";r=1,'],
    ['two commas', '"a";r=1,,"b";r=1'],
    ['no comma', '"a";r=1 "b";r=1'],
    ['a list in the list', '("a");r=1'],
    ['16 digits', '"a";r=1234567890123456'],
    ['a sign', '"a";r=+1'],
    ['a bare minus', '"a";r=-'],
    ['a number that ends with its point', '"a";r=1;x=1.'],
    ['four decimals', '"a";r=1;x=1.2345'],
    ['a date with a fraction', '"a";r=1;x=@1.5'],
    ['a boolean that is neither', '"a";r=1;x=?2'],
    ['bytes that stay open', '"a";r=1;x=:aaaa'],
    ['bytes beyond Base64', '"a";r=1;x=:a-b_:'],
    ['bytes with too much padding', '"a";r=1;x=:a===:'],
    ['text that is not UTF-8', '"a";r=1;x=%"%ff"'],
    ['text in capital hexadecimals', '"a";r=1;x=%"%C3%A4"'],
    ['one good and one bad member', '"a";r=1, "b";r=oops!'],
  ])('parseRateLimit ignores a field with %s', (_what, text) => {
    expect(parse({ ratelimit: text })).toEqual(NOTHING);
  });

  it.each([
    ['no remaining', '"a";t=1'],
    ['a flag as number', '"a";r'],
    ['text as number', '"a";r="1"'],
    ['a fraction', '"a";r=1.0'],
    ['a negative number', '"a";r=-1'],
    ['a negative time', '"a";r=1;t=-1'],
    ['a time that is not an integer', '"a";r=1;t=soon'],
    ['a number as name', '5;r=1'],
    ['one invalid member', '"a";r=1, "b";t=1'],
  ])('parseRateLimit ignores a field with %s, as the draft requires', (_what, text) => {
    expect(parse({ ratelimit: text })).toEqual(NOTHING);
  });

  it.each([
    '"a"',
    '"a";q="1"',
    '"a";q=-1',
    '"a";q=1;w=0',
    '"a";q=1;w=1.5',
    '-1;w=1',
    '1.5;w=1',
    '1;w=x',
    'token;q=1',
    '"a";q=1, "b"',
  ])('parseRateLimit ignores the policy %s', (text) => {
    expect(parse({ 'ratelimit-policy': text })).toEqual(NOTHING);
  });

  it('parseRateLimit accepts policies without a window, named and unnamed', () => {
    expect(policiesOf('"a";q=1, 5, "b";q=2;w=3;qu="content-bytes"')).toEqual([
      { name: 'a', limit: 1 },
      { limit: 5 },
      { name: 'b', limit: 2, windowMs: 3000 },
    ]);
  });

  it.each([
    'limit=1, remaining=1',
    'remaining=1, reset=1',
    'limit=1, remaining=x, reset=1',
    'limit=1, remaining=-1, reset=1',
    'limit, remaining=1, reset=1',
    'limit=1; remaining=1; reset=1',
    'limit=1, remaining=1, reset=1,',
    'Limit=1, remaining=1, reset=1',
  ])('parseRateLimit ignores the dictionary %s', (text) => {
    expect(parse({ ratelimit: text })).toEqual(NOTHING);
  });

  it('parseRateLimit accepts a dictionary in any order and with unknown keys', () => {
    expect(limitsOf('reset=3;x=1,flag , other="x",remaining=0,\tlimit=1,limit=2')).toEqual([
      { limit: 2, remaining: 0, resetAfterMs: 3000 },
    ]);
  });
});

describe('a name', () => {
  it.each([
    ['t%C3%A4glich', 'täglich'],
    ['100%25', '100%'],
    ['%F0%9F%9A%B0', '🚰'],
    ['%0D%0A', '\r\n'],
  ])('the name %s is decoded to %j', (wire, name) => {
    expect(limitsOf(`"${wire}";r=1`)[0].name).toBe(name);
  });

  it.each(['100%', '50%off', 'a%20b', '%c3%a4', '%FF', '%ED%A0%BD'])(
    'the policy name %s, which is not a valid encoding, is not decoded',
    (name) => {
      expect(limitsOf(`"${name}";r=1`)[0].name).toBe(name);
    },
  );
});

describe('X-RateLimit-Reset', () => {
  it.each([
    ['0', 0],
    ['30', 30_000],
    ['1.1', 1100],
    ['99999999', 99_999_999_000],
    ['1745000130', 30_000],
    ['1745000130.5', 30_500],
    ['1745000099', 0],
    ['100000000', 0],
    ['1745000130000', 30_000],
    ['12ms', 12],
    ['1s', 1000],
    ['7.66s', 7660],
    ['2m59.56s', 179_560],
    ['6m0s', 360_000],
    ['1h0m0s', 3_600_000],
    ['1d2h', 93_600_000],
  ])('an X-RateLimit-Reset of %s is in %d ms', (text, ms) => {
    expect(resetOf(text)).toBe(ms);
  });

  it.each([
    ...['', '-1', 'soon', '1 s', '1x', 's', '1s!', '1e3', '0x10', 'Infinity', 'NaN', '1.2.3s'],
    ...['1, 2', '1s1s1s1s1s1s', '1234567890s', '1234567890123456', '2025-04-18T18:15:30Z'],
  ])('an X-RateLimit-Reset of %j is ignored, other headers are not', (text) => {
    expect(resetOf(text)).toBeUndefined();
    const headers = { 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': text };
    expect(parse(headers)).toEqual({ ...NOTHING, limits: [{ remaining: 1 }], form: 'legacy' });
  });

  it('X-RateLimit-Reset is ignored if the other headers are malformed', () => {
    for (const remaining of ['-1', '', 'many', '1e9', '1, 2']) {
      expect(parse({ 'x-ratelimit-remaining': remaining })).toEqual(NOTHING);
      expect(parse({ 'ratelimit-remaining': remaining })).toEqual(NOTHING);
    }
  });

  it('a malformed RateLimit-Reset of draft 6 is ignored, other headers are not', () => {
    const headers = {
      'ratelimit-remaining': '1',
      'ratelimit-limit': 'x',
      'ratelimit-reset': '1,2',
    };
    expect(parse(headers).limits).toEqual([{ remaining: 1 }]);
  });

  it('parseRateLimit rounds fractions of remaining down', () => {
    const headers = { 'x-ratelimit-remaining': '598.7', 'x-ratelimit-limit': '600.0' };
    expect(parse(headers).limits).toEqual([{ limit: 600, remaining: 598 }]);
  });
});

describe('Retry-After', () => {
  it.each([
    ['0', 0],
    ['1', 1000],
    ['120', 120_000],
    [' 7 ', 7000],
    ['9'.repeat(400), Number.MAX_SAFE_INTEGER],
    ['Fri, 18 Apr 2025 18:15:30 GMT', 30_000],
    ['Friday, 18-Apr-25 18:15:30 GMT', 30_000],
    ['Fri Apr 18 18:15:30 2025', 30_000],
    ['Sun Nov  6 08:49:37 1994', 0],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
    ['Sat, 29 Feb 2020 00:00:00 GMT', 0],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
  ])('a Retry-After of %s is %d ms', (text, ms) => {
    expect(waitOf(text)).toBe(ms);
  });

  it.each([
    ...['', '-1', '1.5', '+1', '1s', '1, 2', '0x1', '1e3', 'soon', 'Infinity'],
    ...['Fri, 18 Apr 2025 18:15:30', 'Fri, 18 Apr 2025 18:15:30 CET'],
    ...['fri, 18 apr 2025 18:15:30 gmt', '18 Apr 2025 18:15:30 GMT', '2025-04-18T18:15:30Z'],
    ...['Fri, 00 Apr 2030 18:15:30 GMT', 'Fri, 31 Apr 2030 18:15:30 GMT'],
    ...['Fri, 29 Feb 2030 18:15:30 GMT', 'Fri, 18 Abc 2030 18:15:30 GMT'],
    ...['Fri, 18 Apr 2030 24:15:30 GMT', 'Fri, 18 Apr 2030 18:60:30 GMT'],
    ...['Fri, 18 Apr 2030 18:15:61 GMT', 'Fri, 18 Apr 20300 18:15:30 GMT'],
  ])('a Retry-After of %j is ignored', (text) => {
    expect(parse({ 'retry-after': text })).toEqual(NOTHING);
  });

  it('a Retry-After date requires nowMs, seconds do not', () => {
    const date = { 'retry-after': 'Fri, 18 Apr 2025 18:15:30 GMT' };
    expect(parseRateLimit(date)).toEqual(NOTHING);
    for (const nowMs of [undefined, Number.NaN, Infinity]) {
      expect(parseRateLimit(date, { nowMs })).toEqual(NOTHING);
      expect(parseRateLimit({ 'retry-after': '2' }, { nowMs }).retryAfterMs).toBe(2000);
    }
  });

  it('a two-digit year in Retry-After is at most 50 years ahead', () => {
    expect(waitOf('Sunday, 18-Apr-75 18:15:00 GMT')).toBeGreaterThan(49 * 365 * 86_400_000);
    expect(waitOf('Monday, 18-Apr-77 18:15:00 GMT')).toBe(0);
  });
});

describe('headers', () => {
  const expected = { ...NOTHING, limits: [{ name: 'a', remaining: 1 }], form: 'draft' };

  it.each<[string, HeaderSource]>([
    ['Headers', new Headers({ RateLimit: '"a";r=1' })],
    ['a map', new Map([['ratelimit', '"a";r=1']])],
    ['an object of Node', { ratelimit: '"a";r=1', 'set-cookie': ['x=1'] }],
    ['an object in any case', { RATELIMIT: '"a";r=1' }],
    ['an object without a prototype', Object.assign(Object.create(null), { ratelimit: '"a";r=1' })],
    ['a function', (name: string) => (name === 'ratelimit' ? '"a";r=1' : null)],
    ['an object with a header called get', { get: 'x', ratelimit: '"a";r=1' }],
  ])('parseRateLimit accepts %s', (_what, headers) => {
    expect(parse(headers)).toEqual(expected);
  });

  it('parseRateLimit joins several lines of a header to one list', () => {
    const lines = ['"a";r=1', '"b";r=2'];
    const limits = [
      { name: 'a', remaining: 1 },
      { name: 'b', remaining: 2 },
    ];
    expect(parse({ ratelimit: lines }).limits).toEqual(limits);
    expect(parse(new Headers(lines.map((line) => ['RateLimit', line]))).limits).toEqual(limits);
    expect(parse({ ratelimit: [] })).toEqual(NOTHING);
    expect(parse({ 'retry-after': ['1', '2'] })).toEqual(NOTHING);
  });

  it.each([undefined, null, 5, 'ratelimit', [], [['ratelimit', '"a";r=1']], {}, Symbol('x')])(
    'parseRateLimit ignores headers of an invalid type: %s',
    (headers) => {
      expect(parse(headers as HeaderSource)).toEqual(NOTHING);
    },
  );

  it.each([5, null, true, {}, [1], ['"a";r=1', null], [['"a";r=1']], () => '"a";r=1'])(
    'parseRateLimit ignores header values of an invalid type: %s',
    (value) => {
      expect(parse({ ratelimit: value } as unknown as HeaderSource)).toEqual(NOTHING);
      expect(parse((() => value) as unknown as HeaderSource)).toEqual(NOTHING);
    },
  );

  it('parseRateLimit ignores header values over 8 KB, in one line or several', () => {
    const of = (length: number) => `"${'a'.repeat(length - 6)}";r=1`;
    expect(limitsOf(of(8192))).toHaveLength(1);
    expect(limitsOf(of(8193))).toEqual([]);
    expect(parse({ ratelimit: Array(200).fill('"a";r=1') }).limits).toHaveLength(200);
    expect(parse({ ratelimit: Array(100_000).fill('"a";r=1') })).toEqual(NOTHING);
    expect(waitOf('9'.repeat(8193))).toBeUndefined();
  });

  it.each([
    ['quotes', '"'],
    ['escapes', '"\\"'],
    ['semicolons', ';'],
    ['spaces', ' '],
    ['tabs in a list', '"a";r=1\t\t\t\t'],
    ['commas', '"a";r=1,'],
    ['digits', '9'],
    ['units', '1m'],
    ['percent signs', '%"%c3'],
  ])('8 KB of %s are parsed in linear time', (_what, unit) => {
    const run = (size: number) => parse(() => unit.repeat(size / unit.length));
    expect(growth(run)).toBeLessThan(MAX_LINEAR_GROWTH);
  });
});
