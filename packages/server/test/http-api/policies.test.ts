import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { ConfigError } from '../../src/config/model.ts';
import { makeLog } from '../../src/observe/log.ts';
import { watchConfig } from '../../src/reload/watch-config.ts';
import { configOf, policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

describe('GET /v1/policies', () => {
  let api: DocumentedApi;
  beforeAll(async () => {
    const policies = [
      policy('plain', 100, '1m'),
      policy('buckets', 100, '1m', { algorithm: 'sliding-buckets', buckets: 30, shadow: true }),
      policy('bucket', 10, '1s', { algorithm: 'token-bucket', burst: 40, onFailure: 'deny' }),
      policy('priced', 1000, '1d', { costs: { list: 1, search: 100 } }),
    ];
    const overrides = [
      { policy: 'plain', key: 'a', limit: 5 },
      { policy: 'plain', key: 'b*', limit: 6 },
    ];
    api = await DocumentedApi.of(await startRunning({ config: { policies, overrides } }));
  });
  afterAll(() => api.close());

  test('GET /v1/policies lists all current policies', async () => {
    const { status, json } = await api.get('/v1/policies');
    expect(status).toBe(200);
    const common = { costs: {}, shadow: false, shadowBy: 'file', overrides: 0 };
    const base = { ...common, windowMs: 60_000, limit: 100 };
    expect(json.policies).toEqual([
      { ...base, name: 'plain', algorithm: 'sliding-log', overrides: 2 },
      { ...base, name: 'buckets', algorithm: 'sliding-buckets', buckets: 30, shadow: true },
      {
        ...{ ...base, name: 'bucket', algorithm: 'token-bucket', burst: 40, onFailure: 'deny' },
        ...{ limit: 10, windowMs: 1000 },
      },
      {
        ...{ ...base, name: 'priced', algorithm: 'sliding-log', limit: 1000 },
        ...{ windowMs: 86_400_000, costs: { list: 1, search: 100 } },
      },
    ]);
  });

  test('GET /v1/policies/:policy returns a policy by name', async () => {
    const { json } = await api.get('/v1/policies/plain');
    expect(json).toMatchObject({ name: 'plain', overrides: 2 });
    const none = await api.get('/v1/policies/__proto__');
    expect([none.status, none.json.code]).toEqual([404, 'ERR_UNKNOWN_POLICY']);
  });

  test('HEAD /v1/policies responds without a body', async () => {
    const { status, text, headers } = await api.running.request('HEAD', '/v1/policies');
    expect([status, text]).toEqual([200, '']);
    expect(Number(headers.get('content-length'))).toBeGreaterThan(100);
  });
});

describe('POST /v1/reload', () => {
  test('POST /v1/reload applies valid files and reports the problems of others', async () => {
    let problem = '';
    const lines: string[] = [];
    const log = makeLog({ logLevel: 'info' }, { write: (line) => lines.push(line) });
    const load = async () => {
      if (problem === '') return configOf({ policies: [policy('second', 1, '1m')] });
      throw new ConfigError([{ file: 'sluice.yaml', line: 3, column: 7, message: problem }]);
    };
    const config = { policies: [policy('first', 1, '1m')] };
    const api = await DocumentedApi.of(await startRunning({ config, load, log }));
    const names = async () =>
      (await api.get('/v1/policies')).json.policies.map(({ name }: { name: string }) => name);

    problem = 'Expected `limit` to be an integer, got `"many"`';
    const rejected = await api.post('/v1/reload');
    expect([rejected.status, rejected.json.code]).toEqual([422, 'ERR_CONFIG']);
    expect(rejected.json.problems).toEqual([
      { file: 'sluice.yaml', line: 3, column: 7, message: problem },
    ]);
    expect(await names()).toEqual(['first']);

    problem = '';
    const accepted = await api.post('/v1/reload');
    expect([accepted.status, accepted.json]).toEqual([200, { ok: true, changed: true }]);
    expect(await names()).toEqual(['second']);
    await api.close();
    const audits = lines.map((line) => JSON.parse(line).audit).filter(Boolean);
    const caller = { by: '127.0.0.1', as: 'loopback' };
    expect(audits).toEqual([
      { action: 'reload', after: { ok: false, changed: true, problems: 1 }, ...caller },
      { action: 'reload', after: { ok: true, changed: true, problems: 0 }, ...caller },
    ]);
  });

  test('the file watch does not repeat a reload by POST /v1/reload', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-reload-'));
    const path = join(folder, 'sluice.yaml');
    writeFileSync(path, 'policies: { few: 5/1h }');
    const load = () => loadConfig([path]);
    const running = await startRunning({ config: await load(), load });
    const { configuration } = running.service.app;
    const watch = await watchConfig(running.service.app, [path]);
    for (const text of ['policies: { few: 6/1h }', 'policies: [']) {
      writeFileSync(path, text);
      await running.post('/v1/reload', undefined);
      await watch.check();
    }
    expect(configuration.reloads).toEqual({ ok: 1, failed: 1 });
    watch.stop();
    await running.close();
    rmSync(folder, { recursive: true });
  });
});
