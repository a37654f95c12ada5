import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  definePolicy,
  type ErrorCode,
  ManualClock,
  type PolicyInput,
  SluiceError,
} from '../src/index.ts';

/** Builds the policy `p` of whatever a caller without types might pass. */
const policyOf = (input: unknown) => definePolicy('p', input as PolicyInput);

function refusalOf(call: () => unknown): SluiceError {
  try {
    call();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const MOST = Number.MAX_SAFE_INTEGER; // 6361 * 69431 * 20394401

describe('a policy that is accepted', () => {
  it.each([
    ['text with a slash', '100/1m', 100, 60_000],
    ['text in words', '100 per 1m', 100, 60_000],
    ['an object', { limit: 100, window: '1m' }, 100, 60_000],
    ['a window in milliseconds', { limit: 100, window: 250 }, 100, 250],
    ['the smallest there is', { limit: 1, window: 1 }, 1, 1],
    ['an object with undefined in it', { limit: 3, window: 9, algorithm: undefined }, 3, 9],
  ])('may be %s', (_form, input, limit, windowMs) => {
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
    ['36500d', 3_153_600_000_000],
    ['007s', 7_000],
  ])('reads the window %s as %d ms', (window, windowMs) => {
    expect(policyOf({ limit: 1, window }).windowMs).toBe(windowMs);
    expect(policyOf(`1/${window}`).windowMs).toBe(windowMs);
  });

  it.each(['fixed-window', 'sliding-log', 'sliding-counter', 'sliding-buckets', 'token-bucket'])(
    'may name the algorithm %s',
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
  ])(
    'cuts a window of %d ms, with `buckets` %s, into pieces of %d ms',
    (window, count, bucketMs) => {
      const policy = policyOf({ limit: 5, window, algorithm: 'sliding-buckets', buckets: count });
      expect(policy.bucketMs).toBe(bucketMs);
      expect(policy.params?.bucketMs).toBe(bucketMs);
    },
  );

  it.each([
    [undefined, 5],
    [1, 1],
    [20, 20],
  ])('holds, with a burst of %s and a limit of 5, %d tokens', (burst, capacity) => {
    const policy = policyOf({ limit: 5, window: '1s', algorithm: 'token-bucket', burst });
    expect(policy.params).toMatchObject({ limit: 5, capacity });
  });

  it('knows the cost of each operation, up to the whole limit', () => {
    const costs = { 'search.list': 100, 'video.get': 1 };
    expect(policyOf({ limit: 100, window: '1d', costs }).costs).toEqual(
      new Map([
        ['search.list', 100],
        ['video.get', 1],
      ]),
    );
  });

  it('may cost as much as the burst, which is more than the limit', () => {
    const bucket = { limit: 5, window: '1s', algorithm: 'token-bucket', burst: 20 };
    expect(policyOf({ ...bucket, costs: { import: 20 } }).costs.get('import')).toBe(20);
  });

  it('may have limit x window and burst x window of exactly 2^53 - 1', () => {
    const window = 20_394_401;
    const limit = MOST / window;
    expect(policyOf({ limit, window }).params?.limit).toBe(441_650_591);
    const bucket = { limit: 1, window, algorithm: 'token-bucket', burst: limit };
    expect(policyOf(bucket).params?.capacity).toBe(441_650_591);
    expect(policyOf({ limit: MOST, window: 1 }).params?.limit).toBe(MOST);
  });

  it('may be named __proto__, which is a name like any other', () => {
    const limiter = createLimiter({
      policies: JSON.parse('{ "__proto__": "1/1s" }') as Record<string, string>,
      clock: new ManualClock(),
    });
    expect(limiter.checkSync('__proto__', 'k').allowed).toBe(true);
    expect(limiter.checkSync('__proto__', 'k').allowed).toBe(false);
    expect(() => limiter.checkSync('constructor', 'k')).toThrow('one of: __proto__, got');
  });

  it('may give the operation __proto__ a cost', () => {
    const costs = JSON.parse('{ "__proto__": 3 }');
    expect(policyOf({ limit: 5, window: 1, costs }).costs.get('__proto__')).toBe(3);
    expect(policyOf({ limit: 5, window: 1, costs }).costs.get('constructor')).toBeUndefined();
  });
});

/** How a message shows what it got. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) return 'an object';
  return `\`${typeof value === 'string' ? JSON.stringify(value) : String(value)}\``;
}

type Refusal = readonly [code: ErrorCode, message: string, input: unknown];

/** Values that are refused alike, each in the input that `inputOf` makes of it. */
const refused = (
  code: ErrorCode,
  what: string,
  inputOf: (value: unknown) => unknown,
  values: readonly unknown[],
): Refusal[] =>
  values.map((value) => [code, `Expected ${what}, got ${shown(value)}`, inputOf(value)]);

const tooLarge = (what: string, sizes: string, input: unknown): Refusal[] => {
  const product = shown(`${sizes} ms`);
  return [
    ['ERR_LIMIT_TOO_LARGE', `Expected ${what} to be at most 2^53 - 1, got ${product}`, input],
  ];
};

const P = 'policy `p`';
const KNOWN = 'limit, window, algorithm, buckets, burst, costs, onFailure';
const FORM = `${P} to be text like '100/1m' or an object with only ${KNOWN}`;
const LIMIT = `the limit of ${P} to be an integer >= 1`;
const WINDOW = `the window of ${P} to be a duration from 1ms to 36500d`;
const NAMES = 'fixed-window sliding-log sliding-counter sliding-buckets token-bucket';
const ALGORITHM = `the algorithm of ${P} to be one of ${NAMES}`;
const NO_BUCKETS = `\`buckets\` of ${P} only with the algorithm 'sliding-buckets'`;
const BUCKETS = `\`buckets\` of ${P} to be an integer from 1 to 10000`;
const NO_BURST = `\`burst\` of ${P} only with the algorithm 'token-bucket'`;
const BURST = `\`burst\` of ${P} to be an integer from 1 to 9007199254740991`;

const INFINITE = Number.POSITIVE_INFINITY;
const NOT_LIMITS = [0, -1, 0.5, 1.5, Number.NaN, INFINITE, '5', null, true, 5n, [5], {}];
const NOT_COUNTS = [...NOT_LIMITS, 2 ** 53];
const NOT_TIMES = [0, -1, 0.5, Number.NaN, INFINITE, 3_153_600_000_001, undefined, null, [1], {}];
const NOT_DURATIONS = [
  ...['', '1', '1x', '1.5s', '-1s', '1e3s', ' 1s', '1 s', '1s\n', '1S', '1M', 's', 'ms'],
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

const refusals: Refusal[] = [
  refused('ERR_INVALID_POLICY', FORM, itself, NOT_FORMS),
  refused('ERR_INVALID_POLICY', FORM, itself, [...NOT_TEXTS, ...NOT_NUMBERS]),
  refused('ERR_INVALID_POLICY', FORM, withField, ['windw', 'Limit', '__proto__']),
  refused('ERR_INVALID_LIMIT', LIMIT, (limit) => ({ limit, window: 1 }), NOT_LIMITS),
  refused('ERR_INVALID_LIMIT', LIMIT, () => ({ window: 1 }), [undefined]),
  refused('ERR_INVALID_LIMIT', LIMIT, (limit) => `${limit}/1ms`, [0]),
  tooLarge(`limit x window of ${P}`, `${2 ** 53} x 1`, { limit: 2 ** 53, window: 1 }),
  tooLarge(`limit x window of ${P}`, `${2 ** 53} x 1`, `${2 ** 53}/1ms`),
  refused('ERR_INVALID_WINDOW', WINDOW, (window) => ({ limit: 5, window }), NOT_TIMES),
  refused('ERR_INVALID_WINDOW', WINDOW, (window) => ({ limit: 5, window }), NOT_DURATIONS),
  refused('ERR_INVALID_WINDOW', WINDOW, (window) => `5/${window}`, ['60000', '1x', '0s', '36501d']),
  refused(
    'ERR_INVALID_ALGORITHM',
    ALGORITHM,
    (name) => ({ ...plain, algorithm: name }),
    NOT_ALGORITHMS,
  ),
  refused('ERR_INVALID_BUCKETS', NO_BUCKETS, (count) => ({ ...plain, buckets: count }), [10, null]),
  refused('ERR_INVALID_BUCKETS', NO_BUCKETS, (count) => ({ ...bucket, buckets: count }), [10]),
  refused('ERR_INVALID_BUCKETS', BUCKETS, (count) => ({ ...buckets, buckets: count }), NOT_COUNTS),
  refused('ERR_INVALID_BUCKETS', BUCKETS, (count) => ({ ...buckets, buckets: count }), [10_001]),
  refused('ERR_INVALID_BURST', NO_BURST, (burst) => ({ ...plain, burst }), [10, null]),
  refused('ERR_INVALID_BURST', NO_BURST, (burst) => ({ ...buckets, burst }), [10]),
  refused('ERR_INVALID_BURST', BURST, (burst) => ({ ...bucket, burst }), NOT_COUNTS),
  refused(
    'ERR_INVALID_COSTS',
    `\`costs\` of ${P} to be an object`,
    (costs) => ({ ...plain, costs }),
    [null, 5, '5', [5], () => 5],
  ),
  refused(
    'ERR_INVALID_COSTS',
    `the cost of \`a\` in ${P} to be an integer from 1 to 5`,
    (a) => ({ ...plain, costs: { b: 5, a } }),
    [...NOT_COUNTS, undefined, 6],
  ),
  refused(
    'ERR_INVALID_COSTS',
    `the cost of \`a\` in ${P} to be an integer from 1 to 3`,
    (a) => ({ ...bucket, burst: 3, costs: { a } }),
    [4],
  ),
  tooLarge(`limit x window of ${P}`, '2857 x 3153600000000', '2857/36500d'),
  tooLarge(`limit x window of ${P}`, `${MOST} x 2`, { limit: MOST, window: 2 }),
  tooLarge(`limit x window of ${P}`, '1048576 x 8589934592', { limit: 2 ** 20, window: 2 ** 33 }),
  tooLarge(`burst x window of ${P}`, `${MOST} x 1000`, { ...bucket, burst: MOST }),
  tooLarge(`burst x window of ${P}`, `${MOST} x 1000`, { ...bucket, limit: () => 5, burst: MOST }),
].flat();

describe('a policy that is refused', () => {
  it('is quoted by its first 60 characters', () => {
    const message = `Expected ${FORM}, got \`"${'x'.repeat(60)}…"\``;
    expect(refusalOf(() => policyOf('x'.repeat(61))).message).toBe(message);
  });

  it.each(refusals)('throws %s: %s', (code, message, input) => {
    const error = refusalOf(() => policyOf(input));
    expect(error.message).toBe(message);
    expect(error.code).toBe(code);
    expect(() => createLimiter({ policies: { p: input as PolicyInput } })).toThrow(message);
  });
});

describe('a limit that depends on the key', () => {
  it('is asked for at every check, with the key as one string', () => {
    const asked: string[] = [];
    const limit = (key: string) => asked.push(key) * 10;
    const limiter = createLimiter({ policies: { p: { limit, window: '1m' } } });
    expect(asked).toEqual([]);
    expect(limiter.checkSync('p', 'acme')).toMatchObject({ limit: 10, remaining: 9 });
    expect(limiter.checkSync('p', ['acme', 7])).toMatchObject({ limit: 20, remaining: 19 });
    expect(limiter.checkSync('p', 'acme')).toMatchObject({ limit: 30, remaining: 28 });
    expect(asked).toEqual(['acme', 'acme:7', 'acme']);
  });

  it('leaves the burst as it is', () => {
    const policy = policyOf({ ...bucket, limit: () => 7, burst: 20 });
    expect(policy.paramsFor('k')).toMatchObject({ limit: 7, capacity: 20 });
  });

  it.each([
    ...refused('ERR_INVALID_LIMIT', LIMIT.replace(P, `${P} for this key`), itself, NOT_LIMITS),
    ...tooLarge(`limit x window of ${P} for this key`, `${2 ** 53} x 1000`, 2 ** 53),
    ...tooLarge(`limit x window of ${P} for this key`, `${MOST} x 1000`, MOST),
  ])('throws %s at the call and charges nothing: %s', async (code, message, wrong) => {
    let given: unknown = 5;
    const limit = () => given as number;
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
    given = wrong;
    for (const call of [
      () => limiter.checkSync('p', 'old'),
      () => limiter.checkSync('p', 'new'),
      () => limiter.peekSync('p', 'old'),
      () => limiter.inspectSync('p', 'old'),
      () => limiter.checkSync(joint),
    ]) {
      expect(refusalOf(call)).toMatchObject({ code, message });
    }
    await expect(limiter.check('p', 'new')).rejects.toMatchObject({ code, message });
    await expect(limiter.acquire('p', 'new')).rejects.toMatchObject({ code, message });
    given = 5;
    expect(limiter.size).toBe(1);
    expect(limiter.inspectSync('p', 'old')).toEqual(before);
    expect(limiter.inspectSync('p', 'new')).toBeUndefined();
    expect(limiter.inspectSync('q', 'new')).toBeUndefined();
  });
});
