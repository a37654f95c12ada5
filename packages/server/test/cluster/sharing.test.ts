/** Reloads and overrides apply to all workers. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { valueIn } from '../metric-value.ts';
import { policy } from '../running.ts';
import { Connection, type Reply } from './connection.ts';
import { RunningGroup } from './running-group.ts';

const soon = { timeout: 20_000, interval: 20 };

/** Enough for each worker to have at least one. */
const CONNECTIONS = 12;

const folder = mkdtempSync(join(tmpdir(), 'sluice-sharing-'));
const overridesFile = join(folder, 'overrides.json');

let group: RunningGroup;
let open: Connection[];

const configOf = (limit: number) => ({
  policies: [policy('p', limit, '1h'), policy('q', 10, '1h')],
});

const startGroup = (): Promise<RunningGroup> =>
  RunningGroup.start({ config: configOf(100_000), settings: { workers: 3, overridesFile } });

beforeAll(async () => {
  group = await startGroup();
  open = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)));
}, 60_000);
afterAll(async () => {
  for (const each of open ?? []) each.close();
  await group?.stop();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

/** Resolves to the limit that each connection gets. */
async function limits(name: string, key: string): Promise<number[]> {
  const peeks = open.map((each) => each.post('/v1/peek', [{ policy: name, key }])[0]);
  return (await Promise.all(peeks)).map(({ json }) => json.limit);
}

const all = (limit: number): number[] => Array(CONNECTIONS).fill(limit);

const put = (connection: Connection, key: string, fields: object): Promise<Reply> =>
  connection.post('/v1/overrides', [{ policy: 'q', key, ...fields }])[0];

async function metric(name: string, labels = {}): Promise<number> {
  const text = await (await fetch(`${group.url}/metrics`)).text();
  return Number(valueIn(text, name, labels));
}

describe('reloads with several workers', () => {
  test('a reload under load applies to all workers, and no request fails', {
    timeout: 60_000,
  }, async () => {
    const replies: Reply[] = [];
    let isOver = false;
    const load = open.map(async (each) => {
      while (!isOver) {
        const bodies = Array(10).fill({ policy: 'p', key: 'load' });
        replies.push(...(await Promise.all(each.post('/v1/check', bodies))));
      }
    });
    await vi.waitUntil(() => replies.length > 200, soon);
    const others = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)),
    );
    for (let limit = 100_001; limit <= 100_005; limit++) {
      expect(await group.reload(configOf(limit))).toEqual({ ok: true, problems: [] });
      const seen = await Promise.all(others.map((each) => each.check({ policy: 'p', key: 'x' })));
      expect(new Set(seen.map(({ json }) => json.limit))).toEqual(new Set([limit]));
    }
    isOver = true;
    await Promise.all(load);
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    // The counters continue.
    const used = replies.map(({ json }) => json.limit - json.remaining).sort((a, b) => a - b);
    expect(used).toEqual(Array.from({ length: replies.length }, (_, at) => at + 1));
    for (const each of others) each.close();
  });

  test('a reload of an invalid file changes no worker and is reported', async () => {
    const before = await limits('p', 'bad');
    const report = await group.reload('{ not json');
    expect(report).toMatchObject({ ok: false, problems: [{ line: 1, column: 1 }] });
    expect(await limits('p', 'bad')).toEqual(before);
    expect(await metric('sluice_config_bad')).toBe(1);
    await group.reload(configOf(77_000));
    expect(await limits('p', 'bad')).toEqual(all(77_000));
    expect(await metric('sluice_config_bad')).toBe(0);
  });

  test('a reload of an invalid policy changes no worker', async () => {
    const wrong = { policies: [policy('p', 5, '1h'), policy('q', 0, '1h')] };
    const report = await group.reload(wrong);
    expect(report.ok).toBe(false);
    expect(report.problems[0].message).toContain('to be an integer >= 1');
    expect(await limits('p', 'wrong')).toEqual(all(77_000));
  });

  test('a reload requested at one worker applies to all', async () => {
    const reloads = await metric('sluice_config_reloads_total', { result: 'ok' });
    group.write(configOf(88_000));
    const [reply] = open[0].post('/v1/reload', ['']);
    expect(await reply).toMatchObject({ status: 200, json: { ok: true } });
    expect(await limits('p', 'requested')).toEqual(all(88_000));
    expect(await metric('sluice_config_reloads_total', { result: 'ok' })).toBe(reloads + 1);
  });

  test('a reload of an invalid file requested at one worker returns its problems', async () => {
    group.write('[');
    const [reply] = open[1].post('/v1/reload', ['']);
    const { status, json } = await reply;
    expect([status, json.code]).toEqual([422, 'ERR_CONFIG']);
    expect(json.problems).toMatchObject([{ line: 1, column: 1 }]);
    expect(await limits('p', 'rejected')).toEqual(all(88_000));
  });

  test('concurrent reloads end with the last file at all workers', async () => {
    const reloads: Promise<unknown>[] = [];
    for (let limit = 99_001; limit <= 99_010; limit++) {
      group.write(configOf(limit));
      reloads.push(group.reload(configOf(limit)));
      const replies = open.flatMap((each) => each.post('/v1/reload', ['', '']));
      reloads.push(...replies.map(async (each) => expect((await each).status).toBe(200)));
      // Some reloads are requested while another one runs.
      if (limit % 3 === 0) await reloads.at(-1);
    }
    await Promise.all(reloads);
    expect(await limits('p', 'at once')).toEqual(all(99_010));
  });
});

