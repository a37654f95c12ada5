/** Results of generated traffic for tests of reports. */
import { definePolicy, type WindowAlgorithmName } from 'sluice';
import {
  type CompareResult,
  Comparison,
  type Entry,
  Explainer,
  type Explanation,
  generateTraffic,
  Planner,
  type PlanResult,
  type ReportedResult,
  type Rules,
  Suggester,
  type SuggestResult,
  type TrafficOptions,
} from '../../src/index.ts';

interface PolicyInput {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly algorithm?: WindowAlgorithmName;
  readonly shadow?: boolean;
}

/** Every policy counts every request by its client. */
export function rulesOf(inputs: readonly PolicyInput[]): Rules {
  const policies = inputs.map(({ name, limit, windowMs, algorithm = 'sliding-log', shadow }) => ({
    facts: { name, limit, windowMs, algorithm, shadow: shadow ?? false },
    policy: definePolicy(name, { limit, window: windowMs, algorithm }),
  }));
  return {
    policies: policies.map(({ facts }) => facts),
    limitsOf: (_, client) =>
      policies.map(({ policy }) => ({ policy, params: policy.params!, key: client, cost: 1 })),
  };
}

const abuse: TrafficOptions = { shape: 'abuser', requests: 6000, clients: 60, seed: 5 };

/** A client name that is HTML. */
export const NASTY = '<img src=x onerror=alert(1)>';

/** Returns generated traffic in which the abuser has HTML in its name and path. */
function entries(options: TrafficOptions): Entry[] {
  return [...generateTraffic(options)].map((entry) =>
    entry.path === '/login' && entry.status === 401
      ? Object.create(entry, {
          client: { value: NASTY },
          path: { value: '/"><script>alert(2)</script>' },
        })
      : entry,
  );
}

export function planResult(top?: number): PlanResult {
  const planner = new Planner({
    next: rulesOf([
      { name: 'perMinute', limit: 12, windowMs: 60_000 },
      { name: "</style>'&policy", limit: 3, windowMs: 1000, algorithm: 'token-bucket' },
      { name: 'watched', limit: 60, windowMs: 3_600_000, shadow: true },
    ]),
    current: rulesOf([{ name: 'perMinute', limit: 30, windowMs: 60_000 }]),
    clientOf: ({ client }) => client,
    top,
  });
  planner.add(entries(abuse));
  return planner.result();
}

export function compareResult(): CompareResult {
  const options = { limit: 10, windowMs: 60_000, keyOf: ({ client }: Entry) => client };
  const comparison = new Comparison(options);
  comparison.add([...generateTraffic({ shape: 'boundary', requests: 4500, clients: 25 })]);
  return comparison.result();
}

export function suggestResult(): SuggestResult {
  const suggester = new Suggester({ keyOf: ({ client }) => client });
  const all = entries({ ...abuse, durationMs: 3_600_000 });
  suggester.survey(all);
  suggester.choose();
  suggester.tryLimits(all);
  return suggester.result();
}

const NOON_MS = Date.UTC(2026, 9, 10, 12);

/** Explains the request at a time of a client that calls every `everyMs`, starting at noon. */
export function explainResult(
  algorithm: WindowAlgorithmName = 'sliding-log',
  { everyMs = 700, calls = 200, atMs = NOON_MS + 81_200, limit = 30, windowMs = 60_000 } = {},
): Explanation {
  const policy = definePolicy(NASTY, { limit, window: windowMs, algorithm });
  const explainer = new Explainer({ policy, keyOf: ({ client }) => client, key: NASTY, atMs });
  const [request] = generateTraffic({ shape: 'steady', requests: 1 });
  const entry = (timeMs: number): Entry =>
    Object.create(request, { timeMs: { value: timeMs }, client: { value: NASTY } });
  explainer.add(Array.from({ length: calls }, (_, call) => entry(NOON_MS + call * everyMs)));
  return explainer.result()!;
}

/** An explanation of a key of a service, which has no list of requests. */
export const liveResult = (algorithm: WindowAlgorithmName): Explanation => {
  const { seen: _seen, choice: _choice, ...explained } = explainResult(algorithm);
  return { ...explained, requests: [], inLog: false };
};

/** One result for each report, by its name in tests. */
export const results: Readonly<Record<string, () => ReportedResult>> = {
  plan: () => planResult(),
  compare: compareResult,
  suggest: suggestResult,
  explain: () => explainResult(),
  'explain-buckets': () => explainResult('sliding-buckets'),
  'explain-counter': () => explainResult('sliding-counter'),
  'explain-tokens': () => explainResult('token-bucket'),
  'explain-fixed': () => explainResult('fixed-window'),
  // Times with dates are wider.
  'explain-day': () =>
    explainResult('sliding-log', {
      ...{ everyMs: 1_000_007, calls: 200, limit: 60, windowMs: 86_400_000 },
      atMs: NOON_MS + 120 * 1_000_007,
    }),
  'explain-second': () =>
    explainResult('fixed-window', {
      ...{ everyMs: 20, calls: 200, limit: 30, windowMs: 1000, atMs: NOON_MS + 1780 },
    }),
  'explain-live': () => liveResult('sliding-log'),
  'explain-live-counter': () => liveResult('sliding-counter'),
};
