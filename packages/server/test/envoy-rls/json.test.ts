import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServiceResponse } from '../running.ts';
import { entries, OK, type Served, serve } from './client.ts';

const CONFIG = `
domain: shop
descriptors:
  - { key: two, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: ten, rate_limit: { unit: day, requests_per_unit: 10, name: daily } }
  - { key: odd, rate_limit: { window: 5m, limit: 3 } }
  - { key: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true } }
  - key: annotated
    rate_limit: { unit: minute, requests_per_unit: 1 }
    metadata: { zones: [a, null, 1.5], deep: { yes: true } }
`;

let served: Served;
beforeAll(async () => {
  served = await serve(CONFIG);
});
afterAll(() => served.close());

let names = 0;
const name = (): string => `name-${names++}`;
const post = (body: unknown): Promise<ServiceResponse> => served.running.post('/json', body);
const shop = (...descriptors: object[]) => ({ domain: 'shop', descriptors });

describe('POST /json', () => {
  test('POST /json responds 200 within the limit and 429 over it', async () => {
    const request = shop(entries('two', name()), entries('unknown', 'x'));
    const first = await post(request);
    expect(first.status).toBe(200);
    expect(first.headers.get('content-type')).toBe('application/json');
    expect(first.json).toEqual({
      overallCode: 'OK',
      statuses: [
        {
          code: 'OK',
          currentLimit: { requestsPerUnit: 2, unit: 'MINUTE' },
          limitRemaining: 1,
          durationUntilReset: '60s',
        },
        { code: 'OK' },
      ],
      responseHeadersToAdd: [
        { key: 'RateLimit-Policy', value: '"shop.two";q=2;w=60' },
        { key: 'RateLimit', value: '"shop.two";r=1;t=60' },
      ],
    });
    await post(request);
    const third = await post(request);
    expect(third.status).toBe(429);
    expect(third.json.overallCode).toBe('OVER_LIMIT');
    const [status] = third.json.statuses;
    expect(status.code).toBe('OVER_LIMIT');
    expect(status).not.toHaveProperty('limitRemaining');
    expect(status.durationUntilReset).toMatch(/^\d{1,2}(\.\d{3})?s$/);
    const headers = third.json.responseHeadersToAdd.map(({ key }: { key: string }) => key);
    expect(headers).toEqual(['RateLimit-Policy', 'RateLimit', 'Retry-After']);
  });

  test('POST /json and gRPC share counters', async () => {
    const request = shop(entries('two', name()));
    await post(request);
    expect((await served.client.shouldRateLimit(request)).overall_code).toBe(OK);
    expect((await post(request)).status).toBe(429);
  });

  test.each([
    ['snake_case', { hits_addend: 3 }],
    ['lowerCamelCase', { hitsAddend: 3 }],
    ['numbers as text', { hitsAddend: '3' }],
    ['integers with a decimal point', { hitsAddend: 3.0 }],
  ])('POST /json accepts %s', async (_, hits) => {
    const { json } = await post({ ...shop(entries('ten', name())), ...hits });
    expect(json.statuses[0].limitRemaining).toBe(7);
  });

  test.each([
    ['a number', 0],
    ['text', '0'],
  ])('POST /json accepts hits of a descriptor as %s', async (_, hits) => {
    const user = name();
    const peek = shop({ ...entries('ten', user), hitsAddend: hits });
    expect((await post(peek)).json.statuses[0].limitRemaining).toBe(10);
    expect((await post(peek)).json.statuses[0].limitRemaining).toBe(10);
    const largest = shop({ ...entries('ten', user), hits_addend: '18446744073709551615' });
    expect((await post(largest)).status).toBe(429);
  });

  test.each([[{ requests_per_unit: 1, unit: 'HOUR' }], [{ requestsPerUnit: '1', unit: 3 }]])(
    'POST /json accepts the limit %j in a descriptor',
    async (limit) => {
      const { json } = await post(shop({ ...entries('x', name()), limit }));
      expect(json.statuses[0].currentLimit).toEqual({ requestsPerUnit: 1, unit: 'HOUR' });
    },
  );

  test('POST /json accepts null for a missing field', async () => {
    const descriptor = { ...entries('ten', 'x'), hits_addend: null, limit: null };
    const { status } = await post({ ...shop(descriptor), hitsAddend: null });
    expect(status).toBe(200);
  });

  test('POST /json writes enums by name and omits empty fields', async () => {
    const { json } = await post(
      shop(entries('ten', name()), entries('odd', name()), entries('free', 'x')),
    );
    expect(json.statuses.map((each: { currentLimit: object }) => each.currentLimit)).toEqual([
      { requestsPerUnit: 10, unit: 'DAY', name: 'daily' },
      { requestsPerUnit: 3 },
      undefined,
    ]);
    expect(json.statuses[2]).toEqual({ code: 'OK', limitRemaining: 4_294_967_295 });
    const never = await post(shop(entries('never', 'x')));
    const limit = { currentLimit: { unit: 'MINUTE' }, durationUntilReset: '60s' };
    expect(never.json.statuses).toEqual([{ code: 'OVER_LIMIT', ...limit }]);
    expect(never.json.responseHeadersToAdd).toHaveLength(2);
  });

  test('POST /json returns the metadata of allowed descriptors', async () => {
    const request = shop(entries('annotated', name()));
    expect((await post(request)).json.dynamicMetadata).toEqual({
      domain: 'shop',
      metadata: { zones: ['a', null, 1.5], deep: { yes: true } },
    });
    expect((await post(request)).json).not.toHaveProperty('dynamicMetadata');
  });
});

