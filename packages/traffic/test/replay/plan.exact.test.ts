/**
 * Compares plans of log files with brute force, client by client. TRAFFIC_CAMPAIGN=full
 * runs ten logs of 100,000 lines, otherwise three of 10,000.
 */
import { definePolicy, type PolicyOptions, type WindowAlgorithmName } from 'sluice';
import { describe, expect, test } from 'vitest';
import { clientNames } from '../../src/replay/client-name.ts';
import { Planner } from '../../src/replay/plan.ts';
import { type Rules, rulesByClient } from '../../src/replay/replay.ts';
import { type BrutePolicy, bruteForce } from './brute-force.ts';
import { logFolder, madeTraffic, readAll } from './traffic.ts';

const isFull = process.env.TRAFFIC_CAMPAIGN === 'full';
const LOGS = isFull ? 10 : 3;
const LINES = isFull ? 100_000 : 10_000;
const SPAN_S = isFull ? 7200 : 1200;

const policy = (
  name: string,
  algorithm: string,
  limit: number,
  windowS: number,
  more: Partial<BrutePolicy> = {},
): BrutePolicy => ({ name, algorithm, limit, windowMs: 1000 * windowS, ...more });

/** All five algorithms, alone and combined, some in shadow mode; then the current policies. */
const SETS: readonly (readonly [readonly BrutePolicy[], readonly BrutePolicy[]])[] = [
  [
    [policy('minute', 'sliding-log', 30, 60), policy('quarter', 'sliding-counter', 120, 900)],
    [policy('minute', 'sliding-log', 60, 60)],
  ],
  [
    [
      policy('minute', 'sliding-buckets', 25, 60),
      policy('second', 'token-bucket', 2, 1, { burst: 9 }),
    ],
    [policy('minute', 'fixed-window', 25, 60)],
  ],
  [
    [
      policy('minute', 'fixed-window', 20, 60),
      policy('watched', 'sliding-log', 10, 30, { shadow: true }),
      policy('burst', 'token-bucket', 40, 60),
    ],
    [policy('minute', 'sliding-counter', 15, 60, {}), policy('watched', 'sliding-log', 5, 30)],
  ],
  [
    [policy('odd', 'sliding-buckets', 17, 47, { buckets: 7 })],
    [policy('odd', 'sliding-buckets', 17, 47, { buckets: 4700 })],
  ],
  [
    [policy('a', 'sliding-counter', 11, 13), policy('b', 'fixed-window', 50, 200)],
    [policy('a', 'token-bucket', 11, 13), policy('b', 'sliding-log', 50, 200)],
  ],
];

function rulesOf(policies: readonly BrutePolicy[]): Rules {
  const shadow = policies.filter((each) => each.shadow).map(({ name }) => name);
  const defined = policies.map(({ name, algorithm, limit, windowMs, buckets, burst }) => {
    const options: PolicyOptions = {
      limit,
      window: windowMs,
      algorithm: algorithm as WindowAlgorithmName,
    };
    return definePolicy(name, {
      ...options,
      ...(buckets !== undefined && { buckets }),
      ...(burst !== undefined && { burst }),
    });
  });
  return rulesByClient(defined, new Set(shadow));
}

const write = logFolder();

describe(`${LOGS} logs of ${LINES} lines`, () => {
  for (let seed = 1; seed <= LOGS; seed++) {
    const [next, current] = SETS[(seed - 1) % SETS.length];
    const names = next.map(({ algorithm }) => algorithm).join(', ');

    test(`log ${seed} is planned as by brute force: ${names}`, async () => {
      const traffic = madeTraffic(seed, LINES, SPAN_S);
      const nameOf = clientNames();
      const clientOf = ({ client }: { client: string }): string => nameOf(client);
      const top = Number.POSITIVE_INFINITY;
      const planner = new Planner({
        next: rulesOf(next),
        current: rulesOf(current),
        clientOf,
        top,
      });
      await readAll(write(`${seed}.log`, traffic), (entries) => planner.add(entries));
      const result = planner.result();

      // The network of an IPv6 address is one client.
      const named = traffic.map(({ timeMs, client }) => ({
        timeMs,
        client: client.includes(':') ? client.replace(/::\d$/, '::/64') : client,
      }));
      const brute = bruteForce(named, next);
      const before = bruteForce(named, current);
      const denied = [...brute.clients].filter(([, each]) => each.denied > 0);
      expect(result.requests).toBe(LINES);
      expect(result.clients).toBe(brute.clients.size);
      expect(denied.length).toBeGreaterThan(10);
      expect(denied.length).toBeLessThan(brute.clients.size);
      expect(
        new Map(
          result.topClients.map((each) => [
            each.client,
            [each.denied, each.firstMs, each.requests],
          ]),
        ),
      ).toEqual(
        new Map(
          denied.map(([client, each]) => [
            client,
            [each.denied, each.firstDeniedMs, each.requests],
          ]),
        ),
      );
      for (const { client, policies } of result.topClients) {
        const isShadow = (name: string): boolean =>
          next.find((each) => each.name === name)!.shadow === true;
        const own = [...brute.clients.get(client)!.byPolicy].filter(([name]) => !isShadow(name));
        expect(new Map(policies.map(({ name, count }) => [name, count]))).toEqual(new Map(own));
      }
      for (const { name, denied: impact } of result.policies) {
        const counts = [...brute.clients.values()].map(({ byPolicy }) => byPolicy.get(name) ?? 0);
        expect(impact.requests).toBe(counts.reduce((sum, count) => sum + count, 0));
        expect(impact.clients).toBe(counts.filter((count) => count > 0).length);
      }

      const change = result.against!;
      const both = named.map((_, at) => [brute.passed[at], before.passed[at]]);
      expect(change.requestsLost).toBe(both.filter(([now, then]) => !now && then).length);
      expect(change.requestsWon).toBe(both.filter(([now, then]) => now && !then).length);
      const deniedBefore = (client: string): number => before.clients.get(client)!.denied;
      const newly = denied.filter(([client]) => deniedBefore(client) === 0);
      expect(change.newlyDenied.clients).toBe(newly.length);
      expect(change.newlyDeniedClients.map(({ client }) => client).sort()).toEqual(
        newly.map(([client]) => client).sort(),
      );
      const noLonger = [...before.clients].filter(
        ([client, each]) => each.denied > 0 && brute.clients.get(client)!.denied === 0,
      );
      expect(change.noLongerDeniedClients.map(({ client }) => client).sort()).toEqual(
        noLonger.map(([client]) => client).sort(),
      );
    });
  }
});
