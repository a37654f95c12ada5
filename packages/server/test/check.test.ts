import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from './running.ts';

let running: Running;
beforeAll(async () => {
  const policies = [
    policy('few', 2, '1m'),
    policy('many', 100, '1h', { costs: { search: 30 } }),
    policy('watched', 1, '1m', { shadow: true }),
    policy('bucket', 5, '1s', { algorithm: 'token-bucket', burst: 10 }),
  ];
  running = await startRunning({ config: { policies } });
});
afterAll(() => running.close());

const check = (body: unknown, query = '') => running.post(`/v1/check${query}`, body);
const peek = (body: unknown, query = '') => running.post(`/v1/peek${query}`, body);
const remaining = async (name: string, key: string): Promise<number> =>
  (await peek({ policy: name, key })).json.remaining;

describe('POST /v1/check', () => {
  test('POST /v1/check responds 200 to allowed and denied checks', async () => {
    const responses = [];
    for (let call = 0; call < 3; call++) responses.push(await check({ policy: 'few', key: 'a' }));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(responses.map(({ json }) => json.allowed)).toEqual([true, true, false]);
    expect(responses[2].json.retryAfterMs).toBeGreaterThan(0);
    expect(responses.map(({ json }) => json.receipt !== undefined)).toEqual([true, true, false]);
  });

  test('POST /v1/check returns all fields of a decision', async () => {
    const { json } = await check({ policy: 'few', key: ['user', 7, 'a:b'] });
    const own = { policy: 'few', key: 'user:7:a\\:b', cost: 1 };
    const decision = { ...own, allowed: true, limit: 2, remaining: 1, retryAfterMs: 0 };
    expect(json).toMatchObject({ ...decision, limits: [decision] });
    expect(json.receipt.charges).toEqual([{ ...own, atMs: json.atMs }]);
    expect(json.resetAfterMs).toBe(60_000);
  });

  test('POST /v1/check accepts a cost or an operation', async () => {
    expect((await check({ policy: 'many', key: 'c', cost: 60 })).json.remaining).toBe(40);
    expect((await check({ policy: 'many', key: 'c', operation: 'search' })).json.remaining).toBe(
      10,
    );
    expect((await check({ policy: 'many', key: 'c', operation: 'search' })).json.allowed).toBe(
      false,
    );
  });

  test('POST /v1/check charges all limits of a check or none', async () => {
    const limits = [
      { policy: 'many', key: 'joint', cost: 10 },
      { policy: 'few', key: 'joint', cost: 2 },
    ];
    const first = await check({ limits });
    expect(first.json).toMatchObject({ allowed: true, policy: 'few', remaining: 0 });
    const second = await check({ limits });
    expect(second.json.allowed).toBe(false);
    expect(second.json.limits.map((each: { allowed: boolean }) => each.allowed)).toEqual([
      true,
      false,
    ]);
    expect(await remaining('many', 'joint')).toBe(90);
  });

  test('POST /v1/check decides the checks of a batch independently in order', async () => {
    const one = { policy: 'few', key: 'batch' };
    const checks = [one, one, one, { limits: [{ policy: 'many', key: 'batch' }] }];
    const { status, json } = await check({ checks });
    expect(status).toBe(200);
    expect(json.decisions.map((each: { allowed: boolean }) => each.allowed)).toEqual([
      ...[true, true, false, true],
    ]);
  });

  test('POST /v1/check charges nothing if one check of a batch is invalid', async () => {
    const good = { policy: 'few', key: 'whole' };
    const { status, json } = await check({ checks: [good, { policy: 'few', key: '' }] });
    expect(status).toBe(400);
    expect(json).toMatchObject({ code: 'ERR_INVALID_KEY', pointer: '/checks/1/key' });
    expect(await remaining('few', 'whole')).toBe(2);
  });

  test('a check with a repeated id returns the same decision without another charge', async () => {
    const body = { policy: 'few', key: 'twice', id: 'order-1' };
    const [first, second] = [await check(body), await check(body)];
    expect(second.json).toEqual(first.json);
    expect(await remaining('few', 'twice')).toBe(1);
  });

  test('POST /v1/check reports shadow limits without enforcing them', async () => {
    const body = { policy: 'watched', key: 'w' };
    await check(body);
    const { json } = await check(body);
    expect(json).toMatchObject({ allowed: true, limits: [] });
    expect(json.shadow).toMatchObject([{ policy: 'watched', allowed: false }]);
    expect(json.receipt).toBeUndefined();
  });
});

