import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit } from '../../src/adapters/fetch.ts';
import type { RequestOptions } from '../../src/http/options.ts';
import { createLimiter, type ErrorCode, type SluiceError } from '../../src/index.ts';

const request = (headers: Record<string, string> = {}): Request =>
  new Request('http://localhost/', { headers });

/** Returns a limited handler whose requests come from one address. */
function serve(options: RequestOptions<Request>) {
  const limited = rateLimit({ address: () => '203.0.113.7', ...options });
  return limited(async () => new Response('hello'));
}

const FIVE = { limit: 5, window: '1m' };
const LIMITER = createLimiter({ policies: { five: '5/1m' } });
const NESTED = { limits: [FIVE] };

const invalidOptions: [code: ErrorCode, options: object][] = [
  ['ERR_INVALID_OPTION', {}],
  ['ERR_INVALID_OPTION', { limit: 5, limits: [FIVE] }],
  ['ERR_INVALID_OPTION', { limits: [] }],
  ['ERR_INVALID_OPTION', { limit: 5, window: '1m', windowMs: 60_000 }],
  ['ERR_INVALID_OPTION', { limit: 5, key: 'ip' }],
  ['ERR_INVALID_OPTION', { limit: 5, key: { header: '' } }],
  ['ERR_INVALID_OPTION', { limit: 5, key: { header: 'x-user', authentic: true } }],
  ['ERR_INVALID_OPTION', { limit: 5, key: { header: 'x-user', authenticated: 'yes' } }],
  ['ERR_INVALID_OPTION', { limit: 5, key: () => 'a', keyGenerator: () => 'a' }],
  ['ERR_INVALID_OPTION', { limit: 5, headers: 'draft-5' }],
  ['ERR_INVALID_OPTION', { limit: 5, headers: 'draft', standardHeaders: true }],
  ['ERR_INVALID_OPTION', { limit: 5, standardHeaders: 'draft-1' }],
  ['ERR_INVALID_OPTION', { limit: 5, count: 'errors' }],
  ['ERR_INVALID_OPTION', { limit: 5, skipSuccessfulRequests: true, skipFailedRequests: true }],
  ['ERR_INVALID_OPTION', { limit: 5, shadow: 'yes' }],
  ['ERR_INVALID_OPTION', { limit: 5, name: '' }],
  ['ERR_INVALID_OPTION', { limit: 5, limti: 5 }],
  ['ERR_INVALID_OPTION', { limits: [{ ...FIVE, widnow: 1 }] }],
  [
    'ERR_INVALID_OPTION',
    { limits: ['1m', '1h'].map((window) => ({ name: 'a', limit: 5, window })) },
  ],
  ['ERR_INVALID_OPTION', { limit: 5, onFailure: 'open' }],
  ['ERR_INVALID_OPTION', { limit: 5, skip: true }],
  ['ERR_INVALID_OPTION', { limit: 5, settle: 1 }],
  ['ERR_INVALID_OPTION', { limit: 5, handler: 7 }],
  ['ERR_INVALID_OPTION', { limit: 5, handler: null }],
  ['ERR_INVALID_OPTION', { limit: 5, address: '203.0.113.7' }],
  ['ERR_INVALID_OPTION', { limit: 5, keyGenerator: 5 }],
  ['ERR_INVALID_OPTION', { limit: 5, key: 5 }],
  ['ERR_INVALID_OPTION', { ...NESTED, key: 'address' }],
  ['ERR_INVALID_OPTION', { ...NESTED, cost: 2 }],
  ['ERR_INVALID_OPTION', { ...NESTED, window: '1h' }],
  ['ERR_INVALID_OPTION', { ...NESTED, name: 'a' }],
  ['ERR_INVALID_OPTION', { limit: 5, onDecision: true }],
  ['ERR_INVALID_OPTION', { limit: 5, policy: 'five' }],
  ['ERR_INVALID_OPTION', { limiter: {}, policy: 'five' }],
  ['ERR_INVALID_OPTION', { limiter: LIMITER }],
  ['ERR_INVALID_OPTION', { limiter: LIMITER, policy: 'five', limits: [{ policy: 'five' }] }],
  ['ERR_INVALID_OPTION', { limiter: LIMITER, policy: 'five', window: '1m' }],
  ['ERR_INVALID_OPTION', { limiter: LIMITER, limits: [FIVE] }],
  ['ERR_INVALID_OPTION', { limits: [{ policy: 'five' }] }],
  ['ERR_UNKNOWN_POLICY', { limiter: LIMITER, policy: 'six' }],
  ['ERR_INVALID_OPTION', { limit: 5, trustProxy: true }],
  ['ERR_INVALID_OPTION', { limit: 5, allow: ['not an address'] }],
  ['ERR_INVALID_LIMIT', { limit: -1, window: '1m' }],
  ['ERR_INVALID_WINDOW', { limit: 5, window: 'soon' }],
  ['ERR_INVALID_LIMIT', { limit: '5', window: '1m' }],
  ['ERR_INVALID_ALGORITHM', { limit: 5, algorithm: 'leaky' }],
  ['ERR_INVALID_COST', { limit: 5, cost: 'x' }],
  ['ERR_INVALID_COST', { limit: 5, cost: -1 }],
  ['ERR_INVALID_COST', { limits: [{ ...FIVE, cost: null }] }],
];

