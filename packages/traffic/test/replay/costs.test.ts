/** Replays of logs with costs, compared with brute force. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { definePolicy, type WindowAlgorithmName } from 'sluice';
import { afterAll, describe, expect, test } from 'vitest';
import type { Entry } from '../../src/entry.ts';
import { LogReader } from '../../src/read-log.ts';
import { COMPARED, Comparison } from '../../src/replay/compare.ts';
import { Explainer } from '../../src/replay/explain.ts';
import { Planner } from '../../src/replay/plan.ts';
import { type Rules, rulesByClient } from '../../src/replay/replay.ts';
import { Suggester } from '../../src/replay/suggest.ts';
import { WindowCounts } from '../../src/replay/window-counts.ts';
import { type BrutePolicy, bruteForce, fits } from './brute-force.ts';
import { entriesOf, type MadeRequest, madeTraffic, withCosts } from './traffic.ts';

const START_MS = Date.UTC(2026, 9, 10, 12, 0, 0);
const MINUTE_MS = 60_000;

const folder = mkdtempSync(join(tmpdir(), 'sluice-costs-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a table with a cost column `tokens`, in which some costs of 1 are empty. */
async function readBack(requests: readonly MadeRequest[]): Promise<readonly Entry[]> {
  const rows = requests.map(({ timeMs, client, path, cost = 1 }, at) => {
    const written = cost === 1 && at % 2 === 0 ? '' : cost;
    return `${new Date(timeMs).toISOString()},${client},GET,${path ?? '/'},${written}`;
  });
  const path = join(folder, 'access.csv');
  writeFileSync(path, ['time,client,method,path,tokens', ...rows, ''].join('\n'));
  const reader = await LogReader.open([path], { columns: { cost: 'tokens' } });
  const entries: Entry[] = [];
  for await (const batch of reader.entries()) entries.push(...batch);
  return entries;
}

function rulesOf(policies: readonly BrutePolicy[]): Rules {
  const shadow = policies.filter((each) => each.shadow).map(({ name }) => name);
  const defined = policies.map(({ name, algorithm, limit, windowMs, burst }) =>
    definePolicy(name, {
      ...{ limit, window: windowMs, algorithm: algorithm as WindowAlgorithmName },
      ...(burst !== undefined && { burst }),
    }),
  );
  return rulesByClient(defined, new Set(shadow));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);
const clientOf = ({ client }: Entry): string => client;

/** The last limit of each is lower than the highest cost. */
const SETS: readonly (readonly BrutePolicy[])[] = [
  [
    { name: 'minute', algorithm: 'sliding-log', limit: 60, windowMs: MINUTE_MS },
    { name: 'short', algorithm: 'sliding-counter', limit: 25, windowMs: 13_000 },
  ],
  [
    { name: 'minute', algorithm: 'sliding-buckets', limit: 70, windowMs: MINUTE_MS },
    { name: 'burst', algorithm: 'token-bucket', limit: 3, windowMs: 1000, burst: 20 },
  ],
  [
    { name: 'minute', algorithm: 'fixed-window', limit: 50, windowMs: MINUTE_MS },
    { name: 'watched', algorithm: 'sliding-log', limit: 15, windowMs: 30_000, shadow: true },
  ],
];

