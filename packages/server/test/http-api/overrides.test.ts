import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startRedis } from '../../../../tools/servers/redis.mjs';
import { makeLog } from '../../src/observe/log.ts';
import { MAX_OVERRIDES, type OverrideChange, Overrides } from '../../src/overrides.ts';
import { matchesWildcard } from '../../src/wildcard.ts';
import { configOf, policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

const policies = [policy('few', 2, '1m'), policy('long', 2, '36500d')];
const overrides = [{ policy: 'few', key: 'filed', limit: 7, reason: 'as agreed' }];
const lines: string[] = [];
const log = makeLog({ logLevel: 'info' }, { write: (line) => lines.push(line) });
const audits = () => lines.map((line) => JSON.parse(line).audit).filter(Boolean);

describe('/v1/overrides', () => {
  let api: DocumentedApi;
  let config = configOf({ policies, overrides });
  beforeEach(async () => {
    lines.length = 0;
    config = configOf({ policies, overrides });
    api = await DocumentedApi.of(await startRunning({ config, load: async () => config, log }));
  });
  afterEach(() => api.close());

  const limitOf = async (key: string): Promise<number> =>
    (await api.post('/v1/peek', { policy: 'few', key })).json.limit;

  test('a raised or lowered override applies from the next decision on', async () => {
    const check = async () => (await api.post('/v1/check', { policy: 'few', key: 'ada' })).json;
    await check();
    await check();
    expect((await check()).allowed).toBe(false);
    const { status, json } = await api.put('/v1/overrides/few/ada', { limit: 4 });
    expect([status, json]).toEqual([
      200,
      { override: { policy: 'few', key: 'ada', limit: 4, source: 'api' }, persisted: false },
    ]);
    expect(await check()).toMatchObject({ allowed: true, limit: 4, remaining: 1 });
    await api.put('/v1/overrides/few/ada', { limit: 1 });
    expect(await check()).toMatchObject({ allowed: false, limit: 1, remaining: 0 });
    await api.delete('/v1/overrides/few/ada');
    expect(await limitOf('ada')).toBe(2);
    expect(await limitOf('bob')).toBe(2);
  });

  test('overrides are set by path or body, and listed', async () => {
    await api.put(`/v1/overrides/few/${encodeURIComponent('a/b')}`, { limit: 3, reason: 'why' });
    await api.post('/v1/overrides', { policy: 'long', key: 'vip:*', limit: 9 });
    const { json } = await api.get('/v1/overrides');
    expect(json.overrides).toEqual([
      {
        ...{ policy: 'few', key: 'a/b', limit: 3, reason: 'why', source: 'api' },
        persisted: false,
      },
      { ...overrides[0], source: 'file', persisted: true },
      { policy: 'long', key: 'vip:*', limit: 9, source: 'api', persisted: false },
    ]);
    const ofLong = await api.get('/v1/overrides?policy=long');
    expect(ofLong.json.overrides).toHaveLength(1);
    expect((await api.get('/v1/overrides?policy=none')).json.overrides).toEqual([]);
  });

  test('overrides of keys that cannot be in a path are deleted by the query', async () => {
    await api.post('/v1/overrides', { policy: 'few', key: '..', limit: 3 });
    expect(await limitOf('..')).toBe(3);
    const { status, json } = await api.delete('/v1/overrides?policy=few&key=..');
    expect([status, json.deleted.key]).toEqual([200, '..']);
    expect(await limitOf('..')).toBe(2);
    const again = await api.delete('/v1/overrides?policy=few&key=..');
    expect([again.status, again.json.code]).toEqual([404, 'ERR_NOT_FOUND']);
    const half = await api.delete('/v1/overrides?policy=few');
    expect([half.status, half.json.code]).toEqual([400, 'ERR_INVALID_OPTION']);
  });

  test('an override of the API hides that of the files until it is deleted', async () => {
    const hidden = await api.put('/v1/overrides/few/filed', { limit: 3 });
    expect(hidden.json.before).toEqual({ ...overrides[0], source: 'file' });
    expect(await limitOf('filed')).toBe(3);
    const { json } = await api.delete('/v1/overrides/few/filed');
    expect(json.now).toEqual({ ...overrides[0], source: 'file' });
    expect(await limitOf('filed')).toBe(7);
  });

  test('overrides of the files cannot be deleted', async () => {
    const { status, json } = await api.delete('/v1/overrides/few/filed');
    expect([status, json.code]).toEqual([409, 'ERR_CONFLICT']);
    expect(await limitOf('filed')).toBe(7);
    const none = await api.delete('/v1/overrides/few/unknown');
    expect([none.status, none.json.code]).toEqual([404, 'ERR_NOT_FOUND']);
  });

  test('an expired override no longer applies and is not listed', async () => {
    const { json } = await api.put('/v1/overrides/few/brief', { limit: 9, expiresInMs: 400 });
    expect(json.override.expiresAtMs).toBeGreaterThan(0);
    expect(await limitOf('brief')).toBe(9);
    while ((await api.get('/v1/overrides?policy=few')).json.overrides.length > 1);
    expect(await limitOf('brief')).toBe(2);
    expect((await api.delete('/v1/overrides/few/brief')).status).toBe(404);
  });

  test('the expiry of an override is a date string or a number', async () => {
    const atMs = Date.parse('2090-01-31T12:00:00Z');
    for (const expiresAt of [atMs, '2090-01-31T12:00:00Z', '2090-01-31T13:00:00.000+01:00']) {
      const { json } = await api.put('/v1/overrides/few/a', { limit: 3, expiresAt });
      expect(json.override.expiresAtMs).toBe(atMs);
    }
  });

  test('overrides survive a reload, and apply only while their policy exists', async () => {
    await api.put('/v1/overrides/few/ada', { limit: 5 });
    await api.put('/v1/overrides/long/ada', { limit: 5 });
    config = configOf({ policies: [policy('few', 3, '1m')] });
    expect((await api.post('/v1/reload')).status).toBe(200);
    expect(await limitOf('ada')).toBe(5);
    expect(await limitOf('filed')).toBe(3);
    const rejected = await api.put('/v1/overrides/long/ada', { limit: 6 });
    expect([rejected.status, rejected.json.code]).toEqual([400, 'ERR_UNKNOWN_POLICY']);
    expect((await api.delete('/v1/overrides/long/ada')).status).toBe(200);
  });

  test('the limit of an override is reduced to stay exact when the window grows', async () => {
    await api.put('/v1/overrides/few/ada', { limit: 2 ** 31 - 1 });
    config = configOf({ policies: [policy('few', 2, '36500d')] });
    await api.post('/v1/reload');
    const limit = await limitOf('ada');
    expect(limit * 36_500 * 86_400_000).toBeLessThanOrEqual(Number.MAX_SAFE_INTEGER);
    expect(limit).toBeGreaterThan(2);
  });

  test('audit lines of overrides contain the change, the old value and the caller', async () => {
    const caller = { by: '127.0.0.1', as: 'loopback' };
    await api.put('/v1/overrides/few/ada', { limit: 3 });
    await api.post('/v1/overrides', { policy: 'few', key: 'ada', limit: 4, reason: 'more' });
    await api.delete('/v1/overrides/few/ada');
    const ada = { policy: 'few', key: 'ada' };
    expect(audits()).toEqual([
      { action: 'override.set', ...ada, before: null, after: { ...ada, limit: 3 }, ...caller },
      {
        ...{ action: 'override.set', ...ada, ...caller },
        before: { ...ada, limit: 3, source: 'api' },
        after: { ...ada, limit: 4, reason: 'more' },
      },
      {
        ...{ action: 'override.delete', ...ada, ...caller },
        before: { ...ada, limit: 4, reason: 'more', source: 'api' },
        after: null,
      },
    ]);
  });

  test('invalid overrides are rejected without a change', async () => {
    const wrong: readonly [string, unknown][] = [
      ['ERR_INVALID_LIMIT', {}],
      ...[0, -1, 1.5, '5', null, 2 ** 31, 1e308].map((limit): [string, unknown] => [
        ...(['ERR_INVALID_LIMIT', { limit }] as const),
      ]),
      ['ERR_INVALID_OPTION', { limit: 3, expiresAt: 0 }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresAt: '2001-01-01T00:00:00Z' }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresAt: 'tomorrow' }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresAt: '2090-02-31T00:00:00Z' }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresAt: -1 }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresInMs: 0 }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresInMs: 1.5 }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresInMs: Number.MAX_SAFE_INTEGER }],
      ['ERR_INVALID_OPTION', { limit: 3, expiresInMs: 5, expiresAt: '2090-01-01T00:00:00Z' }],
      ['ERR_INVALID_OPTION', { limit: 3, reason: 'x'.repeat(501) }],
      ['ERR_INVALID_OPTION', { limit: 3, reason: 5 }],
      ['ERR_INVALID_BODY', { limit: 3, source: 'file' }],
      ['ERR_INVALID_BODY', { limit: 3, policy: 'long' }],
      ['ERR_INVALID_BODY', []],
      ['ERR_INVALID_BODY', undefined],
    ];
    for (const [code, body] of wrong) {
      const { status, json } = await api.put('/v1/overrides/few/ada', body);
      expect([body, status, json.code]).toEqual([body, 400, code]);
    }
    const tooMuch = await api.put('/v1/overrides/long/ada', { limit: 1_000_000 });
    expect([tooMuch.status, tooMuch.json.code]).toEqual([400, 'ERR_LIMIT_TOO_LARGE']);
    const names: readonly [string, unknown, unknown][] = [
      ['ERR_UNKNOWN_POLICY', 'none', 'a'],
      ['ERR_UNKNOWN_POLICY', undefined, 'a'],
      ['ERR_INVALID_KEY', 'few', ''],
      ['ERR_INVALID_KEY', 'few', ['a']],
      ['ERR_INVALID_KEY', 'few', '\ud800'],
      ['ERR_INVALID_KEY', 'few', 'x'.repeat(1025)],
    ];
    for (const [code, name, key] of names) {
      const { status, json } = await api.post('/v1/overrides', { policy: name, key, limit: 3 });
      expect([key, status, json.code]).toEqual([key, 400, code]);
    }
    expect((await api.get('/v1/overrides')).json.overrides).toHaveLength(1);
    expect(audits()).toEqual([]);
  });
});