describe('invalid options', () => {
  const errorOf = (options: object): SluiceError => {
    try {
      serve(options as never);
    } catch (error) {
      return error as SluiceError;
    }
    throw new Error('expected an error');
  };

  it.each(invalidOptions)('%s is thrown for the options %j', (code, options) => {
    expect(errorOf(options).code).toBe(code);
  });

  it('the messages for invalid options are those in messages/http-options.txt', async () => {
    const lines = invalidOptions.flatMap(([code, options]) => [
      inspect(options, { breakLength: Number.POSITIVE_INFINITY, depth: 3 }),
      `  ${code}: ${errorOf(options).message}`,
    ]);
    const file = '../messages/http-options.txt';
    await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(file);
  });

  it.each([{ statusCode: 'x' }, { statusCode: 42 }, { requestWasSuccessful: 1 }])(
    'Express rejects the options %j',
    (options) => {
      expect(() => expressLimit({ limit: 5, window: '1m', ...options } as never)).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
      );
    },
  );
});

describe('a limit on requests', () => {
  it('a limit by header counts each value, and the address if the header is missing', async () => {
    const handle = serve({ limit: 1, window: '1h', key: { header: 'x-api-key' } });
    const statuses = [];
    for (const headers of [
      { 'x-api-key': 'a' },
      { 'x-api-key': 'b' },
      {},
      { 'x-api-key': 'a' },
      {},
    ]) {
      statuses.push((await handle(request(headers as never))).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
  });

  it('a header value that is an address does not use the limit of that address', async () => {
    const handle = serve({ limit: 1, window: '1h', key: { header: 'x-api-key' } });
    expect((await handle(request({ 'x-api-key': '203.0.113.7' }))).status).toBe(200);
    expect((await handle(request())).status).toBe(200);
  });

  it('a limit by header ignores the case of the header name', async () => {
    const handle = serve({ limit: 1, window: '1h', key: { header: 'X-API-Key' } });
    expect((await handle(request({ 'x-api-key': 'a' }))).status).toBe(200);
    expect((await handle(request({ 'x-api-key': 'b' }))).status).toBe(200);
    expect((await handle(request({ 'x-api-key': 'a' }))).status).toBe(429);
  });

  it.each([
    ['a header', { header: 'authorization' }],
    ['a function', (request: Request) => request.headers.get('authorization')!],
    ['parts', (request: Request) => ['token', request.headers.get('authorization')!]],
  ])('a limit by %s distinguishes keys of any length', async (_, key) => {
    const handle = serve({ limit: 1, window: '1h', key });
    const long = 'x'.repeat(5000);
    const statuses = [];
    for (const authorization of [`${long}1`, `${long}2`, `${long}1`, `1${long}`]) {
      statuses.push((await handle(request({ authorization }))).status);
    }
    expect(statuses).toEqual([200, 200, 429, 200]);
  });

  it('the option `limit` can be a function of the request', async () => {
    const limit = (request: Request): number => (request.headers.get('x-plan') === 'pro' ? 3 : 1);
    const handle = serve({
      limit,
      window: '1h',
      key: (request) => request.headers.get('x-user') ?? 'anonymous',
    });
    const pro = { 'x-plan': 'pro', 'x-user': 'ada' };
    const responses = [];
    for (let call = 0; call < 4; call++) responses.push((await handle(request(pro))).status);
    for (let call = 0; call < 2; call++) responses.push((await handle(request())).status);
    expect(responses).toEqual([200, 200, 200, 429, 200, 429]);
  });

  it('concurrent requests each have the limit that the function returned', async () => {
    const handle = serve({
      limit: async (request) => Number(request.headers.get('x-limit')),
      window: '1h',
      key: (request) => `limit-${request.headers.get('x-limit')}`,
    });
    const responses = await Promise.all(
      [1, 2, 3].flatMap((limit) =>
        Array.from({ length: 4 }, () => handle(request({ 'x-limit': String(limit) }))),
      ),
    );
    const admitted = responses.map(({ status }) => (status === 200 ? 1 : 0));
    const sums = [0, 4, 8].map((from) =>
      admitted.slice(from, from + 4).reduce<number>((sum, each) => sum + each, 0),
    );
    expect(sums).toEqual([1, 2, 3]);
  });

  it.each([
    ['draft', ['ratelimit', 'ratelimit-policy', 'retry-after']],
    ['draft-7', ['ratelimit', 'ratelimit-policy', 'retry-after']],
    [
      'draft-6',
      [
        'ratelimit-limit',
        'ratelimit-policy',
        'ratelimit-remaining',
        'ratelimit-reset',
        'retry-after',
      ],
    ],
    ['legacy', ['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']],
    ['none', []],
  ] as const)('a limited handler sends the headers of %s', async (headers, names) => {
    const handle = serve({ limit: 1, window: '1h', headers });
    await handle(request());
    const denied = await handle(request());
    expect(denied.status).toBe(429);
    expect([...denied.headers.keys()].filter((name) => /rate|retry/.test(name)).sort()).toEqual([
      ...names,
    ]);
  });

  it('an address in `allow` is not counted, and an address in `deny` gets 403', async () => {
    const allowed = serve({ limit: 1, window: '1h', allow: ['203.0.113.0/24'] });
    for (let call = 0; call < 3; call++) expect((await allowed(request())).status).toBe(200);
    const denied = serve({ limit: 1, window: '1h', deny: ['203.0.113.7'] });
    expect((await denied(request())).status).toBe(403);
    const other = serve({ limit: 1, window: '1h', deny: ['203.0.113.8'] });
    expect((await other(request())).status).toBe(200);
  });

  it('a limit in shadow mode does not deny', async () => {
    const handle = serve({
      limits: [
        { name: 'real', limit: 3, window: '1h' },
        { name: 'planned', limit: 1, window: '1h', shadow: true },
      ],
    });
    const responses = [];
    for (let call = 0; call < 4; call++) responses.push(await handle(request()));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(responses[0].headers.get('ratelimit-policy')).toBe('"real";q=3;w=3600');
  });

  it('requests without an address share one limit', async () => {
    const codes: string[] = [];
    const onWarning = ({ code }: { code: string }) => void codes.push(code);
    const handle = rateLimit({ limit: 1, window: '1h', onWarning })(() => new Response('hello'));
    expect([(await handle(request())).status, (await handle(request())).status]).toEqual([
      200, 429,
    ]);
    expect(codes).toEqual(['WARN_NO_CLIENT_ADDRESS']);
  });

  it('a limit by a function key warns if the client address for `allow` is unknown', async () => {
    const codes: string[] = [];
    const onWarning = ({ code }: { code: string }) => void codes.push(code);
    const options = { limit: 1, window: '1h', key: () => 'ada', onWarning } as const;
    const handle = rateLimit({ ...options, deny: ['192.0.2.1'] })(() => new Response('hello'));
    expect((await handle(request())).status).toBe(200);
    expect(codes).toEqual(['WARN_NO_CLIENT_ADDRESS']);
  });
});