describe('overrides with several workers', () => {
  test('an override set at one worker applies to the next request at all workers', async () => {
    for (const [at, connection] of open.entries()) {
      const limit = 20 + at;
      expect(await put(connection, 'tenant', { limit })).toMatchObject({
        status: 200,
        json: { override: { limit }, persisted: true },
      });
      expect(await limits('q', 'tenant')).toEqual(all(limit));
    }
    const checks = open.flatMap((each) =>
      each.post('/v1/check', Array(10).fill({ policy: 'q', key: 'tenant' })),
    );
    const admitted = (await Promise.all(checks)).filter(({ json }) => json.allowed);
    expect(admitted).toHaveLength(20 + CONNECTIONS - 1);
  });

  test('an override deleted at one worker is deleted at all', async () => {
    await put(open[2], 'brief', { limit: 3 });
    expect(await limits('q', 'brief')).toEqual(all(3));
    const response = await fetch(`${group.url}/v1/overrides/q/brief`, { method: 'DELETE' });
    expect(response.status).toBe(200);
    expect(await limits('q', 'brief')).toEqual(all(10));
  });

  test('concurrent overrides of one key end with the same limit at all workers', async () => {
    for (let round = 0; round < 5; round++) {
      const puts = open.map((each, at) => put(each, 'contended', { limit: 100 + at }));
      for (const { status } of await Promise.all(puts)) expect(status).toBe(200);
      expect(new Set(await limits('q', 'contended')).size).toBe(1);
    }
  });

  test('an override of a key with unusual characters applies to all workers', async () => {
    const keys = ['\u00e9*', 'a\nb', '\u2028', '\ud83d\ude00', '__proto__'];
    for (const [at, key] of keys.entries()) await put(open[at], key, { limit: 40 + at });
    for (const [at, key] of keys.entries()) {
      expect(await limits('q', key.replace('*', 'x'))).toEqual(all(40 + at));
    }
  });

  test('overrides survive a restart of a service with workers', async () => {
    await put(open[0], 'kept', { limit: 4321, reason: 'because' });
    const text = readFileSync(overridesFile, 'utf8');
    expect(JSON.parse(text).overrides).toContainEqual({
      ...{ policy: 'q', key: 'kept' },
      ...{ limit: 4321, reason: 'because' },
    });
    for (const each of open) each.close();
    expect(await group.stop()).toEqual({ code: 0, signal: null });
    group = await startGroup();
    open = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)),
    );
    expect(await limits('q', 'kept')).toEqual(all(4321));
    expect(existsSync(overridesFile)).toBe(true);
    const list = await (await fetch(`${group.url}/v1/overrides?policy=q`)).json();
    const kept = expect.objectContaining({ key: 'kept', limit: 4321, persisted: true });
    expect(list).toEqual({ overrides: expect.arrayContaining([kept]) });
  });
});