test('on Redis, an override applies to the next check despite cached denials', async () => {
  const redis = await startRedis();
  const settings = { store: redis.url, deadlineMs: '5s' };
  const api = await DocumentedApi.of(await startRunning({ config: { policies }, settings }));
  const check = async () => (await api.post('/v1/check', { policy: 'few', key: 'ada' })).json;
  for (let call = 0; call < 4; call++) await check();
  expect(await check()).toMatchObject({ allowed: false, cached: true });
  await api.put('/v1/overrides/few/ada', { limit: 3 });
  expect(await check()).toMatchObject({ allowed: true, limit: 3 });
  expect((await check()).allowed).toBe(false);
  await api.delete('/v1/overrides/few/ada');
  expect(await check()).toMatchObject({ allowed: false, limit: 2 });
  await api.close();
  await redis.stop();
});

describe('Overrides', () => {
  const overrideOf = (key: string, limit: number, more = {}) => ({
    policy: 'p',
    key,
    limit,
    ...more,
  });

  test('an override of an exact key has precedence, then one of the most specific pattern', () => {
    const all = new Overrides();
    all.useFile([overrideOf('a*', 1), overrideOf('*', 2), overrideOf('ab*', 3)]);
    all.set(overrideOf('*c', 4));
    all.set(overrideOf('abc', 5));
    expect(['abc', 'abd', 'ac', 'bc', 'b'].map((key) => all.limitFor('p', key))).toEqual([
      ...[5, 3, 4, 4, 2],
    ]);
    all.delete('p', 'abc');
    expect(all.limitFor('p', 'abc')).toBe(3);
    expect(all.limitFor('other', 'abc')).toBeUndefined();
  });

  test('listeners receive local and remote changes of overrides', () => {
    const all = new Overrides();
    const changes: OverrideChange[] = [];
    all.onChange((change) => changes.push(change));
    all.useFile([overrideOf('a', 1)]);
    all.set(overrideOf('a', 2));
    all.set(overrideOf('b*', 3), { isRemote: true });
    all.delete('p', 'a');
    all.delete('p', 'b*', { isRemote: true });
    all.delete('p', 'unknown');
    const source = 'api';
    expect(changes).toEqual([
      { op: 'set', override: { ...overrideOf('a', 2), source }, isRemote: false },
      { op: 'set', override: { ...overrideOf('b*', 3), source }, isRemote: true },
      { op: 'delete', override: { ...overrideOf('a', 2), source }, isRemote: false },
      { op: 'delete', override: { ...overrideOf('b*', 3), source }, isRemote: true },
    ]);
    expect(all.list()).toEqual([{ ...overrideOf('a', 1), source: 'file' }]);
  });

  test('the number of overrides is bounded, and expired ones make room', () => {
    const all = new Overrides();
    for (let each = 0; each < MAX_OVERRIDES; each++) all.set(overrideOf(`k${each}`, 1));
    expect(() => all.set(overrideOf('more', 1))).toThrow(/at most 10000 overrides/);
    all.set(overrideOf('k7', 2));
    all.useFile([overrideOf('filed', 1)]);
    expect(all.list()).toHaveLength(MAX_OVERRIDES + 1);
    all.set(overrideOf('k7', 2, { expiresAtMs: 1 }));
    all.set(overrideOf('more', 1));
    expect(all.limitFor('p', 'k7')).toBeUndefined();
    expect(all.limitFor('p', 'more')).toBe(1);
  });

  test('useFile replaces all overrides of the files, or none', () => {
    const all = new Overrides();
    all.useFile([overrideOf('a', 1)]);
    expect(() => all.useFile([overrideOf('b', 2), overrideOf('c', 0)])).toThrow(
      /limit of an override/,
    );
    expect(all.list().map(({ key }) => key)).toEqual(['a']);
  });

  test.each([
    ['*', '', true],
    ['a*c', 'abc', true],
    ['a*c', 'ac', true],
    ['a*c', 'acb', false],
    ['aa*aa', 'aaa', false],
    ['*b*', 'abc', true],
    ['*b*b*', 'abc', false],
    ['a**b', 'ab', true],
    ['a.c', 'abc', false],
  ])('matchesWildcard(%j, %j) returns %j', (pattern, text, expected) => {
    expect(matchesWildcard(pattern, text)).toBe(expected);
  });

  test('an override pattern with many wildcards is matched in linear time', () => {
    const all = new Overrides();
    all.set(overrideOf(`${'a*'.repeat(500)}b`, 1));
    for (let call = 0; call < 2000; call++) {
      expect(all.limitFor('p', 'a'.repeat(1024))).toBeUndefined();
    }
  });
});
