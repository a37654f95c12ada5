/** Limits are exact over several workers on one port. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { valueIn } from '../metric-value.ts';
import { policy } from '../running.ts';
import { Connection, ConnectionClosed, type Reply } from './connection.ts';
import { isAlive, RunningGroup } from './running-group.ts';

const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const WORKERS = isFull ? 4 : 3;
/** Requests of each of 16 connections. */
const REQUESTS = isFull ? 200 : 60;
const soon = { timeout: 20_000, interval: 20 };

const POLICIES = [
  policy('log', 500, '1h'),
  policy('counter', 500, '1h', { algorithm: 'sliding-counter' }),
  policy('buckets', 500, '1h', { algorithm: 'sliding-buckets' }),
  policy('tokens', 500, '365d', { algorithm: 'token-bucket' }),
  policy('fixed', 500, '365d', { algorithm: 'fixed-window' }),
  policy('other', 300, '1h'),
];

const connections = (port: number, count: number): Promise<Connection[]> =>
  Promise.all(Array.from({ length: count }, () => Connection.open(port)));

const admitted = (replies: readonly Reply[]): number =>
  replies.filter(({ status, json }) => status === 200 && json.allowed).length;

let group: RunningGroup;
beforeAll(async () => {
  group = await RunningGroup.start({
    config: { policies: POLICIES },
    settings: { workers: WORKERS },
  });
}, 60_000);
afterAll(() => group?.stop(), 60_000);