describe('validation of POST /json', () => {
  const two = entries('two', 'x');
  const limited = (limit: object) => shop({ ...two, limit });

  test.each([
    ['a body that is not an object', [], '', 'Expected the body to be an object'],
    ['a body without a domain', { descriptors: [two] }, undefined, 'Expected a domain, got none'],
    ['an empty domain', { domain: '', descriptors: [two] }, undefined, 'Expected a domain'],
    [
      'a body without descriptors',
      { domain: 'shop' },
      undefined,
      'Expected at least one descriptor',
    ],
    ['an unknown field', { ...shop(two), hits: 1 }, '/hits', 'to have only domain, descriptors'],
    ['a field in mixed spelling', { ...shop(two), hits_Addend: 1 }, '/hits_Addend', 'to have only'],
    ['a field named __proto__', JSON.parse('{"__proto__": 1}'), '/__proto__', 'to have only'],
    [
      'a field in both spellings',
      { ...shop(two), hitsAddend: 1, hits_addend: 1 },
      '/hits_addend',
      'to have `hitsAddend` once',
    ],
    [
      'a domain that is not a string',
      { domain: 7, descriptors: [two] },
      '/domain',
      'Expected text',
    ],
    [
      'descriptors that are not a list',
      { domain: 'a', descriptors: {} },
      '/descriptors',
      'an array',
    ],
    [
      'a descriptor that is not an object',
      shop([]),
      '/descriptors/0',
      'a descriptor to be an object',
    ],
    [
      'an entry that is not an object',
      shop({ entries: ['a'] }),
      '/descriptors/0/entries/0',
      'an entry',
    ],
    [
      'a value that is not a string',
      shop({ entries: [{ key: 'two', value: 1 }] }),
      '/descriptors/0/entries/0/value',
      'Expected text',
    ],
    ['negative hits', { ...shop(two), hitsAddend: -1 }, '/hitsAddend', 'an integer from 0'],
    ['fractional hits', { ...shop(two), hitsAddend: 1.5 }, '/hitsAddend', 'an integer from 0'],
    ['hits above 32 bits', { ...shop(two), hitsAddend: 2 ** 32 }, '/hitsAddend', '4294967295'],
    [
      'hits that are not a number',
      { ...shop(two), hitsAddend: 'one' },
      '/hitsAddend',
      'an integer from 0',
    ],
    ['an unknown unit', limited({ unit: 'DECADE' }), '/descriptors/0/limit/unit', 'MINUTE'],
    ['a limit without a unit', limited({ requestsPerUnit: 1 }), undefined, 'SECOND to YEAR'],
    [
      'negative hits by a flag',
      shop({ ...two, isNegativeHits: true }),
      undefined,
      'is_negative_hits',
    ],
    [
      'too many descriptors',
      shop(...Array.from({ length: 257 }, () => two)),
      '/descriptors',
      'at most 256',
    ],
  ])('POST /json rejects %s', async (_, body, pointer, message) => {
    const { status, headers, json } = await post(body);
    expect(status).toBe(400);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(json.code).toBe(pointer === undefined ? 'ERR_INVALID_CHECK' : 'ERR_INVALID_BODY');
    expect(json.pointer).toBe(pointer);
    expect(json.detail).toContain(message);
  });

  test('POST /json rejects invalid JSON, large bodies and other methods', async () => {
    const { url } = served.running;
    const broken = await fetch(`${url}/json`, { method: 'POST', body: '{' });
    expect(broken.status).toBe(400);
    const large = await post(shop(entries('two', 'x'.repeat(2 ** 20))));
    expect(large.status).toBe(413);
    expect((await served.running.get('/json')).status).toBe(405);
  });

  test('POST /json charges nothing for a rejected request', async () => {
    const user = name();
    const bad = { domain: 'shop', descriptors: [entries('ten', user), { entries: [{ k: 1 }] }] };
    expect((await post(bad)).status).toBe(400);
    const { json } = await post(shop(entries('ten', user)));
    expect(json.statuses[0].limitRemaining).toBe(9);
  });
});