describe('a plan of a log with costs', () => {
  test.each(SETS.map((each) => [each]))(
    'a plan with costs equals brute force: %j',
    async (policies) => {
      const traffic = withCosts(madeTraffic(31, 6000, 900), 7);
      const planner = new Planner({ next: rulesOf(policies), clientOf, top: Infinity });
      planner.add(await readBack(traffic));
      const result = planner.result();
      const { clients, passed } = bruteForce(traffic, policies);
      const denied = [...clients].filter(([, each]) => each.denied > 0);
      expect(denied.length).toBeGreaterThan(10);
      expect(
        new Map(result.topClients.map((each) => [each.client, [each.denied, each.firstMs]])),
      ).toEqual(new Map(denied.map(([name, each]) => [name, [each.denied, each.firstDeniedMs]])));
      for (const { name, denied: impact } of result.policies) {
        const counts = [...clients.values()].map(({ byPolicy }) => byPolicy.get(name) ?? 0);
        expect(impact.requests).toBe(sum(counts));
        expect(impact.clients).toBe(counts.filter((count) => count > 0).length);
      }
      const enforced = policies.filter(({ shadow }) => !shadow);
      const least = Math.min(...enforced.map(({ limit, burst = limit }) => burst));
      const costs = traffic.map(({ cost = 1 }) => cost);
      expect(result.costs).toEqual({
        requested: sum(costs),
        denied: sum(costs.filter((_, at) => !passed[at])),
        requestsAboveLimit: costs.filter((cost) => cost > least).length,
      });
    },
  );

  test('a cost above a limit is always denied and charges nothing', () => {
    const policies = [
      { name: 'few', algorithm: 'sliding-log', limit: 5, windowMs: MINUTE_MS },
      { name: 'many', algorithm: 'sliding-log', limit: 10, windowMs: MINUTE_MS },
    ];
    const planner = new Planner({ next: rulesOf(policies), clientOf });
    const costs = [6, 5, 11, 6, 5];
    planner.add(entriesOf(costs.map((cost) => ({ client: 'a', timeMs: START_MS, cost }))));
    const result = planner.result();
    // Only the second passes. The last is denied as well, but would pass at another time.
    expect(result.denied.requests).toBe(4);
    expect(result.costs).toEqual({ requested: 33, denied: 28, requestsAboveLimit: 3 });
    expect(result.policies.map(({ denied }) => denied.requests)).toEqual([4, 1]);
  });

  test('a cost above a shadow limit is reported and admitted', () => {
    const policies = [
      { name: 'real', algorithm: 'sliding-log', limit: 10, windowMs: MINUTE_MS },
      { name: 'shadow', algorithm: 'sliding-log', limit: 5, windowMs: MINUTE_MS, shadow: true },
    ];
    const planner = new Planner({ next: rulesOf(policies), clientOf });
    const costs = [6, 4, 4];
    planner.add(entriesOf(costs.map((cost) => ({ client: 'a', timeMs: START_MS, cost }))));
    const result = planner.result();
    expect(result.denied.requests).toBe(1);
    expect(result.policies.map(({ denied }) => denied.requests)).toEqual([1, 1]);
    expect(result.costs).toEqual({ requested: 14, denied: 4, requestsAboveLimit: 0 });
  });

  test('a plan has no costs if no request has one', () => {
    const planner = new Planner({ next: rulesOf(SETS[0]), clientOf });
    planner.add(entriesOf([{ client: 'a', timeMs: START_MS }]));
    expect(planner.result()).not.toHaveProperty('costs');
  });
});

describe('a comparison of a log with costs', () => {
  test('compared counts by decision and by cost equal those of brute force', async () => {
    const traffic = withCosts(madeTraffic(11, 4000, 600), 5);
    const limit = 30;
    const comparison = new Comparison({ limit, windowMs: MINUTE_MS, keyOf: clientOf });
    comparison.add(await readBack(traffic));
    const result = comparison.result();
    const costs = traffic.map(({ cost = 1 }) => cost);
    const runs = COMPARED.map((algorithm) => {
      const policy: BrutePolicy = { name: algorithm, algorithm, limit, windowMs: MINUTE_MS };
      const admissions = new Map<string, number[]>();
      const passed = traffic.map(({ client, timeMs, cost = 1 }) => {
        const admitted = admissions.get(client) ?? [];
        admissions.set(client, admitted);
        const isIn = fits(policy, admitted, timeMs, cost);
        if (isIn) admitted.push(...new Array<number>(cost).fill(timeMs));
        return isIn;
      });
      return { algorithm, passed, admissions };
    });
    const exact = runs[0].passed;
    const requestsAboveLimit = costs.filter((cost) => cost > limit).length;
    expect(requestsAboveLimit).toBeGreaterThan(0);
    expect(result.costs).toEqual({ requested: sum(costs), requestsAboveLimit });
    for (const { algorithm, passed, admissions } of runs) {
      const those = (is: (at: number) => boolean) => costs.filter((_, at) => is(at));
      const admitted = those((at) => passed[at]);
      const falseAdmits = those((at) => passed[at] && !exact[at]);
      const falseDenials = those((at) => !passed[at] && exact[at]);
      const fullest = Math.max(
        ...[...admissions.values()].flatMap((times) =>
          times.map((t) => times.filter((other) => other > t - MINUTE_MS && other <= t).length),
        ),
      );
      expect(result.algorithms.find((each) => each.algorithm === algorithm)).toMatchObject({
        admitted: admitted.length,
        denied: costs.length - admitted.length,
        falseAdmits: falseAdmits.length,
        falseDenials: falseDenials.length,
        costs: {
          admitted: sum(admitted),
          denied: sum(costs) - sum(admitted),
          falseAdmits: sum(falseAdmits),
          falseDenials: sum(falseDenials),
        },
        worst: { count: fullest, multiple: fullest / limit },
      });
    }
  });

  test('a comparison counts one log entry for a request of any cost', () => {
    const memory = (cost: number) => {
      const comparison = new Comparison({ limit: 99, windowMs: MINUTE_MS, keyOf: clientOf });
      comparison.add(entriesOf([{ client: 'a', timeMs: START_MS, cost }]));
      return comparison.result().algorithms.map((each) => each.memory);
    };
    expect(memory(99)).toEqual(memory(1));
  });
});

