import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  definePolicy,
  type ErrorCode,
  ManualClock,
  type PolicyInput,
  SluiceError,
} from '../src/index.ts';

/** Builds the policy `p` from a value of any type. */
const policyOf = (input: unknown) => definePolicy('p', input as PolicyInput);

function errorOf(call: () => unknown): SluiceError {
  try {
    call();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error('expected an error');
}

const MOST = Number.MAX_SAFE_INTEGER; // 6361 * 69431 * 20394401

describe('valid policies', () => {
  it.each([
    ['text with a slash', '100/1m', 100, 60_000],
    ['text with `per`', '100 per 1m', 100, 60_000],
    ['text with a unit', '20/min', 20, 60_000],
    ['text with a unit of one letter', '20/s', 20, 1000],
    ['text with a unit written out', '20 per minute', 20, 60_000],
    ['an object', { limit: 100, window: '1m' }, 100, 60_000],
    ['a window in milliseconds', { limit: 100, window: 250 }, 100, 250],
    ['one call per millisecond', { limit: 1, window: 1 }, 1, 1],
    ['an object with an undefined field', { limit: 3, window: 9, algorithm: undefined }, 3, 9],
  ])('a policy may be %s', (_form, input, limit, windowMs) => {
    const { algorithm, params } = policyOf(input);
    expect(algorithm).toBe('sliding-log');
    expect(params).toMatchObject({ limit, windowMs, capacity: limit });
  });

  it.each([
    ['250ms', 250],
    ['10s', 10_000],
    ['1m', 60_000],
    ['1h', 3_600_000],
    ['1d', 86_400_000],
    ['2w', 1_209_600_000],
    ['5sec', 5000],
    ['1second', 1000],
    ['90second', 90_000],
    ['1min', 60_000],
    ['15minute', 900_000],
    ['2hour', 7_200_000],
    ['1day', 86_400_000],
    ['2week', 1_209_600_000],
    ['36500d', 3_153_600_000_000],
    ['007s', 7_000],
  ])('the window %s is %d ms', (window, windowMs) => {
    expect(policyOf({ limit: 1, window }).windowMs).toBe(windowMs);
    expect(policyOf(`1/${window}`).windowMs).toBe(windowMs);
  });

  it.each(['fixed-window', 'sliding-log', 'sliding-counter', 'sliding-buckets', 'token-bucket'])(
    'a policy may name the algorithm %s',
    (algorithm) => {
      expect(policyOf({ limit: 5, window: '1s', algorithm }).algorithm).toBe(algorithm);
    },
  );

  it.each([
    [60_000, undefined, 1_000],
    [61_000, undefined, 1_017],
    [30, undefined, 1],
    [60_000, 1, 60_000],
    [60_000, 7, 8_572],
    [60_000, 10_000, 6],
    [10, 10_000, 1],
  ])('a window of %d ms with `buckets` %s has buckets of %d ms', (window, count, bucketMs) => {
    const policy = policyOf({ limit: 5, window, algorithm: 'sliding-buckets', buckets: count });
    expect(policy.bucketMs).toBe(bucketMs);
    expect(policy.params?.bucketMs).toBe(bucketMs);
  });

  it.each([
    [undefined, 5],
    [1, 1],
    [20, 20],
  ])('a burst of %s with a limit of 5 has a capacity of %d tokens', (burst, capacity) => {
    const policy = policyOf({ limit: 5, window: '1s', algorithm: 'token-bucket', burst });
    expect(policy.params).toMatchObject({ limit: 5, capacity });
  });

  it('an operation may cost up to the full limit', () => {
    const costs = { 'search.list': 100, 'video.get': 1 };
    expect(policyOf({ limit: 100, window: '1d', costs }).costs).toEqual(
      new Map([
        ['search.list', 100],
        ['video.get', 1],
      ]),
    );
  });

  it('an operation may cost up to the burst, even above the limit', () => {
    const bucket = { limit: 5, window: '1s', algorithm: 'token-bucket', burst: 20 };
    expect(policyOf({ ...bucket, costs: { import: 20 } }).costs.get('import')).toBe(20);
  });

  it('limit x window and burst x window may be exactly 2^53 - 1', () => {
    const window = 20_394_401;
    const limit = MOST / window;
    expect(policyOf({ limit, window }).params?.limit).toBe(441_650_591);
    const bucket = { limit: 1, window, algorithm: 'token-bucket', burst: limit };
    expect(policyOf(bucket).params?.capacity).toBe(441_650_591);
    expect(policyOf({ limit: MOST, window: 1 }).params?.limit).toBe(MOST);
  });

  it('a policy may be named __proto__', () => {
    const limiter = createLimiter({
      policies: JSON.parse('{ "__proto__": "1/1s" }') as Record<string, string>,
      clock: new ManualClock(),
    });
    expect(limiter.checkSync('__proto__', 'k').allowed).toBe(true);
    expect(limiter.checkSync('__proto__', 'k').allowed).toBe(false);
    expect(() => limiter.checkSync('constructor', 'k')).toThrow('one of: __proto__, got');
  });

  it('an operation may be named __proto__', () => {
    const costs = JSON.parse('{ "__proto__": 3 }');
    expect(policyOf({ limit: 5, window: 1, costs }).costs.get('__proto__')).toBe(3);
    expect(policyOf({ limit: 5, window: 1, costs }).costs.get('constructor')).toBeUndefined();
  });
});

describe('valid concurrency limits and blocks', () => {
  it('a concurrency limit is a policy whose window is the lease', () => {
    expect(policyOf({ concurrency: 3, lease: '1m', costs: { a: 2 } })).toMatchObject({
      algorithm: 'concurrency',
      windowMs: 60_000,
      params: { limit: 3, capacity: 3, windowMs: 60_000, bucketMs: 60_000 },
      block: undefined,
    });
    expect(policyOf({ concurrency: 3 }).windowMs).toBe(30_000);
    expect(policyOf({ concurrency: () => 7 }).paramsFor('k').capacity).toBe(7);
  });

  it.each([
    ['15m', { forMs: 900_000, factor: 1, maxMs: 86_400_000, forgetMs: 86_400_000 }],
    [1, { forMs: 1, factor: 1, maxMs: 86_400_000, forgetMs: 86_400_000 }],
    ['2d', { forMs: 172_800_000, factor: 1, maxMs: 172_800_000, forgetMs: 172_800_000 }],
    [
      { for: '1m', factor: 2 },
      { forMs: 60_000, factor: 2, maxMs: 86_400_000 },
    ],
    [
      { for: '1m', max: '1m', forget: 0 },
      { maxMs: 60_000, forgetMs: 0 },
    ],
  ])('the block %j gets the documented defaults', (block, expected) => {
    expect(policyOf({ limit: 1, window: 1, block }).block).toMatchObject(expected);
  });
});

type Invalid = readonly [code: ErrorCode, input: unknown];

/** Returns inputs that are rejected with the same code: one for each value. */
const invalid = (
  code: ErrorCode,
  inputOf: (value: unknown) => unknown,
  values: readonly unknown[],
): Invalid[] => values.map((value) => [code, inputOf(value)]);

const INFINITE = Number.POSITIVE_INFINITY;
const NOT_LIMITS = [0, -1, 0.5, 1.5, Number.NaN, INFINITE, '5', null, true, 5n, [5], {}];
const NOT_COUNTS = [...NOT_LIMITS, 2 ** 53];
const NOT_TIMES = [0, -1, 0.5, Number.NaN, INFINITE, 3_153_600_000_001, undefined, null, [1], {}];
const NOT_DURATIONS = [
  ...['', '1', '1x', '1.5s', '-1s', '1e3s', ' 1s', '1 s', '1s\n', '1S', '1M', '1month', '2secs'],
  ...['0s', '0ms', '36501d', '999999999999999w'],
];

const NOT_FORMS = [undefined, null, 100, true, ['100/1m'], () => '100/1m'];
const NOT_TEXTS = ['', '100', '/1m', '100/', '100 / 1m', ' 100/1m', '100/1m\n', '100per1m'];
const NOT_NUMBERS = ['-1/1m', '1.5/1m', '1e3/1m', '100/1.5s', '100/-1s', '99999999999999999/1m'];
const NOT_ALGORITHMS = ['leaky-bucket', 'constructor', 'Sliding-Log', '', null, 0, ['sliding-log']];

const itself = (value: unknown) => value;
const plain = { limit: 5, window: '1s' };
const buckets = { ...plain, algorithm: 'sliding-buckets' };
const bucket = { ...plain, algorithm: 'token-bucket' };
const withField = (field: unknown) => ({ ...plain, [String(field)]: 5 });

const NOT_WINDOW_LEASES = [
  ...['30s', 1, null, [], { share: 1 }, { maxMs: 0 }, { maxMs: 'soon' }],
  ...[{ maxShare: 0 }, { maxShare: 0.3 }, { maxShare: '0.1' }, { maxShare: Number.NaN }],
];
const NOT_LOGS = ['fixed-window', 'sliding-counter', 'token-bucket'];
const NOT_LEASES = [...NOT_TIMES.filter((time) => time !== undefined), ...NOT_DURATIONS];
const held = { concurrency: 5 };

const inputs: Invalid[] = [
  invalid('ERR_INVALID_POLICY', itself, NOT_FORMS),
  invalid('ERR_INVALID_POLICY', itself, [...NOT_TEXTS, ...NOT_NUMBERS, 'x'.repeat(61)]),
  invalid('ERR_INVALID_POLICY', withField, ['windw', 'Limit', '__proto__']),
  invalid('ERR_INVALID_LIMIT', (limit) => ({ limit, window: 1 }), NOT_LIMITS),
  invalid('ERR_INVALID_LIMIT', itself, [{ window: 1 }, '0/1ms']),
  invalid('ERR_INVALID_WINDOW', (window) => ({ limit: 5, window }), NOT_TIMES),
  invalid('ERR_INVALID_WINDOW', (window) => ({ limit: 5, window }), NOT_DURATIONS),
  invalid('ERR_INVALID_WINDOW', (window) => `5/${window}`, ['60000', '1x', '0s', '36501d']),
  invalid('ERR_INVALID_ALGORITHM', (algorithm) => ({ ...plain, algorithm }), NOT_ALGORITHMS),
  invalid('ERR_INVALID_BUCKETS', (count) => ({ ...plain, buckets: count }), [10, null]),
  invalid('ERR_INVALID_BUCKETS', (count) => ({ ...bucket, buckets: count }), [10]),
  invalid('ERR_INVALID_BUCKETS', (count) => ({ ...buckets, buckets: count }), NOT_COUNTS),
  invalid('ERR_INVALID_BUCKETS', (count) => ({ ...buckets, buckets: count }), [10_001]),
  invalid('ERR_INVALID_BURST', (burst) => ({ ...plain, burst }), [10, null]),
  invalid('ERR_INVALID_BURST', (burst) => ({ ...buckets, burst }), [10]),
  invalid('ERR_INVALID_BURST', (burst) => ({ ...bucket, burst }), NOT_COUNTS),
  invalid('ERR_INVALID_COSTS', (costs) => ({ ...plain, costs }), [null, 5, '5', [5], () => 5]),
  invalid('ERR_INVALID_COSTS', (a) => ({ ...plain, costs: { b: 5, a } }), [
    ...NOT_COUNTS,
    undefined,
    6,
  ]),
  invalid('ERR_INVALID_COSTS', (a) => ({ ...bucket, burst: 3, costs: { a } }), [4]),
  invalid('ERR_INVALID_POLICY', (field) => ({ ...held, [String(field)]: 5 }), [
    ...['limit', 'window', 'algorithm', 'buckets', 'burst', 'block', 'leese'],
  ]),
  invalid('ERR_INVALID_LEASE', (lease) => ({ ...plain, lease }), NOT_WINDOW_LEASES),
  invalid('ERR_INVALID_LEASE', (algorithm) => ({ ...plain, algorithm, lease: true }), NOT_LOGS),
  invalid('ERR_INVALID_LEASE', (block) => ({ ...plain, block, lease: true }), ['15m']),
  invalid('ERR_INVALID_LIMIT', (concurrency) => ({ concurrency }), NOT_LIMITS),
  invalid('ERR_INVALID_LEASE', (lease) => ({ ...held, lease }), NOT_LEASES),
  invalid('ERR_INVALID_COSTS', (a) => ({ ...held, costs: { a } }), [6]),
  invalid('ERR_INVALID_ALGORITHM', (algorithm) => ({ ...plain, algorithm }), ['concurrency']),
  invalid('ERR_INVALID_BLOCK', (block) => ({ ...plain, block }), [
    ...[0, '0s', '1x', '36501d', null, true, [], {}, { fro: '1m' }, { for: '1m', facter: 2 }],
    ...[0, 1.5, 1001, '2', null].map((factor) => ({ for: '1m', factor })),
    ...['59s', 0, null, '36501d'].map((max) => ({ for: '1m', max })),
    ...[-1, '1x', null, '36501d'].map((forget) => ({ for: '1m', forget })),
  ]),
  invalid('ERR_LIMIT_TOO_LARGE', itself, [
    { concurrency: MOST, lease: 2 },
    ...[{ limit: 2 ** 53, window: 1 }, `${2 ** 53}/1ms`, '2857/36500d', { limit: MOST, window: 2 }],
    ...[
      { limit: 2 ** 20, window: 2 ** 33 },
      { ...bucket, burst: MOST },
    ],
    { ...bucket, limit: () => 5, burst: MOST },
  ]),
].flat();

/** Returns an input as one line. */
const shown = (input: unknown): string =>
  inspect(input, { breakLength: Number.POSITIVE_INFINITY, depth: 3 });

describe('invalid policies', () => {
  it.each(inputs)('definePolicy and createLimiter throw %s for %o', (code, input) => {
    const error = errorOf(() => policyOf(input));
    expect(error.code).toBe(code);
    const thrown = errorOf(() => createLimiter({ policies: { p: input as PolicyInput } }));
    expect(thrown).toMatchObject({ code, message: error.message });
  });

  it('the messages for invalid policies are those in messages/policies.txt', async () => {
    const text = inputs.map(([code, input]) => {
      const { message } = errorOf(() => policyOf(input));
      return `${shown(input)}\n  ${code}: ${message}\n`;
    });
    await expect(text.join('')).toMatchFileSnapshot('messages/policies.txt');
  });
});

describe('limit functions', () => {
  it('a limit function is called at every check, with the key as one string', () => {
    const keys: string[] = [];
    const limit = (key: string) => keys.push(key) * 10;
    const limiter = createLimiter({ policies: { p: { limit, window: '1m' } } });
    expect(keys).toEqual([]);
    expect(limiter.checkSync('p', 'acme')).toMatchObject({ limit: 10, remaining: 9 });
    expect(limiter.checkSync('p', ['acme', 7])).toMatchObject({ limit: 20, remaining: 19 });
    expect(limiter.checkSync('p', 'acme')).toMatchObject({ limit: 30, remaining: 28 });
    expect(keys).toEqual(['acme', 'acme:7', 'acme']);
  });

  it('a limit function does not change the burst', () => {
    const policy = policyOf({ ...bucket, limit: () => 7, burst: 20 });
    expect(policy.paramsFor('k')).toMatchObject({ limit: 7, capacity: 20 });
  });

  const wrongLimits: Invalid[] = [
    ...invalid('ERR_INVALID_LIMIT', itself, NOT_LIMITS),
    ...invalid('ERR_LIMIT_TOO_LARGE', itself, [2 ** 53, MOST]),
  ];

  it('the messages for invalid returned limits are those in messages/limits.txt', async () => {
    const text = wrongLimits.map(([code, wrong]) => {
      const policy = policyOf({ limit: () => wrong, window: '1s' });
      return `${shown(wrong)}\n  ${code}: ${errorOf(() => policy.paramsFor('k')).message}\n`;
    });
    await expect(text.join('')).toMatchFileSnapshot('messages/limits.txt');
  });

  it.each(wrongLimits)(
    '%s is thrown at every call if a limit function returns %o',
    async (code, wrong) => {
      const { message } = errorOf(() =>
        policyOf({ limit: () => wrong, window: '1s' }).paramsFor('k'),
      );
      let returned: unknown = 5;
      const limit = () => returned as number;
      const limiter = createLimiter({
        policies: { p: { limit, window: '1s' }, q: '1/1s' },
        clock: new ManualClock(1_000),
      });
      limiter.checkSync('p', 'old');
      const before = limiter.inspectSync('p', 'old');
      const joint = [
        { policy: 'q', key: 'new' },
        { policy: 'p', key: 'new' },
      ] as const;
      returned = wrong;
      for (const call of [
        () => limiter.checkSync('p', 'old'),
        () => limiter.checkSync('p', 'new'),
        () => limiter.peekSync('p', 'old'),
        () => limiter.inspectSync('p', 'old'),
        () => limiter.checkSync(joint),
      ]) {
        expect(errorOf(call)).toMatchObject({ code, message });
      }
      await expect(limiter.check('p', 'new')).rejects.toMatchObject({ code, message });
      await expect(limiter.acquire('p', 'new')).rejects.toMatchObject({ code, message });
      returned = 5;
      expect(limiter.size).toBe(1);
      expect(limiter.inspectSync('p', 'old')).toEqual(before);
      expect(limiter.inspectSync('p', 'new')).toBeUndefined();
      expect(limiter.inspectSync('q', 'new')).toBeUndefined();
    },
  );
});