describe('POST /v1/check?enforce', () => {
  const body = { policy: 'few', key: 'enforced' };

  test('?enforce responds 429 with rate-limit headers to a denied check', async () => {
    const allowed = await check(body, '?enforce');
    expect(allowed.status).toBe(200);
    expect(allowed.headers.get('ratelimit')).toMatch(/^"few";r=1;t=\d+$/);
    await check(body, '?enforce=true');
    const denied = await check(body, '?enforce=1');
    expect(denied.status).toBe(429);
    expect(denied.json.allowed).toBe(false);
    expect(Number(denied.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(denied.headers.get('ratelimit-policy')).toBe('"few";q=2;w=60');
  });

  test.each(['?enforce=false', '?enforce=0', ''])(
    'the query %j does not enforce the decision',
    async (query) => {
      const { status, headers } = await check({ ...body, cost: 2 }, query);
      expect(status).toBe(200);
      expect(headers.get('ratelimit')).toBeNull();
    },
  );

  test.each(['?enforce=maybe', '?enforce=TRUE', '?enforced', '?enforce&x=1', '?__proto__=1'])(
    'POST /v1/check rejects the query %j without a charge',
    async (query) => {
      const { status, json } = await check({ policy: 'few', key: query }, query);
      expect([status, json.code]).toEqual([400, 'ERR_INVALID_OPTION']);
      expect(await remaining('few', query)).toBe(2);
    },
  );

  test('POST /v1/check rejects ?enforce for a batch', async () => {
    const { status, json } = await check({ checks: [body] }, '?enforce');
    expect([status, json.code]).toEqual([400, 'ERR_INVALID_OPTION']);
  });
});

describe('POST /v1/peek', () => {
  test('peek charges nothing and returns no receipt', async () => {
    for (let call = 0; call < 3; call++) {
      const { json } = await peek({ policy: 'few', key: 'p', cost: 2 });
      expect(json).toMatchObject({ allowed: true, remaining: 2 });
      expect(json.receipt).toBeUndefined();
    }
  });

  test('peek accepts a cost of 0, and check rejects it', async () => {
    expect((await peek({ policy: 'few', key: 'p', cost: 0 })).status).toBe(200);
    expect((await check({ policy: 'few', key: 'p', cost: 0 })).json.code).toBe('ERR_INVALID_COST');
  });
});

describe('invalid checks', () => {
  const few = { policy: 'few', key: 'wrong' };
  const limitsOf = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ policy: 'many', key: `k${at}` }));
  type Wrong = readonly [description: string, code: string, pointer: string, body: unknown];
  const wrong: readonly Wrong[] = [
    ['a list', 'ERR_INVALID_CHECK', '', []],
    ['null', 'ERR_INVALID_CHECK', '', null],
    ['text', 'ERR_INVALID_CHECK', '', 'text'],
    ['an empty object', 'ERR_UNKNOWN_POLICY', '/policy', {}],
    ['an unknown policy', 'ERR_UNKNOWN_POLICY', '/policy', { policy: 'none', key: 'a' }],
    [
      'a policy named __proto__',
      'ERR_UNKNOWN_POLICY',
      '/policy',
      { policy: '__proto__', key: 'a' },
    ],
    ['a list for a policy', 'ERR_UNKNOWN_POLICY', '/policy', { policy: ['few'], key: 'a' }],
    [
      "the service's own policy",
      'ERR_UNKNOWN_POLICY',
      '/policy',
      { policy: 'sluice.receipts', key: 'a' },
    ],
    ['no key', 'ERR_INVALID_KEY', '/key', { policy: 'few' }],
    ['null for a key', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: null }],
    ['an object for a key', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: {} }],
    ['a number for a key', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: 5 }],
    ['a nested list of key parts', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: [['a']] }],
    ['null for a key part', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: [null] }],
    ['an empty list of key parts', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: [] }],
    ['a long key', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: 'x'.repeat(1025) }],
    ['half a surrogate pair', 'ERR_INVALID_KEY', '/key', { policy: 'few', key: 'a\ud800b' }],
    [
      'half a surrogate pair in a part',
      'ERR_INVALID_KEY',
      '/key',
      { policy: 'few', key: ['\udc00'] },
    ],
    ['a number for an id', 'ERR_INVALID_KEY', '/id', { ...few, id: 7 }],
    ['a list for an id', 'ERR_INVALID_KEY', '/id', { ...few, id: ['a'] }],
    ['an empty id', 'ERR_INVALID_KEY', '/id', { ...few, id: '' }],
    ['a long id', 'ERR_INVALID_KEY', '/id', { ...few, id: 'x'.repeat(1001) }],
    ['half a surrogate pair for an id', 'ERR_INVALID_KEY', '/id', { ...few, id: '\ud800' }],
    ...[-1, 0, 1.5, '1', true, null, [], {}, 2 ** 53, 1e308].map(
      (cost): Wrong => [
        `a cost of ${JSON.stringify(cost)}`,
        'ERR_INVALID_COST',
        '/cost',
        { ...few, cost },
      ],
    ),
    ['a cost above the limit', 'ERR_COST_ABOVE_LIMIT', '/cost', { ...few, cost: 3 }],
    [
      'a cost above the burst',
      'ERR_COST_ABOVE_LIMIT',
      '/cost',
      { policy: 'bucket', key: 'b', cost: 11 },
    ],
    [
      'both a cost and an operation',
      'ERR_INVALID_COST',
      '/cost',
      { ...few, policy: 'many', cost: 1, operation: 'search' },
    ],
    [
      'an operation of another policy',
      'ERR_UNKNOWN_OPERATION',
      '/operation',
      { ...few, operation: 'search' },
    ],
    ['null for an operation', 'ERR_UNKNOWN_OPERATION', '/operation', { ...few, operation: null }],
    [
      'an unknown failure action',
      'ERR_INVALID_OPTION',
      '/onFailure',
      { ...few, onFailure: 'shrug' },
    ],
    ['a misspelt field', 'ERR_INVALID_BODY', '/costs', { ...few, costs: 1 }],
    ['a field that needs escaping', 'ERR_INVALID_BODY', '/a~1b~0c', { ...few, 'a/b~c': 1 }],
    ['an id of one limit', 'ERR_INVALID_BODY', '/limits/0/id', { limits: [{ ...few, id: 'a' }] }],
    ['limits beside a policy', 'ERR_INVALID_BODY', '/policy', { limits: [few], policy: 'few' }],
    ['no limits', 'ERR_INVALID_CHECK', '/limits', { limits: [] }],
    ['an object for limits', 'ERR_INVALID_CHECK', '/limits', { limits: {} }],
    ['65 limits', 'ERR_INVALID_CHECK', '/limits', { limits: limitsOf(65) }],
    ['a limit twice', 'ERR_INVALID_CHECK', '/limits', { limits: [few, few] }],
    ['a number for a limit', 'ERR_INVALID_CHECK', '/limits/1', { limits: [few, 5] }],
    ['no checks', 'ERR_INVALID_CHECK', '/checks', { checks: [] }],
    ['1,001 checks', 'ERR_INVALID_CHECK', '/checks', { checks: Array(1001).fill(few) }],
    [
      'more than 4,096 limits in a batch',
      'ERR_INVALID_CHECK',
      '/checks',
      { checks: Array(65).fill({ limits: limitsOf(64) }) },
    ],
    ['an id of a batch', 'ERR_INVALID_BODY', '/id', { checks: [few], id: 'a' }],
    ['a batch in a batch', 'ERR_INVALID_BODY', '/checks/0/checks', { checks: [{ checks: [few] }] }],
  ];

  test.each(wrong)(
    'POST /v1/check rejects %s with %s at the pointer %j',
    async (_description, code, pointer, body) => {
      const { status, json, headers } = await check(body);
      expect(headers.get('content-type')).toBe('application/problem+json');
      expect(json).toMatchObject({ status: 400, code, pointer });
      expect(json.detail).toMatch(/^Expected /);
      expect(status).toBe(400);
      expect(await remaining('few', 'wrong')).toBe(2);
    },
  );

  const valid = { policy: 'many', key: 'valid' };
  test.each([
    ['policy', 'ERR_UNKNOWN_POLICY', { policy: 'none', key: 'a' }],
    ['key', 'ERR_INVALID_KEY', { policy: 'few', key: '' }],
    ['cost', 'ERR_INVALID_COST', { ...few, cost: 0 }],
    ['cost', 'ERR_COST_ABOVE_LIMIT', { ...few, cost: 3 }],
    ['operation', 'ERR_UNKNOWN_OPERATION', { ...few, operation: 'search' }],
  ])('the pointer locates an invalid %s among several limits (%s)', async (field, code, bad) => {
    const places: readonly [pointer: string, body: unknown][] = [
      ['/limits/1', { limits: [valid, bad] }],
      ['/checks/1', { checks: [valid, bad] }],
      ['/checks/1/limits/0', { checks: [valid, { limits: [bad] }] }],
      ['/checks/1/limits/2', { checks: [valid, { limits: [valid, few, bad] }] }],
    ];
    for (const [place, body] of places) {
      expect((await check(body)).json).toMatchObject({ code, pointer: `${place}/${field}` });
    }
  });

  test.each([
    ['id', { id: '' }],
    ['onFailure', { onFailure: 'shrug' }],
  ])('the pointer locates an invalid %s of a check in a batch', async (field, bad) => {
    const { json } = await check({ checks: [valid, { limits: [few], ...bad }] });
    expect(json.pointer).toBe(`/checks/1/${field}`);
  });

  test('the pointer locates an operation whose cost exceeds the override', async () => {
    await running.post('/v1/overrides', { policy: 'many', key: 'small', limit: 20 });
    const { json } = await check({ policy: 'many', key: 'small', operation: 'search' });
    expect(json).toMatchObject({ code: 'ERR_COST_ABOVE_LIMIT', pointer: '/operation' });
  });

  test('the problem detail shows a missing field as "nothing"', async () => {
    const details = [await check({ key: 'a' }), await check({ limits: [{ policy: 'few' }] })];
    expect(details.map(({ json }) => json.detail)).toEqual([
      'Expected a policy, one of: few many watched bucket, got nothing',
      'Expected the key to be a string of 1 to 1024 characters, got nothing',
    ]);
    const { json } = await running.post('/v1/reset', { policy: 'few' });
    expect(json.detail).toMatch(/^Expected `key` to be .*, got nothing$/);
  });

  test('POST /v1/check accepts the largest allowed check and batch', async () => {
    expect((await check({ limits: limitsOf(64) })).status).toBe(200);
    const many = Array(64).fill({ limits: limitsOf(64) });
    expect((await peek({ checks: many })).json.decisions).toHaveLength(64);
    const { json } = await check({ checks: Array(1000).fill({ policy: 'many', key: 'full' }) });
    const allowed = json.decisions.filter((each: { allowed: boolean }) => each.allowed);
    expect([json.decisions.length, allowed.length]).toEqual([1000, 100]);
  });

  test('POST /v1/check accepts any characters in a key', async () => {
    const keys = ['a\0b', '😀', '__proto__', 'constructor', '{', '\u2028', '"\\', 'x'.repeat(1024)];
    for (const key of keys) {
      const { status, json } = await check({ policy: 'few', key });
      expect([status, json.key, json.remaining]).toEqual([200, key, 1]);
    }
  });
});