describe('a suggestion for a log with costs', () => {
  function suggested(traffic: readonly MadeRequest[]) {
    const suggester = new Suggester({ keyOf: clientOf });
    suggester.survey(entriesOf(traffic));
    suggester.choose();
    suggester.tryLimits(entriesOf(traffic));
    return suggester.result();
  }

  test('each suggested limit in units of cost agrees with brute force', () => {
    const traffic = withCosts(madeTraffic(21, 1200, 700), 3);
    const result = suggested(traffic);
    const costs = traffic.map(({ cost = 1 }) => cost);
    expect(result.costs).toEqual({ requested: sum(costs), highest: Math.max(...costs) });
    for (const { windowMs, limits, peak } of result.windows) {
      const mosts = traffic.map(({ client, timeMs }) => {
        const isIn = (each: MadeRequest): boolean =>
          each.client === client && each.timeMs <= timeMs && each.timeMs > timeMs - windowMs;
        return sum(traffic.filter(isIn).map(({ cost = 1 }) => cost));
      });
      expect(peak).toBe(Math.max(...mosts));
      for (const { limit, clients, deniedRequests, deniedCost } of limits) {
        const policy = { name: 'x', algorithm: 'sliding-log', limit, windowMs };
        const brute = bruteForce(traffic, [policy]);
        const denied = [...brute.clients.values()].map((each) => each.denied);
        expect(deniedRequests).toBe(sum(denied));
        expect(deniedCost).toBe(sum(costs.filter((_, at) => !brute.passed[at])));
        expect(clients).toBe(denied.filter((each) => each > 0).length);
      }
    }
  });

  test('limits are suggested for sums of costs above 32 bits and the maximum limit', () => {
    const traffic = Array.from({ length: 300 }, (_, at) => ({
      ...{ client: `c${at % 3}`, timeMs: START_MS + 1000 * at, cost: 10 ** (7 + (at % 3)) },
    }));
    const result = suggested(traffic);
    expect(result.windows.find(({ windowMs }) => windowMs === MINUTE_MS)).toMatchObject({
      peak: 20 * 10 ** 9,
    });
    for (const { limits, windowMs, proposed } of result.windows) {
      for (const { limit } of [...limits, { limit: proposed }]) {
        expect(limit * windowMs).toBeLessThanOrEqual(Number.MAX_SAFE_INTEGER);
      }
      expect(limits.some(({ limit }) => limit === proposed)).toBe(true);
    }
  });

  test('WindowCounts counts costs per window above 32 bits', () => {
    const counts = new WindowCounts([10, 1000]);
    expect(counts.isWide).toBe(false);
    for (let at = 0; at < 400; at++) counts.add(at, 5, 1);
    counts.add(7, 5, 2 ** 32);
    counts.add(7, 20, 2 ** 33);
    counts.add(399, 20, 3);
    expect(counts.isWide).toBe(true);
    expect([0, 1].map((window) => counts.sum(7, window))).toEqual([2 ** 33, 3 * 2 ** 32 + 1]);
    expect([0, 1].map((window) => counts.most(7, window))).toEqual([2 ** 33, 3 * 2 ** 32 + 1]);
    expect([0, 1].map((window) => counts.sum(399, window))).toEqual([3, 4]);
    counts.add(7, 1010, 1);
    expect(counts.sum(7, 1)).toBe(2 ** 33 + 1);
  });
});

describe('an explanation of a log with costs', () => {
  const explained = (costs: readonly (number | undefined)[], algorithm: WindowAlgorithmName) => {
    const policy = definePolicy('', { limit: 10, window: '1m', algorithm });
    const explainer = new Explainer({ policy, keyOf: clientOf, key: 'a' });
    const made = costs.map((cost, at) => ({ client: 'a', timeMs: START_MS + 1000 * at, cost }));
    explainer.add(entriesOf(made));
    return explainer.result()!;
  };

  test.each(COMPARED)('the explanation of %s sums costs', (algorithm) => {
    expect(explained([4, undefined, 3, 5], algorithm)).toMatchObject({
      ...{ hasCosts: true, cost: 5, allowed: false, atMs: START_MS + 3000 },
      requests: [{ cost: 4 }, { allowed: true }, { cost: 3 }, { cost: 5, allowed: false }],
    });
  });

  test('the entries of an explanation have costs', () => {
    const { entries, used, retryAfterMs } = explained([4, undefined, 3, 5], 'sliding-log');
    expect(entries.map(({ cost }) => cost)).toEqual([4, 1, 3]);
    // The first of them has to leave.
    expect({ used, retryAfterMs }).toEqual({ used: 8, retryAfterMs: 57_000 });
  });

  test.each(COMPARED)(
    'the explanation of %s states that a cost above the limit never fits',
    (algorithm) => {
      const found = explained([4, 11, 3], algorithm);
      expect(found).toMatchObject({
        costAboveLimit: true,
        cost: 11,
        allowed: false,
        retryAfterMs: 0,
      });
      expect(found.remaining).toBe(6);
    },
  );

  test('an explanation has no costs if no request has one', () => {
    const found = explained([undefined, undefined], 'sliding-log');
    expect(Object.keys(found)).not.toContain('hasCosts');
    expect(found.requests.map((each) => Object.keys(each))).toEqual([
      ['timeMs', 'allowed'],
      ['timeMs', 'allowed'],
    ]);
  });
});
