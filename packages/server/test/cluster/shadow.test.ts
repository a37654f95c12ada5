/** Shadow overrides set at one worker apply to all before the response. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { policy } from '../running.ts';
import { Connection, type Reply } from './connection.ts';
import { isAlive, RunningGroup } from './running-group.ts';

const soon = { timeout: 20_000, interval: 20 };

/** Enough for each worker to have at least one. */
const CONNECTIONS = 8;

const folder = mkdtempSync(join(tmpdir(), 'sluice-shadow-'));
const overridesFile = join(folder, 'overrides.json');
const config = {
  policies: [policy('p', 3, '1h'), policy('watched', 3, '1h', { shadow: true })],
};

let group: RunningGroup;
let open: Connection[] = [];

const connect = async (): Promise<void> => {
  for (const each of open) each.close();
  open = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)));
};

beforeAll(async () => {
  group = await RunningGroup.start({ config, settings: { workers: 2, overridesFile } });
  await connect();
}, 60_000);
afterAll(async () => {
  for (const each of open) each.close();
  await group?.stop();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

const patch = (connection: Connection, name: string, shadow: boolean | null): Promise<Reply> =>
  connection.post(`/v1/policies/${name}`, [{ shadow }], 'PATCH')[0];

/** Resolves to the distinct shadow modes of a policy, over all workers. */
async function seen(name: string): Promise<Set<boolean>> {
  const bodies = Array(3).fill({ policy: name, key: 'peeked' });
  const replies = await Promise.all(open.flatMap((each) => each.post('/v1/peek', bodies)));
  return new Set(replies.map(({ json }) => json.shadow !== undefined));
}

test('a shadow override set at any worker applies to the next request at all workers', async () => {
  for (const [at, connection] of [...open, ...open].entries()) {
    const shadow = at % 2 === 0;
    expect(await patch(connection, 'p', shadow)).toMatchObject({
      status: 200,
      json: {
        policy: { name: 'p', shadow, shadowBy: 'api' },
        before: { shadow: at > 0 && !shadow, shadowBy: at === 0 ? 'file' : 'api' },
        persisted: true,
      },
    });
    expect(await seen('p')).toEqual(new Set([shadow]));
  }
  expect(await patch(open[1], 'p', null)).toMatchObject({ json: { policy: { shadowBy: 'file' } } });
  expect(await seen('p')).toEqual(new Set([false]));
});

test('the counters of a policy continue when its shadow mode changes', async () => {
  const checks = async (): Promise<Reply[]> =>
    Promise.all(open.map((each) => each.check({ policy: 'p', key: 'counted' })));
  expect((await checks()).filter(({ json }) => json.allowed)).toHaveLength(3);
  await patch(open[0], 'p', true);
  const inShadow = await checks();
  expect(inShadow.map(({ json }) => json.allowed)).toEqual(Array(CONNECTIONS).fill(true));
  for (const { json } of inShadow) expect(json.shadow).toMatchObject([{ allowed: false }]);
  await patch(open[1], 'p', false);
  expect((await checks()).filter(({ json }) => json.allowed)).toEqual([]);
});

test('concurrent shadow overrides end with the same state at all workers', async () => {
  for (let round = 0; round < 5; round++) {
    const patches = open.map((each, at) => patch(each, 'p', [true, false, null][at % 3]));
    for (const { status } of await Promise.all(patches)) expect(status).toBe(200);
    expect((await seen('p')).size).toBe(1);
    const replies = await Promise.all(
      open.map((each) => each.post('/v1/policies/p', [''], 'GET')[0]),
    );
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  }
});

test('a reload keeps shadow overrides at all workers', async () => {
  await patch(open[0], 'p', true);
  await patch(open[1], 'watched', false);
  expect(
    await group.reload({ policies: [policy('p', 4, '1h'), config.policies[1]] }),
  ).toMatchObject({
    ok: true,
  });
  expect([await seen('p'), await seen('watched')]).toEqual([new Set([true]), new Set([false])]);
});

test('new workers start with the shadow overrides', { timeout: 60_000 }, async () => {
  await patch(open[0], 'p', true);
  await patch(open[0], 'watched', false);
  const before = await group.pids();
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await vi.waitUntil(() => !before.some(isAlive), soon);
  await connect();
  expect([await seen('p'), await seen('watched')]).toEqual([new Set([true]), new Set([false])]);
  await vi.waitUntil(async () => (await group.pids()).length === 2, soon);
  await patch(open[0], 'p', false);
  expect(await seen('p')).toEqual(new Set([false]));
});

test('shadow overrides survive a restart of the service', { timeout: 60_000 }, async () => {
  await patch(open[0], 'p', true);
  await patch(open[1], 'watched', false);
  expect(JSON.parse(readFileSync(overridesFile, 'utf8'))).toEqual({
    overrides: [],
    shadow: { p: true, watched: false },
  });
  expect(await group.stop()).toEqual({ code: 0, signal: null });
  group = await RunningGroup.start({ config, settings: { workers: 2, overridesFile } });
  await connect();
  expect([await seen('p'), await seen('watched')]).toEqual([new Set([true]), new Set([false])]);
});

test('a change of shadow mode is in the audit log once for all workers', async () => {
  await patch(open[0], 'p', null);
  const lines = () => group.log.filter(({ audit }) => audit !== undefined);
  await vi.waitUntil(() => lines().length > 0, soon);
  expect(lines()).toMatchObject([
    {
      worker: expect.any(Number),
      audit: {
        ...{ action: 'policy.shadow', policy: 'p' },
        before: { shadow: true, shadowBy: 'api' },
        after: { shadow: false, shadowBy: 'file' },
      },
    },
  ]);
});
