import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

let api: DocumentedApi;
beforeAll(async () => {
  const policies = [policy('few', 2, '1h'), policy('idle', 2, '1h')];
  api = await DocumentedApi.of(await startRunning({ config: { policies } }));
});
afterAll(() => api.close());

const sum = (counts: readonly number[]): number => counts.reduce((all, each) => all + each, 0);

describe('GET /v1/series', () => {
  test('GET /v1/series returns the decisions of each complete second', async () => {
    const calls = 5;
    const { json: first } = await api.post('/v1/check', { policy: 'few', key: 'a' });
    let last = first;
    for (let call = 1; call < calls; call++) {
      last = (await api.post('/v1/check', { policy: 'few', key: 'a' })).json;
    }
    const read = async () => (await api.get('/v1/series?seconds=60')).json;
    const endOf = ({ startMs, total }: Awaited<ReturnType<typeof read>>): number =>
      startMs + total.allowed.length * 1000;
    await expect
      .poll(async () => endOf(await read()), { timeout: 20_000 })
      .toBeGreaterThan(last.atMs);
    const json = await read();
    expect(json).toMatchObject({ stepMs: 1000, omitted: 0 });
    expect(json.startMs % 1000).toBe(0);
    for (const counts of [json.total, json.policies[0]]) {
      expect(counts.allowed).toHaveLength(60);
      expect([sum(counts.allowed), sum(counts.denied)]).toEqual([2, calls - 2]);
      // A late recording counts a decision to an earlier second, never to a later one.
      const at = Math.floor((first.atMs - json.startMs) / 1000);
      expect(sum(counts.allowed.slice(0, at + 1))).toBeGreaterThanOrEqual(1);
    }
    expect(json.policies.map(({ name }: { name: string }) => name)).toEqual(['few']);
  });

  test('GET /v1/series returns five minutes by default and at most ten', async () => {
    expect((await api.get('/v1/series')).json.total.denied).toHaveLength(300);
    expect((await api.get('/v1/series?seconds=600')).json.total.fullest).toHaveLength(600);
    expect((await api.get('/v1/series?seconds=1')).json.total.degraded).toHaveLength(1);
  });

  test('GET /v1/series returns one policy by name, also without traffic', async () => {
    const { json } = await api.get('/v1/series?seconds=2&policy=idle');
    expect(json.policies).toMatchObject([{ name: 'idle', allowed: [0, 0], fullest: [null, null] }]);
    expect((await api.get('/v1/series?policy=(request)')).status).toBe(200);
  });

  test('GET /v1/series returns up to 24 hours by minute, in steps of minutes', async () => {
    const { json: day } = await api.get('/v1/series?minutes=1440');
    expect(day.total.allowed).toHaveLength(1440);
    expect(day).toMatchObject({ stepMs: 60_000 });
    expect(day.startMs % 60_000).toBe(0);
    const { json: steps } = await api.get('/v1/series?minutes=1440&step=24&count=0');
    expect(steps.total.fullest).toHaveLength(60);
    expect(steps).toMatchObject({ stepMs: 24 * 60_000, policies: [] });
    expect(steps.startMs % steps.stepMs).toBe(0);
    // The last step contains the last complete minute.
    const endMs = day.startMs + 1440 * 60_000;
    expect(steps.startMs + 60 * steps.stepMs).toBeGreaterThanOrEqual(endMs);
    expect(steps.startMs + 59 * steps.stepMs).toBeLessThan(endMs);
    const { json: one } = await api.get('/v1/series?minutes=2&policy=idle');
    expect(one.policies).toMatchObject([{ name: 'idle', allowed: [0, 0] }]);
  });

  test('GET /v1/series reports since when decisions are recorded', async () => {
    const { json } = await api.get('/v1/series?seconds=1');
    const { json: later } = await api.get('/v1/series?minutes=1');
    expect(json.sinceMs % 1000).toBe(0);
    expect(later.sinceMs).toBe(json.sinceMs);
    expect(json.sinceMs).toBeLessThanOrEqual(json.startMs + 1000);
  });

  test('GET /v1/series rejects invalid parameters', async () => {
    const wrong: readonly [string, number, string][] = [
      ...['0', '601', '-1', '1.5', '1e2', '', 'x', '0x10'].map((each): [string, number, string] => [
        `seconds=${each}`,
        400,
        'ERR_INVALID_OPTION',
      ]),
      ...[
        ...['minutes=0', 'minutes=1441', 'minutes=1.5', 'minutes=5&seconds=5', 'step=2'],
        ...['minutes=10&step=3', 'minutes=10&step=0', 'minutes=10&step=20'],
        ...['count=101', 'count=-1', 'count='],
      ].map((query): [string, number, string] => [query, 400, 'ERR_INVALID_OPTION']),
      ['policy=none', 404, 'ERR_UNKNOWN_POLICY'],
      ['second=5', 400, 'ERR_INVALID_OPTION'],
    ];
    for (const [query, status, code] of wrong) {
      const response = await api.get(`/v1/series?${query}`);
      expect([query, response.status, response.json.code]).toEqual([query, status, code]);
    }
  });
});