describe('several workers', () => {
  test('metrics and top keys are summed over all workers', async () => {
    expect(new Set(await group.pids()).size).toBe(WORKERS);
    const open = await connections(group.port, 16);
    await Promise.all(open.map((each) => each.check({ policy: 'other', key: 'each' })));
    const text = await (await fetch(`${group.url}/metrics`)).text();
    const allowed = { policy: 'other', outcome: 'allowed' };
    expect(valueIn(text, 'sluice_decisions_total', allowed)).toBe(16);
    expect(valueIn(text, 'sluice_http_connections')).toBeGreaterThanOrEqual(16);
    expect(valueIn(text, 'sluice_keys')).toBe(1);
    const top = await (await fetch(`${group.url}/v1/top?policy=other&by=allowed`)).json();
    expect(top).toMatchObject({ hits: 16, keys: [{ key: 'each', atLeast: 16, atMost: 16 }] });
    for (const each of open) each.close();
  });

  test.each(['log', 'counter', 'buckets', 'tokens', 'fixed'])(
    'under the policy %s, 16 connections are admitted exactly the limit of one key',
    async (name) => {
      const open = await connections(group.port, 16);
      const bodies = Array.from({ length: REQUESTS }, () => ({ policy: name, key: 'hot' }));
      const replies = await Promise.all(open.flatMap((each) => each.post('/v1/check', bodies)));
      expect(replies).toHaveLength(16 * REQUESTS);
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
      expect(admitted(replies)).toBe(500);
      const remaining = replies
        .filter(({ json }) => json.allowed)
        .map(({ json }) => json.remaining);
      expect(remaining.sort((a, b) => b - a)).toEqual(
        Array.from({ length: 500 }, (_, at) => 499 - at),
      );
      for (const each of open) each.close();
    },
  );

  test('checks of two limits are admitted up to the smaller one, then cost nothing', async () => {
    const open = await connections(group.port, 16);
    const limits = [
      { policy: 'log', key: 'joint' },
      { policy: 'other', key: 'joint' },
    ];
    const bodies = Array.from({ length: 40 }, () => ({ limits }));
    const replies = await Promise.all(open.flatMap((each) => each.post('/v1/check', bodies)));
    expect(admitted(replies)).toBe(300);
    const [peek] = open[0].post('/v1/peek', [{ policy: 'log', key: 'joint' }]);
    expect((await peek).json.remaining).toBe(200);
    for (const each of open) each.close();
  });

  test('checks with the same id are charged once over all workers', async () => {
    const open = await connections(group.port, 16);
    const body = { policy: 'log', key: 'once', id: 'call-1', cost: 7 };
    const replies = await Promise.all(open.map((each) => each.check(body)));
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
    const [peek] = open[3].post('/v1/peek', [{ policy: 'log', key: 'once' }]);
    expect((await peek).json.remaining).toBe(493);
    for (const each of open) each.close();
  });

  test('a receipt is refunded once over all workers', async () => {
    const open = await connections(group.port, 8);
    const { json } = await open[0].check({ policy: 'log', key: 'receipts', cost: 9 });
    const refunds = await Promise.all(
      open.map((each) => each.post('/v1/refund', [{ receipt: json.receipt }])[0]),
    );
    const changes = refunds.map((each) => each.json);
    expect(refunds.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(changes.filter(({ used }) => !used)).toHaveLength(1);
    const [peek] = open[3].post('/v1/peek', [{ policy: 'log', key: 'receipts' }]);
    expect((await peek).json.remaining).toBe(500);
    for (const each of open) each.close();
  });

  test('keys with unusual characters have separate counters at all workers', async () => {
    const open = await connections(group.port, 4);
    const keys = ['\u00e9', 'e\u0301', '\ud83d\ude00', '\u2028', '__proto__', 'a\nb', 'a\\nb', '"'];
    const check = (key: string, at: number): Promise<Reply> =>
      open[at % 4].check({ policy: 'log', key, cost: 500 });
    expect(admitted(await Promise.all(keys.map(check)))).toBe(keys.length);
    expect(admitted(await Promise.all(keys.map((key, at) => check(key, at + 1))))).toBe(0);
    for (const each of open) each.close();
  });
});

describe('a worker that is killed under load', () => {
  test('the limit holds while a worker is killed and replaced', { timeout: 60_000 }, async () => {
    const before = await group.pids();
    const [victim] = before;
    const received: Reply[] = [];
    let lost = 0;
    let isOver = false;
    const run = async (): Promise<void> => {
      while (!isOver) {
        const connection = await Connection.open(group.port);
        try {
          while (!isOver) {
            const bodies = Array.from({ length: 5 }, () => ({ policy: 'log', key: 'killed' }));
            const replies = await Promise.allSettled(connection.post('/v1/check', bodies));
            for (const each of replies) {
              if (each.status === 'fulfilled') received.push(each.value);
              else throw each.reason;
            }
          }
        } catch (error) {
          expect(error).toBeInstanceOf(ConnectionClosed);
          lost++;
        } finally {
          connection.close();
        }
      }
    };
    const runs = Array.from({ length: 16 }, run);
    await vi.waitUntil(() => received.length > 100, soon);
    process.kill(victim, 'SIGKILL');
    await vi.waitUntil(async () => {
      const now = await group.pids();
      return now.length === WORKERS && !now.includes(victim);
    }, soon);
    const seen = received.length;
    await vi.waitUntil(() => received.length > Math.max(seen + 200, 1500), soon);
    isOver = true;
    await Promise.all(runs);
    const passed = admitted(received);
    // Requests on lost connections may be charged without a response.
    expect(passed).toBeLessThanOrEqual(500);
    expect(passed).toBeGreaterThan(500 - 16 * 5);
    expect(lost).toBeGreaterThan(0);
    expect(isAlive(victim)).toBe(false);
    await vi.waitUntil(() => group.log.some(({ msg }) => msg === 'worker replaced'), soon);
    const exit = group.log.find(({ msg }) => msg === 'worker exited');
    expect(exit).toMatchObject({ pid: victim, signal: 'SIGKILL' });
  });

  test('replaced workers start with the overrides', { timeout: 60_000 }, async () => {
    const key = encodeURIComponent('vip');
    const put = await fetch(`${group.url}/v1/overrides/log/${key}`, {
      method: 'PUT',
      body: JSON.stringify({ limit: 7 }),
    });
    expect(put.status).toBe(200);
    const before = await group.pids();
    for (const pid of before.slice(0, 2)) process.kill(pid, 'SIGKILL');
    await vi.waitUntil(async () => {
      const now = await group.pids();
      return now.length === WORKERS && before.slice(0, 2).every((pid) => !now.includes(pid));
    }, soon);
    await vi.waitUntil(
      () => group.log.filter(({ msg }) => msg === 'worker replaced').length >= 3,
      soon,
    );
    const open = await connections(group.port, 32);
    const replies = await Promise.all(
      open.map((each) => each.check({ policy: 'log', key: 'vip' })),
    );
    expect(new Set(replies.map(({ json }) => json.limit))).toEqual(new Set([7]));
    expect(admitted(replies)).toBe(7);
    for (const each of open) each.close();
  });
});

test('a receipt is settled once over all workers', async () => {
  const open = await connections(group.port, 16);
  const [{ json }] = await Promise.all(
    open[0].post('/v1/check', [{ policy: 'other', key: 'settled', cost: 10 }]),
  );
  const body = { receipt: json.receipt, cost: 3 };
  const replies = await Promise.all(open.flatMap((each) => each.post('/v1/settle', [body, body])));
  expect(replies.filter((each) => !each.json.used).map((each) => each.json.change)).toEqual([-7]);
  for (const each of open) each.close();
});

test('evictions of a full store are logged once for all workers', async () => {
  const full = await RunningGroup.start({
    config: { policies: [policy('few', 5, '1h')] },
    settings: { workers: 2, maxKeys: 10 },
  });
  const open = await connections(full.port, 4);
  const bodies = Array.from({ length: 100 }, (_, at) => ({ policy: 'few', key: `k${at}` }));
  await Promise.all(open.flatMap((each) => each.post('/v1/check', bodies)));
  const text = await (await fetch(`${full.url}/metrics`)).text();
  expect(text).toMatch(/^sluice_guaranteed_keys 10$/m);
  const total = Number(/^sluice_evicted_keys_total (\d+)$/m.exec(text)?.[1]);
  expect(total).toBeGreaterThanOrEqual(90);
  for (const each of open) each.close();
  await full.stop();
  const lines = () => full.log.filter(({ msg }) => msg === 'keys evicted');
  const logged = () => lines().reduce((sum, { evicted }) => sum + Number(evicted), 0);
  await expect.poll(logged, soon).toBe(total);
  expect(lines().at(-1)).toMatchObject({ level: 'warn', total, guaranteedKeys: 10 });
});
