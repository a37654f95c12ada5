import { memoryStore } from 'sluice';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startRedis } from '../../../../tools/servers/redis.mjs';
import { makeLog } from '../../src/observe/log.ts';
import { policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

const policies = [
  policy('log', 5, '1m'),
  policy('bucket', 5, '1m', { algorithm: 'token-bucket', burst: 9 }),
];
const lines: string[] = [];
const log = makeLog({ logLevel: 'info' }, { write: (line) => lines.push(line) });
const audits = () =>
  lines.map((line) => JSON.parse(line).audit).filter((audit) => audit !== undefined);

describe.each(['memory', 'redis'])('keys in %s', (kind) => {
  let api: DocumentedApi;
  let stop = async (): Promise<void> => {};
  beforeAll(async () => {
    let store = 'memory';
    if (kind === 'redis') {
      const redis = await startRedis();
      store = redis.url;
      stop = () => redis.stop();
    }
    const settings = { store, deadlineMs: '5s', onFailure: 'throw' };
    const overrides = [{ policy: 'log', key: 'vip:*', limit: 50, reason: 'they pay' }];
    api = await DocumentedApi.of(
      await startRunning({ config: { policies, overrides }, settings, log }),
    );
  });
  afterAll(async () => {
    await api.close();
    await stop();
  });
  beforeEach(() => {
    lines.length = 0;
  });

  const check = (key: string, cost: number) => api.post('/v1/check', { policy: 'log', key, cost });

  test('GET /v1/keys returns the state and the entries of a key', async () => {
    const { json: decision } = await check('held', 3);
    const { status, json } = await api.get('/v1/keys/log/held');
    expect(status).toBe(200);
    expect(json).toMatchObject({
      ...{ policy: 'log', key: 'held', held: true, algorithm: 'sliding-log' },
      ...{ limit: 5, windowMs: 60_000, used: 3, remaining: 2, entryCount: 1 },
      entries: [{ atMs: decision.atMs, cost: 3 }],
    });
    expect(json.resetAfterMs).toBeGreaterThan(0);
    expect(json.override).toBeUndefined();
  });

  test('GET /v1/keys returns the wait for a cost at the time of the state', async () => {
    await check('waits', 4);
    const { json: free } = await api.get('/v1/keys/log/waits?cost=1');
    expect(free).toMatchObject({ nextMs: 0, nextForCostMs: 0 });
    const { json } = await api.get('/v1/keys?policy=log&key=waits&cost=2');
    expect(json.nextMs).toBe(0);
    expect(json.nextForCostMs).toBe(json.resetAfterMs);
    expect(json.atMs + json.nextForCostMs).toBe(json.entries[0].atMs + 60_000);
    const { json: never } = await api.get('/v1/keys/log/waits?cost=6');
    expect('nextForCostMs' in never).toBe(false);
    for (const cost of ['0', '-1', '1.5', 'x', '']) {
      const { status, json: problem } = await api.get(`/v1/keys/log/waits?cost=${cost}`);
      expect([status, problem.code]).toEqual([400, 'ERR_INVALID_COST']);
    }
  });

  test('GET /v1/keys returns a key without entries as unused', async () => {
    const { status, json } = await api.get('/v1/keys/bucket/unused');
    expect(status).toBe(200);
    expect(json).toEqual({
      ...{ policy: 'bucket', key: 'unused', held: false, algorithm: 'token-bucket' },
      ...{ limit: 9, windowMs: 60_000, used: 0, remaining: 9, resetAfterMs: 0 },
      ...{ cells: [], entries: [], entryCount: 0, atMs: expect.any(Number), nextMs: 0 },
    });
  });

  test('GET /v1/keys returns the time and the wait for a call of cost 1', async () => {
    const { json: decision } = await check('waiting', 4);
    const first = (await api.get('/v1/keys/log/waiting')).json;
    expect([first.nextMs, first.remaining]).toEqual([0, 1]);
    expect(first.atMs).toBeGreaterThanOrEqual(decision.atMs);
    await check('waiting', 1);
    const { json } = await api.get('/v1/keys/log/waiting');
    expect(json.remaining).toBe(0);
    // The oldest entry expires after the window.
    expect(json.atMs + json.nextMs).toBe(decision.atMs + 60_000);
    // Inspecting a key charges nothing.
    expect(json.used).toBe(5);
  });

  test('GET /v1/keys returns the override of a key', async () => {
    await check('vip:ada', 20);
    const { json } = await api.get('/v1/keys/log/vip%3Aada');
    expect(json).toMatchObject({
      ...{ held: true, limit: 50, used: 20, remaining: 30 },
      override: { key: 'vip:*', limit: 50, reason: 'they pay', source: 'file' },
    });
  });

  test.each(['a/b', 'ü😀', '%', '?#', ' ', '*', "__proto__'", '\0'])(
    'GET /v1/keys finds the key %j by its path',
    async (key) => {
      await check(key, 4);
      const { json } = await api.get(`/v1/keys/log/${encodeURIComponent(key)}`);
      expect([json.key, json.used]).toEqual([key, 4]);
    },
  );

  test('GET /v1/keys finds any key by the query', async () => {
    for (const key of ['.', '..', 'a/../b', '%2F', '&key=x', '+', '<b>', 'x'.repeat(1024)]) {
      await check(key, 4);
      const { json } = await api.get(`/v1/keys?${new URLSearchParams({ policy: 'log', key })}`);
      expect([json.key, json.used, json.held]).toEqual([key, 4, true]);
    }
  });

  test('a key is reset by path or body, with an audit line', async () => {
    await check('first', 5);
    const byPath = await api.delete('/v1/keys/log/first');
    expect([byPath.status, byPath.json]).toEqual([
      200,
      { policy: 'log', key: 'first', reset: true },
    ]);
    expect((await check('first', 5)).json.allowed).toBe(true);
    await check('user:7', 4);
    const byBody = await api.post('/v1/reset', { policy: 'log', key: ['user', 7] });
    expect(byBody.json).toEqual({ policy: 'log', key: 'user:7', reset: true });
    expect((await api.get('/v1/keys/log/user:7')).json.held).toBe(false);
    const caller = { by: '127.0.0.1', as: 'loopback' };
    const full = { used: 5, remaining: 0 };
    expect(audits()).toEqual([
      { action: 'reset', policy: 'log', key: 'first', before: full, after: null, ...caller },
      {
        ...{ action: 'reset', policy: 'log', key: 'user:7', after: null, ...caller },
        before: { used: 4, remaining: 1 },
      },
    ]);
  });

  test('a key without entries can be reset', async () => {
    expect((await api.delete('/v1/keys/log/ghost')).status).toBe(200);
    expect(audits()).toMatchObject([{ key: 'ghost', before: null }]);
  });

  test('invalid keys are rejected without an audit line', async () => {
    const wrong: readonly [string, string, unknown, number, string][] = [
      ['GET', '/v1/keys/none/a', undefined, 404, 'ERR_UNKNOWN_POLICY'],
      ['DELETE', '/v1/keys/none/a', undefined, 404, 'ERR_UNKNOWN_POLICY'],
      ['GET', `/v1/keys/log/${'x'.repeat(1025)}`, undefined, 400, 'ERR_INVALID_KEY'],
      ['DELETE', `/v1/keys/log/${'x'.repeat(1025)}`, undefined, 400, 'ERR_INVALID_KEY'],
      ['GET', '/v1/keys/log/%ff', undefined, 400, 'ERR_INVALID_BODY'],
      ['GET', '/v1/keys/log/%', undefined, 400, 'ERR_INVALID_BODY'],
      ['GET', '/v1/keys/log/%ed%a0%80', undefined, 400, 'ERR_INVALID_BODY'],
      ['GET', '/v1/keys/log/a?b', undefined, 400, 'ERR_INVALID_OPTION'],
      ['GET', '/v1/keys?policy=log', undefined, 400, 'ERR_INVALID_OPTION'],
      ['GET', '/v1/keys?key=a', undefined, 400, 'ERR_INVALID_OPTION'],
      ['GET', '/v1/keys', undefined, 400, 'ERR_INVALID_OPTION'],
      ['GET', '/v1/keys?policy=log&key=a&all', undefined, 400, 'ERR_INVALID_OPTION'],
      ['GET', '/v1/keys?policy=log&key=', undefined, 400, 'ERR_INVALID_KEY'],
      ['GET', '/v1/keys?policy=none&key=a', undefined, 404, 'ERR_UNKNOWN_POLICY'],
      ['POST', '/v1/reset', { policy: 'none', key: 'a' }, 400, 'ERR_UNKNOWN_POLICY'],
      ['POST', '/v1/reset', { policy: 'log' }, 400, 'ERR_INVALID_KEY'],
      ['POST', '/v1/reset', { policy: 'log', key: [[]] }, 400, 'ERR_INVALID_KEY'],
      ['POST', '/v1/reset', { policy: 'log', key: '\ud800' }, 400, 'ERR_INVALID_KEY'],
      ['POST', '/v1/reset', { policy: 7, key: 'a' }, 400, 'ERR_UNKNOWN_POLICY'],
      ['POST', '/v1/reset', { policy: 'log', key: 'a', all: 1 }, 400, 'ERR_INVALID_BODY'],
      ['POST', '/v1/reset', [], 400, 'ERR_INVALID_BODY'],
      ['POST', '/v1/reset', undefined, 400, 'ERR_INVALID_BODY'],
    ];
    for (const [method, path, body, status, code] of wrong) {
      const response = await api.request(method, path, body);
      expect([path, response.status, response.json.code]).toEqual([path, status, code]);
    }
    expect((await api.running.get('/v1/keys/log/')).status).toBe(400);
    expect(audits()).toEqual([]);
  });
});

test('GET /v1/keys lists the newest 1,000 entries of a log', async () => {
  const config = { policies: [policy('long', 5000, '1h')] };
  const api = await DocumentedApi.of(await startRunning({ config }));
  let atMs = 0;
  for (let call = 0; call < 1100; ) {
    // Admissions in the same millisecond are one entry.
    const { json } = await api.running.post('/v1/check', { policy: 'long', key: 'a' });
    if (json.atMs > atMs) call++;
    atMs = json.atMs;
  }
  const { json } = await api.get('/v1/keys/long/a');
  await api.close();
  expect(json.entryCount).toBe(1100);
  expect(json.entries).toHaveLength(1000);
  expect(json.entries.at(-1).atMs).toBe(atMs);
});

test('GET /v1/keys counts all entries of a log, not only the listed ones', async () => {
  const entries = Array.from({ length: 1000 }, (_, at) => ({
    atMs: 1_763_200_000_000 + at,
    cost: 1,
  }));
  const store = Object.assign(memoryStore(), {
    inspectSync: () => ({
      ...{ policy: 'log', algorithm: 'sliding-log', used: 100_000, remaining: 0 },
      ...{ resetAfterMs: 1000, cells: [0, 0, 0], entries, entryCount: 100_000 },
    }),
  });
  const opened = { store, kind: 'memory', close: async () => {} } as const;
  const api = await DocumentedApi.of(await startRunning({ config: { policies }, store: opened }));
  const { json } = await api.get('/v1/keys/log/a');
  await api.close();
  expect([json.used, json.entryCount, json.entries.length]).toEqual([100_000, 100_000, 1000]);
});
