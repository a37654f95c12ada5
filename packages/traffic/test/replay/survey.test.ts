import { expect, test } from 'vitest';
import { generateTraffic } from '../../src/index.ts';
import { Survey, type SurveyResult } from '../../src/replay/survey.ts';

function surveyed(options: Parameters<typeof generateTraffic>[0]): SurveyResult {
  const survey = new Survey();
  for (const request of generateTraffic(options)) survey.add(request);
  return survey.result();
}

test('a survey counts requests, clients and classes of clients like a simple loop', () => {
  const options = { shape: 'abuser', requests: 5000, clients: 80, seed: 3 } as const;
  const found = surveyed(options);
  const counts = new Map<string, number>();
  for (const { client } of generateTraffic(options)) {
    counts.set(client, (counts.get(client) ?? 0) + 1);
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  expect(found.requests).toBe(5000);
  expect(found.clients).toBe(counts.size);
  expect(found.isCut).toBe(false);
  expect(found.topClients[0]).toEqual({ name: sorted[0][0], count: sorted[0][1] });
  expect(found.topClients.map(({ count }) => count)).toEqual(
    sorted.slice(0, 20).map(([, count]) => count),
  );
  expect(found.timeline.series.requests.reduce((sum, each) => sum + each, 0)).toBe(5000);
  for (const { from, to, clients, requests } of found.classes) {
    const own = [...counts.values()].filter((count) => count >= from && count <= to);
    expect([clients, requests]).toEqual([own.length, own.reduce((sum, each) => sum + each, 0)]);
  }
  const sum = (of: 'clients' | 'requests'): number =>
    found.classes.reduce((all, each) => all + each[of], 0);
  expect([sum('clients'), sum('requests')]).toEqual([counts.size, 5000]);
});

test('a survey counts the addresses of one IPv6 network as one client', () => {
  const found = surveyed({ shape: 'ipv6-rotation', requests: 2000, clients: 10 });
  expect(found.topClients[0].name).toMatch(/\/64$/);
  expect(found.clients).toBeLessThanOrEqual(10 + 16);
});

test('a survey states that there are more clients than are counted by name', () => {
  const found = surveyed({ shape: 'steady', requests: 30_000, clients: 20_000 });
  expect(found.isCut).toBe(true);
  expect(found.clients).toBeGreaterThan(10_000);
});

test('a survey without requests has zero counts', () => {
  expect(surveyed({ shape: 'steady', requests: 0 })).toMatchObject({
    ...{ requests: 0, clients: 0, firstMs: undefined, classes: [], topClients: [] },
  });
});
