/** A plan by rules makes the decisions of the service, at the times of the log. */
import { memoryStore, SluiceError } from 'sluice';
import { type Entry, Planner } from 'sluice-traffic';
import { afterEach, expect, test, vi } from 'vitest';
import { loadConfig } from '../../server/src/config/load.ts';
import { DecisionService, type LimitRequest } from '../../server/src/decision-service.ts';
import { RequestRules } from '../../server/src/rules/request-rules.ts';
import { loadRules } from '../src/traffic/config-rules.ts';
import { scratch } from './running.ts';
import { NOON_MS } from './traffic-logs.ts';

afterEach(() => {
  vi.useRealTimers();
});

const CONFIG = `policies:
  api: { limit: 40, window: 1m, algorithm: sliding-counter, costs: { write: 5 } }
  hourly: { limit: 60, window: 1h, algorithm: sliding-buckets }
  steady: { limit: 6, window: 1m, algorithm: token-bucket, burst: 9 }
  watched: { limit: 10, window: 30s, shadow: true }
  shared: { limit: 60, window: 1m, algorithm: fixed-window }
rules:
  - match: { path: /health }
    limits: []
  - match: { path: /api/**, method: [POST, PUT] }
    limits: [{ policy: api, operation: write }, { policy: hourly }]
  - match: { path: /api/** }
    continue: true
    limits:
      - { policy: api, key: [address, host] }
      - { policy: watched, key: header:user-agent | address }
  - limits:
      - { policy: steady }
      - { policy: shared, key: text:all }
overrides:
  - { policy: api, key: 'address:203.0.113.1*', limit: 90 }
  - { policy: hourly, key: 'address:203.0.113.2', limit: 20, expires: 2026-10-10T12:10:00Z }
  - { policy: steady, key: 'address:203.0.113.3', limit: 50 }
`;

const PATHS = [
  '/health',
  '/api/items/1',
  '/API//items/2',
  '/api/%69tems',
  '/',
  '/other',
  '/api/caf\u00e9',
];

/** Random requests of every kind, in order of time, the same in each run. */
function randomEntries(): readonly Entry[] {
  let state = 12_345;
  const random = (): number => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
  let timeMs = NOON_MS;
  return Array.from({ length: 8000 }, () => {
    timeMs += Math.floor(random() ** 3 * 800);
    const agent = random() < 0.5 ? `agent ${Math.floor(random() * 4)}` : undefined;
    return {
      timeMs,
      client: `203.0.113.${1 + Math.floor(random() * 12)}`,
      method: random() < 0.3 ? 'POST' : 'GET',
      path: PATHS[Math.floor(random() * PATHS.length)],
      ...{
        search: '',
        host: random() < 0.5 ? 'a.example' : 'b.example',
        status: 0,
        bytes: 0,
        user: '',
      },
      field: (name: string) => (name === 'user-agent' ? agent : undefined),
    };
  });
}

/** Adds costs, some of them above every limit; every fifth entry has none. */
const withCosts = (entries: readonly Entry[]): readonly Entry[] =>
  entries.map((entry, at) => ({
    ...entry,
    cost: at % 5 === 0 ? undefined : 1 + Math.floor((at % 7) ** 3 / 3),
  }));

const exceedsCapacity = (decisionService: DecisionService, request: LimitRequest): boolean => {
  try {
    decisionService.limits([request]);
    return false;
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'ERR_COST_ABOVE_LIMIT') return true;
    throw error;
  }
};

test.each([
  ['', randomEntries()],
  [' with costs from the log', withCosts(randomEntries())],
])('a plan by rules%s equals the decisions of the service', async (_, entries) => {
  const path = scratch()('rules.yaml', CONFIG);
  const config = await loadConfig([path]);
  const next = await loadRules(path);
  const top = Number.POSITIVE_INFINITY;
  const planner = new Planner({ next, clientOf: next.clientOf, top });
  planner.add(entries);
  const result = planner.result();

  vi.useFakeTimers({ toFake: ['Date'], now: NOON_MS });
  const decisionService = new DecisionService(memoryStore(), config.policies);
  decisionService.overrides.useFile(config.overrides);
  const rules = new RequestRules(config.rules);
  const denied = new Map<string, number>();
  const byPolicy = new Map<string, number>();
  let requestsAboveLimit = 0;
  const count = (counts: Map<string, number>, name: string) =>
    counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const entry of entries) {
    vi.setSystemTime(entry.timeMs);
    const matched = rules.limitsFor({
      ...entry,
      path: Buffer.from(entry.path).toString('latin1'),
      header: entry.field,
      address: () => entry.client,
    });
    if (matched === undefined || matched.length === 0) continue;
    // The cost of a rule takes precedence over the cost in the log.
    const all = matched.map((each) =>
      each.operation === undefined ? { ...each, cost: each.cost ?? entry.cost } : each,
    );
    const aboveLimit = all.filter((each) => exceedsCapacity(decisionService, each));
    const isShadow = ({ policy }: LimitRequest): boolean =>
      decisionService.policies.isShadow(policy);
    const violated = aboveLimit.filter((each) => !isShadow(each));
    if (violated.length > 0) {
      requestsAboveLimit++;
      count(denied, entry.client);
      for (const { policy } of violated) count(byPolicy, policy);
      continue;
    }
    const requests = all.filter((each) => !aboveLimit.includes(each));
    const decision = await decisionService.decide(decisionService.limits(requests));
    if (!decision.allowed) count(denied, entry.client);
    const limits = [...(decision.result?.limits ?? []), ...decision.shadow];
    const isAll = decision.allowed ? decision.shadow : limits;
    for (const { allowed, policy } of isAll) if (!allowed) count(byPolicy, policy);
    if (decision.allowed) for (const { policy } of aboveLimit) count(byPolicy, policy);
  }
  vi.useRealTimers();

  expect(denied.size).toBeGreaterThan(5);
  expect(new Map(result.topClients.map((each) => [each.client, each.denied]))).toEqual(denied);
  const planned = result.policies.map((each) => [each.name, each.denied.requests] as const);
  expect(new Map(planned.filter(([, requests]) => requests > 0))).toEqual(byPolicy);
  expect(byPolicy.size).toBe(5);
  expect(result.costs?.requestsAboveLimit ?? 0).toBe(requestsAboveLimit);
});
