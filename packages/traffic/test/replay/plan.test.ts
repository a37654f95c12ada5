import { definePolicy } from 'sluice';
import { describe, expect, test } from 'vitest';
import { Planner, type PlanResult } from '../../src/replay/plan.ts';
import { rulesByClient } from '../../src/replay/replay.ts';
import { entriesOf, type MadeRequest } from './traffic.ts';

const START_MS = Date.UTC(2026, 9, 10, 12, 0, 0);

/** Returns requests of a client at a fixed interval. */
const requests = (
  client: string,
  count: number,
  everyMs = 0,
  fromMs = 0,
  path = '/',
): MadeRequest[] =>
  Array.from({ length: count }, (_, at) => ({
    ...{ client, path, timeMs: START_MS + fromMs + at * everyMs },
  }));

const minute = (limit: number) => definePolicy('perMinute', { limit, window: '1m' });

function planned(
  traffic: readonly MadeRequest[],
  limit: number,
  more: { readonly current?: number; readonly top?: number } = {},
): PlanResult {
  const planner = new Planner({
    next: rulesByClient([minute(limit)]),
    current: more.current === undefined ? undefined : rulesByClient([minute(more.current)]),
    clientOf: ({ client }) => client,
    top: more.top,
  });
  const sorted = [...traffic].sort((a, b) => a.timeMs - b.timeMs);
  planner.add(entriesOf(sorted));
  return planner.result();
}

describe('a plan', () => {
  test('a plan lists denied clients with counts, times, routes and policies', () => {
    const { denied, topClients, topRoutes, firstDeniedMs } = planned(
      [
        ...requests('busy', 10, 1000, 0, '/users/1'),
        ...requests('busy', 5, 1000, 10_000, '/users/2/posts'),
        ...requests('calm', 5, 1000),
      ],
      8,
    );
    expect(denied).toEqual({ requests: 7, clients: 1, ordinaryClients: 0 });
    expect(firstDeniedMs).toBe(START_MS + 8000);
    expect(topClients).toEqual([
      {
        client: 'busy',
        requests: 15,
        denied: 7,
        firstMs: START_MS + 8000,
        lastMs: START_MS + 14_000,
        ordinary: false,
        policies: [{ name: 'perMinute', count: 7 }],
        routes: [
          { name: 'GET /users/:id/posts', count: 5 },
          { name: 'GET /users/:id', count: 2 },
        ],
      },
    ]);
    expect(topRoutes).toEqual(topClients[0].routes);
  });

  test('a plan separates ordinary clients from the heaviest 1 %', () => {
    const many = Array.from({ length: 300 }, (_, at) => requests(`c${at}`, at < 3 ? 50 : 5)).flat();
    const result = planned(many, 4);
    expect(result.heavyAbove).toBe(5);
    expect(result.ordinaryClients).toBe(297);
    expect(result.denied).toMatchObject({ clients: 300, ordinaryClients: 297 });
    expect(result.topClients.filter(({ ordinary }) => !ordinary)).toHaveLength(3);
  });

  test('in a plan, clients with equal numbers of requests are all ordinary', () => {
    const many = Array.from({ length: 50 }, (_, at) => requests(`c${at}`, 5)).flat();
    expect(planned(many, 4)).toMatchObject({ heavyAbove: 5, ordinaryClients: 50 });
  });

  test('a plan without requests has zero counts', () => {
    expect(planned([], 4)).toMatchObject({
      requests: 0,
      clients: 0,
      firstMs: undefined,
      denied: { requests: 0, clients: 0 },
      topClients: [],
      timeline: { series: { requests: [], denied: [] } },
    });
  });

  test('a plan lists the requested number of clients, most denied first', () => {
    const many = Array.from({ length: 30 }, (_, at) => requests(`c${at}`, 5 + at)).flat();
    const { topClients, denied } = planned(many, 4, { top: 3 });
    expect(topClients.map(({ client }) => client)).toEqual(['c29', 'c28', 'c27']);
    expect(denied.clients).toBe(30);
  });

  test('a plan reports newly and no longer denied clients and requests', () => {
    const traffic = [
      // Denied by both, one more by the new one.
      ...requests('always', 9, 100),
      // Only by the new one.
      ...requests('newly', 4, 100),
      ...requests('never', 3, 100),
    ];
    const { against, denied } = planned(traffic, 3, { current: 4 });
    expect(denied.requests).toBe(7);
    expect(against).toMatchObject({
      denied: { requests: 5, clients: 1 },
      newlyDenied: { requests: 1, clients: 1, ordinaryClients: 1 },
      noLongerDenied: { requests: 0, clients: 0 },
      requestsLost: 2,
      requestsWon: 0,
    });
    expect(against!.newlyDeniedClients.map(({ client }) => client)).toEqual(['newly']);
    const back = planned(traffic, 4, { current: 3 }).against!;
    expect(back.noLongerDeniedClients.map(({ client }) => client)).toEqual(['newly']);
    expect(back).toMatchObject({ requestsLost: 0, requestsWon: 2 });
  });

  test('a plan replays a late entry at the latest time reached', () => {
    const planner = new Planner({
      next: rulesByClient([minute(2)]),
      clientOf: ({ client }) => client,
    });
    const late = [...requests('a', 2, 0, 120_000), ...requests('a', 1)];
    planner.add(entriesOf(late));
    expect(planner.result().topClients).toMatchObject([
      { client: 'a', denied: 1, firstMs: START_MS + 120_000 },
    ]);
  });

  test('a plan survives a JSON round trip', () => {
    const result = planned(requests('a', 9), 3, { current: 4 });
    expect(JSON.parse(JSON.stringify(result))).toEqual(result);
  });
});
