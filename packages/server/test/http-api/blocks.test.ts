import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { makeLog } from '../../src/observe/log.ts';
import { policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

const lines: string[] = [];
const log = makeLog({ logLevel: 'info' }, { write: (line) => lines.push(line) });
const audits = () => lines.map((line) => JSON.parse(line).audit).filter(Boolean);

let api: DocumentedApi;
beforeAll(async () => {
  const policies = [policy('logins', 1, '1m', { block: '15m' }), policy('log', 5, '1m')];
  api = await DocumentedApi.of(await startRunning({ config: { policies }, log }));
});
afterAll(() => api.close());
beforeEach(() => {
  lines.length = 0;
});

const check = async (key: string) => (await api.post('/v1/check', { policy: 'logins', key })).json;
const MINUTE_MS = 60_000;

describe('blocks of the HTTP API', () => {
  test('a denied check returns the end of the block that it starts', async () => {
    await check('denied');
    const denied = await check('denied');
    expect(denied).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 15 * MINUTE_MS });
    expect(denied.blockedUntilMs).toBe(denied.atMs + 15 * MINUTE_MS);
    expect(denied.limits[0].blockedUntilMs).toBe(denied.blockedUntilMs);
    const { json } = await api.get('/v1/keys/logins/denied');
    expect(json).toMatchObject({ blockedUntilMs: denied.blockedUntilMs, blocks: 1 });
  });

  test('a denied check of several limits returns the block of the limit that denied', async () => {
    await check('joint');
    const limits = ['logins', 'log'].map((name) => ({ policy: name, key: 'joint' }));
    const { json } = await api.post('/v1/check', { limits });
    expect(json.limits.map(({ blockedUntilMs }: never) => blockedUntilMs)).toEqual([
      json.blockedUntilMs,
      undefined,
    ]);
  });

  test('POST /v1/blocks blocks a key, and DELETE ends the block', async () => {
    const { status, json } = await api.post('/v1/blocks', {
      ...{ policy: 'logins', key: 'eve', duration: '1h' },
    });
    expect(status).toBe(200);
    expect(json).toMatchObject({ policy: 'logins', key: 'eve', blocked: true });
    const denied = await check('eve');
    expect(denied.blockedUntilMs).toBe(json.blockedUntilMs);
    const ended = await api.request('DELETE', '/v1/blocks?policy=logins&key=eve');
    expect(ended.json).toEqual({ policy: 'logins', key: 'eve', blocked: false });
    expect((await check('eve')).allowed).toBe(true);
  });

  test('POST /v1/blocks accepts a duration in milliseconds and a key of parts', async () => {
    const body = { policy: 'logins', key: ['user', 7], duration: 5000 };
    expect((await api.post('/v1/blocks', body)).json.key).toBe('user:7');
    const { retryAfterMs } = await check('user:7');
    expect(retryAfterMs).toBeGreaterThan(4000);
    expect(retryAfterMs).toBeLessThanOrEqual(5000);
  });

  test('blocks are in the audit log with the values before and after', async () => {
    const { json } = await api.post('/v1/blocks', {
      ...{ policy: 'logins', key: 'audited', duration: '1m' },
    });
    await api.request('DELETE', '/v1/blocks?policy=logins&key=audited');
    const { blockedUntilMs } = json;
    expect(audits()).toMatchObject([
      {
        ...{ action: 'block', policy: 'logins', key: 'audited' },
        ...{ before: null, after: { forMs: MINUTE_MS } },
      },
      {
        ...{ action: 'unblock', policy: 'logins', key: 'audited' },
        ...{ before: { blockedUntilMs }, after: null },
      },
    ]);
  });

  test.each([
    [{ policy: 'log', key: 'a', duration: '1m' }, 'ERR_INVALID_BLOCK', undefined],
    [{ policy: 'none', key: 'a', duration: '1m' }, 'ERR_UNKNOWN_POLICY', undefined],
    [{ policy: 'logins', key: '', duration: '1m' }, 'ERR_INVALID_KEY', '/key'],
    [{ policy: 'logins', key: 'a', duration: 'soon' }, 'ERR_INVALID_BLOCK', '/duration'],
    [{ policy: 'logins', key: 'a', duration: 0 }, 'ERR_INVALID_BLOCK', '/duration'],
    [{ policy: 'logins', key: 'a' }, 'ERR_INVALID_BLOCK', '/duration'],
    [{ policy: 'logins', key: 'a', for: '1m' }, 'ERR_INVALID_BODY', '/for'],
  ])('POST /v1/blocks rejects %j with %s', async (body, code, pointer) => {
    const { status, json } = await api.post('/v1/blocks', body);
    expect([status, json.code, json.pointer]).toEqual([400, code, pointer]);
    expect(audits()).toEqual([]);
  });

  test('POST /v1/blocks names the missing option of a policy without a block', async () => {
    const body = { policy: 'log', key: 'a', duration: '1m' };
    const { json } = await api.post('/v1/blocks', body);
    expect(json.detail).toBe('Expected policy `log` to have the option `block`, got nothing');
  });

  test('DELETE /v1/blocks responds 404 for an unknown policy', async () => {
    const { status, json } = await api.request('DELETE', '/v1/blocks?policy=none&key=a');
    expect([status, json.code]).toEqual([404, 'ERR_UNKNOWN_POLICY']);
  });
});

test('release, renew and blocks require the admin token', async () => {
  const running = await startRunning({ settings: { adminToken: 'correct-horse-battery' } });
  const responses = await Promise.all([
    ...['/v1/release', '/v1/renew', '/v1/blocks'].map((path) => running.post(path, {})),
    running.request('DELETE', '/v1/blocks?policy=a&key=b'),
  ]);
  expect(responses.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
  await running.close();
});
