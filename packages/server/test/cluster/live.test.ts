/** Event streams and history cover all workers. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EventReader, sumOf } from '../http-api/event-reader.ts';
import { policy } from '../running.ts';
import { Connection } from './connection.ts';
import { RunningGroup } from './running-group.ts';

const WORKERS = 2;
/** Enough for each worker to have at least one. */
const CONNECTIONS = 6;

let group: RunningGroup;
let open: Connection[];
const readers: EventReader[] = [];

beforeAll(async () => {
  const policies = [policy('few', 3, '1h'), policy('many', 100_000, '1h')];
  group = await RunningGroup.start({ config: { policies }, settings: { workers: WORKERS } });
  open = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)));
}, 60_000);
afterAll(async () => {
  for (const each of [...(open ?? []), ...readers]) each.close();
  await group?.stop();
}, 60_000);

async function listen(path?: string): Promise<EventReader> {
  const reader = await EventReader.greeted(group.url, path);
  readers.push(reader);
  return reader;
}

/** Sends the same check on each connection, hence to each worker. */
const checks = (body: object, times: number) =>
  Promise.all(open.flatMap((each) => each.post('/v1/check', Array(times).fill(body))));

describe('event streams of several workers', () => {
  test('event streams and history of each worker count the decisions of all workers', async () => {
    const all = await Promise.all(Array.from({ length: CONNECTIONS }, () => listen()));
    for (const reader of all) expect(reader.of('hello')).toMatchObject([{ processes: WORKERS }]);
    for (let round = 0; round < 3; round++) {
      await checks({ policy: 'many', key: 'k' }, 10);
      await all[0].nextTick();
    }
    const total = 3 * 10 * CONNECTIONS;
    for (const reader of all) {
      await reader.until(() => sumOf(reader.ticks, 'allowed', 'many') >= total);
      expect(sumOf(reader.ticks, 'allowed')).toBe(total);
      expect(reader.ticks.at(-1)).toMatchObject({ processes: WORKERS, store: { up: true } });
    }
    for (let request = 0; request < CONNECTIONS; request++) {
      const response = await fetch(`${group.url}/v1/series?seconds=60`);
      const { total: counts, policies } = (await response.json()) as {
        total: { allowed: number[] };
        policies: { name: string; allowed: number[] }[];
      };
      const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b);
      expect(sum(counts.allowed)).toBe(total);
      expect(policies.map(({ name, allowed }) => [name, sum(allowed)])).toEqual([['many', total]]);
    }
    const metrics = await (await fetch(`${group.url}/metrics`)).text();
    const line = `sluice_decisions_total{policy="many",outcome="allowed"} ${total}`;
    expect(metrics.split('\n')).toContain(line);
  });

  test('event streams report the denials of all workers that match the filter', async () => {
    const all = await listen();
    const rare = await listen('/v1/events?policy=few&key=ra*');
    const other = await listen('/v1/events?key=unused');
    await checks({ policy: 'few', key: 'flood' }, 100);
    // Three are allowed, so each worker denies at least one.
    await checks({ policy: 'few', key: 'rare' }, 1);
    const reported = (reader: EventReader): number =>
      reader.ticks.reduce((sum, each) => sum + each.denials.length + each.denialsOmitted, 0);
    const denied = 101 * CONNECTIONS - 6;
    await all.until(() => reported(all) >= denied);
    expect([reported(all), sumOf(all.ticks, 'denied')]).toEqual([denied, denied]);
    for (const { denials } of all.ticks) expect(denials.length).toBeLessThanOrEqual(50);
    await rare.until(() => reported(rare) >= CONNECTIONS - 3);
    expect(new Set(rare.denials.map(({ key }) => key))).toEqual(new Set(['rare']));
    const times = rare.denials.map(({ repeats = 0 }) => 1 + repeats);
    expect(times.reduce((sum, each) => sum + each)).toBe(CONNECTIONS - 3);
    expect(rare.denials[0]).toMatchObject({ windowMs: 3_600_000, algorithm: 'sliding-log' });
    await other.nextTick();
    expect(reported(other)).toBe(0);
  });

  test('event streams report changes made at another worker', async () => {
    const all = await Promise.all(Array.from({ length: CONNECTIONS }, () => listen()));
    await open[0].post('/v1/overrides', [{ policy: 'few', key: 'a', limit: 9 }])[0];
    for (const reader of all) expect(await reader.first('changed')).toEqual({ what: 'overrides' });
    const more = [policy('few', 3, '1h'), policy('more', 3, '1h')];
    expect((await group.reload({ policies: more })).ok).toBe(true);
    for (const reader of all) {
      await reader.until(() => reader.of('changed').length >= 3);
      expect(reader.of('changed').slice(1)).toEqual([{ what: 'policies' }, { what: 'overrides' }]);
    }
  });

  test('event streams of all workers end when the service stops', async () => {
    const all = await Promise.all(Array.from({ length: CONNECTIONS }, () => listen()));
    for (const each of open) each.close();
    group.kill('SIGTERM');
    for (const reader of all) expect(await reader.first('end')).toEqual({ why: 'stopping' });
    expect(await group.ended).toEqual({ code: 0, signal: null });
    expect(group.log.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  });
});
