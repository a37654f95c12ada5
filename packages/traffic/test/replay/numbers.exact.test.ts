/**
 * Compares every number of suggest, plan and compare with brute force, for ten logs in order of
 * time and in the order of a server that writes slow requests late. TRAFFIC_CAMPAIGN=full runs
 * logs of 20,000 lines, otherwise of 900.
 */
import { definePolicy } from 'sluice';
import { describe, expect, test } from 'vitest';
import { Comparison } from '../../src/replay/compare.ts';
import { Planner } from '../../src/replay/plan.ts';
import { rulesByClient } from '../../src/replay/replay.ts';
import { Suggester, type SuggestResult } from '../../src/replay/suggest.ts';
import { type BruteRequest, bruteForce } from './brute-force.ts';
import { logFolder, type MadeRequest, madeTraffic, randomFrom, readAll } from './traffic.ts';

const isFull = process.env.TRAFFIC_CAMPAIGN === 'full';
const LINES = isFull ? 20_000 : 900;
const SPAN_S = isFull ? 7200 : 1000;

const write = logFolder();
const keyOf = ({ client }: { client: string }): string => client;

/** Returns the requests in the order in which a server completes them. */
function asWritten(traffic: readonly MadeRequest[], seed: number): readonly MadeRequest[] {
  const random = randomFrom(seed);
  return traffic
    .map((each) => ({ each, atMs: each.timeMs + (random() < 0.3 ? random() * 600_000 : 0) }))
    .sort((a, b) => a.atMs - b.atMs)
    .map(({ each }) => each);
}

const deniedWith = (requests: readonly BruteRequest[], limit: number, windowMs: number) => {
  const policy = { name: 'x', algorithm: 'sliding-log', limit, windowMs };
  const { clients, passed } = bruteForce(requests, [policy]);
  return {
    requests: passed.filter((each) => !each).length,
    clients: [...clients.values()].filter((each) => each.denied > 0).length,
  };
};

/** Returns the most requests of each client in any window, ascending. */
function peaksOf(requests: readonly BruteRequest[], windowMs: number): readonly number[] {
  const times = new Map<string, number[]>();
  for (const { client, timeMs } of requests) {
    times.set(client, [...(times.get(client) ?? []), timeMs]);
  }
  const peak = (own: readonly number[]): number =>
    Math.max(...own.map((end) => own.filter((t) => t > end - windowMs && t <= end).length));
  return [...times.values()].map(peak).sort((a, b) => a - b);
}

/** The definition of docs/choosing-a-limit.md, tried with every limit. */
function kneeOf(peaks: readonly number[]): number {
  const [low, high] = [peaks[0], peaks[peaks.length - 1]];
  let knee = low;
  let farthest = Number.NEGATIVE_INFINITY;
  for (let limit = low; limit <= high; limit++) {
    const along = low === high ? 1 : Math.log(limit / low) / Math.log(high / low);
    const line = peaks.length * (1 - along);
    const below = line - peaks.filter((peak) => peak > limit).length;
    if (below > farthest + 1e-9) [knee, farthest] = [limit, below];
  }
  return knee;
}

const isRound = (limit: number): boolean =>
  /^(?:[1-6]|8|(?:10|12|15|20|25|30|40|50|60|80)0*)$/.test(String(limit));

function proposedOf(peaks: readonly number[], knee: number): number {
  const denies = (limit: number): number => peaks.filter((peak) => peak > limit).length;
  let limit = 2 * knee;
  while (denies(limit) > 0.01 * peaks.length || !isRound(limit)) limit++;
  return limit;
}

function checkSuggestion(result: SuggestResult, requests: readonly BruteRequest[]): void {
  for (const { windowMs, peak, knee, proposed, limits } of result.windows) {
    const peaks = peaksOf(requests, windowMs);
    expect({ windowMs, peak, knee }).toEqual({ windowMs, peak: peaks.at(-1), knee: kneeOf(peaks) });
    expect(proposed).toBe(proposedOf(peaks, knee));
    for (const { limit, clients, deniedRequests } of limits) {
      const denied = deniedWith(requests, limit, windowMs);
      expect({ limit, clients, requests: deniedRequests }).toEqual({ limit, ...denied });
    }
    const effect = limits.find(({ limit }) => limit === proposed)!;
    expect(effect.clients).toBeLessThanOrEqual(0.01 * result.clients);
  }
}

describe.each(Array.from({ length: 10 }, (_, at) => at + 1))(`log %i of ${LINES} lines`, (seed) => {
  const traffic = madeTraffic(seed, LINES, SPAN_S);
  const limit = 5 + seed;
  const windowMs = 20_000 + 7000 * seed;

  test.each([
    ['in order', traffic],
    ['as written', asWritten(traffic, seed)],
  ])(`all numbers of log ${seed} %s equal brute force`, async (order, lines) => {
    const path = write(`${seed}-${order}.log`, lines);
    const requests = lines.toSorted((a, b) => a.timeMs - b.timeMs);

    const suggester = new Suggester({ keyOf });
    const comparison = new Comparison({ limit, windowMs, keyOf });
    const policy = definePolicy('p', { limit, window: windowMs });
    const planner = new Planner({ next: rulesByClient([policy]), clientOf: keyOf });
    const { late, early } = await readAll(path, (entries) => {
      suggester.survey(entries);
      comparison.add(entries);
      planner.add(entries);
    });
    expect({ late, early }).toEqual({ late: 0, early: 0 });
    suggester.choose();
    await readAll(path, (entries) => suggester.tryLimits(entries));
    checkSuggestion(suggester.result(), requests);

    const plan = planner.result();
    const brute = deniedWith(requests, limit, windowMs);
    expect(plan.denied).toMatchObject(brute);
    expect(plan.requests).toBe(requests.length);

    const exact = bruteForce(requests, [{ name: 'x', algorithm: 'sliding-log', limit, windowMs }]);
    for (const found of comparison.result().algorithms) {
      const { algorithm, admitted, denied, deniedClients, falseAdmits, falseDenials } = found;
      const own = bruteForce(requests, [{ name: 'x', algorithm, limit, windowMs }]);
      const admits = requests.filter((_, at) => own.passed[at]);
      const differing = (isAdmit: boolean): number =>
        own.passed.filter((each, at) => each === isAdmit && exact.passed[at] !== isAdmit).length;
      expect({ algorithm, admitted, denied, deniedClients, falseAdmits, falseDenials }).toEqual({
        algorithm,
        admitted: admits.length,
        denied: requests.length - admits.length,
        deniedClients: [...own.clients.values()].filter((each) => each.denied > 0).length,
        falseAdmits: differing(true),
        falseDenials: differing(false),
      });
      expect(found.worst!.count).toBe(peaksOf(admits, windowMs).at(-1));
    }
  });
});
