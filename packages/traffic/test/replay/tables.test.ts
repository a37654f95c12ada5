import { describe, expect, test } from 'vitest';
import { BoundedCounts } from '../../src/replay/bounded-counts.ts';
import { clientNames } from '../../src/replay/client-name.ts';
import { ClientTable } from '../../src/replay/client-table.ts';
import { DeniedClients } from '../../src/replay/denied-clients.ts';
import { routeOf } from '../../src/replay/route.ts';
import { MAX_BUCKETS, Timeline } from '../../src/replay/timeline.ts';
import { randomFrom } from './traffic.ts';

describe('the table of clients', () => {
  test('ClientTable counts like a Map while it grows', () => {
    const table = new ClientTable(['seen', 'odd']);
    const expected = new Map<string, number>();
    const rows = new Map<string, number>();
    const random = randomFrom(1);
    for (let turn = 0; turn < 60_000; turn++) {
      const client = `client ${Math.floor(random() ** 2 * 20_000)}`;
      const row = table.rowOf(client);
      expect(rows.get(client) ?? row).toBe(row);
      rows.set(client, row);
      table.increment(row, 'seen');
      if (turn % 2 === 1) table.increment(row, 'odd');
      expected.set(client, (expected.get(client) ?? 0) + 1);
    }
    expect(table.size).toBe(expected.size);
    for (const [client, count] of expected)
      expect(table.get(rows.get(client)!, 'seen')).toBe(count);
    const sum = (counts: Uint32Array): number => counts.reduce((total, each) => total + each, 0);
    expect(sum(table.column('seen'))).toBe(60_000);
    expect(sum(table.column('odd'))).toBe(30_000);
  });

  test('ClientTable distinguishes names that differ in one character or in length', () => {
    const table = new ClientTable<never>([]);
    const names = ['', '1', '11', '111', '1.1', '1:1', 'é', 'è', '\u{1f600}', '\u{1f601}', '\0'];
    expect(new Set(names.map((name) => table.rowOf(name))).size).toBe(names.length);
  });
});

describe('client names', () => {
  const nameOf = clientNames();

  test.each([
    ['198.51.100.7', '198.51.100.7'],
    ['::ffff:198.51.100.7', '198.51.100.7'],
    ['2001:db8::1', '2001:db8::/64'],
    ['2001:DB8:0:0:ffff::1', '2001:db8::/64'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
    // None of these is an address, so each is a name.
    ['256.1.1.1', '256.1.1.1'],
    ['010.1.1.1', '010.1.1.1'],
    ['1.2.3', '1.2.3'],
    ['crawler.example.com', 'crawler.example.com'],
    ['', '-'],
  ])('the client name of %s is %s', (client, name) => {
    expect(nameOf(client)).toBe(name);
    expect(nameOf(client)).toBe(name);
  });

  test('client names have the given number of IPv6 bits', () => {
    expect(clientNames(48)('2001:db8:1:2::3')).toBe('2001:db8:1::/48');
  });

  test('client names are correct beyond the size of the cache', () => {
    for (let turn = 0; turn < 20_000; turn++) {
      const group = (turn % 10_000).toString(16);
      expect(nameOf(`2001:db8:1:${group}::5`)).toBe(
        group === '0' ? '2001:db8:1::/64' : `2001:db8:1:${group}::/64`,
      );
    }
  });
});

describe('BoundedCounts', () => {
  test('BoundedCounts keeps the most frequent name among many rare ones', () => {
    const counts = new BoundedCounts(10);
    for (let turn = 0; turn < 1000; turn++) {
      counts.add('busy');
      counts.add(`stray ${turn}`);
    }
    expect(counts.largest(1)).toEqual([{ name: 'busy', count: 1000 }]);
    const held = counts.largest().reduce((sum, { count }) => sum + count, 0);
    expect(held + counts.others).toBe(2000);
    expect(counts.largest().length).toBeLessThanOrEqual(10);
  });
});

describe('denied clients', () => {
  test('DeniedClients keeps the most denied clients by name, however many are denied', () => {
    const counts = new Map<number, number>();
    const denied = new DeniedClients((row) => counts.get(row) ?? 0, 10);
    const random = randomFrom(3);
    const first = new Map<number, number>();
    for (let turn = 0; turn < 20_000; turn++) {
      const row = Math.floor(random() ** 4 * 500);
      counts.set(row, (counts.get(row) ?? 0) + 1);
      if (!first.has(row)) first.set(row, 1000 + turn);
      denied.add(row, `client ${row}`, 1000 + turn, ['perMinute'], 'GET /');
    }
    const listed = denied.list(5);
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 5);
    expect(listed.map(({ client }) => client)).toEqual(most.map(([row]) => `client ${row}`));
    expect(listed.map(({ firstMs }) => firstMs)).toEqual(most.map(([row]) => first.get(row)));
    expect(denied.list(1000).length).toBeLessThanOrEqual(20);
  });
});

describe('routes', () => {
  test.each([
    ['/users/17/posts', 'GET /users/:id/posts'],
    ['/users/9f8b1c2d-0000-4000-8000-0123456789ab', 'GET /users/:id'],
    ['/commits/9f8b1c2d77', 'GET /commits/:id'],
    ['/words/deadbeef', 'GET /words/deadbeef'],
    ['/v1/items', 'GET /v1/items'],
    ['/', 'GET /'],
  ])('the route of %s is %s', (path, route) => {
    expect(routeOf('GET', path)).toBe(route);
  });

  test('long routes are cut', () => {
    const route = routeOf('GET', `/${'x'.repeat(5000)}`);
    expect(route.length).toBeLessThanOrEqual(120);
    expect(route).toMatch(/…$/);
  });
});

describe('a timeline', () => {
  test.each([
    ['a second', 1],
    ['an hour', 3600],
    ['a day', 86_400],
    ['a month', 30 * 86_400],
    ['ten years', 3650 * 86_400],
  ])('a timeline of %s has at most 240 buckets and counts every request', (_, spanS) => {
    const timeline = new Timeline(['all', 'some']);
    const startMs = 1_791_000_123_456;
    const count = 5000;
    for (let turn = 0; turn < count; turn++) {
      const timeMs = startMs + Math.floor((1000 * spanS * turn) / count);
      timeline.add(timeMs, 'all');
      if (turn % 5 === 0) timeline.add(timeMs, 'some');
    }
    const { startMs: from, bucketMs, series } = timeline.data();
    const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);
    expect(sum(series.all)).toBe(count);
    expect(sum(series.some)).toBe(count / 5);
    expect(series.all.length).toBe(series.some.length);
    expect(series.all.length).toBeLessThanOrEqual(MAX_BUCKETS);
    expect(from).toBeLessThanOrEqual(startMs);
    expect(from + bucketMs * series.all.length).toBeGreaterThan(startMs + 990 * spanS);
    expect(from % bucketMs).toBe(0);
  });

  test('a timeline has each request in the bucket of its time, also after merges', () => {
    const timeline = new Timeline(['all']);
    const times = [0, 1, 59, 60, 61, 3599, 3600, 7300].map((second) => 36e5 * 1000 + 1000 * second);
    for (const timeMs of times) timeline.add(timeMs, 'all');
    const { startMs, bucketMs, series } = timeline.data();
    const expected = new Array(series.all.length).fill(0);
    for (const timeMs of times) expected[Math.floor((timeMs - startMs) / bucketMs)]++;
    expect(series.all).toEqual(expected);
  });
});
