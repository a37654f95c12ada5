/** Random policies and traffic for the property tests. */
import fc from 'fast-check';
import type { PolicyOptions, WindowAlgorithmName } from '../../src/index.ts';
import { createLimiter, ManualClock } from '../../src/index.ts';

/** Few cases in the normal test run, many in `npm run properties`. */
export const RUNS = Number(process.env.PROPERTY_RUNS ?? 120);

export const START_MS = 1_745_000_100_000;

export const ALGORITHMS: readonly WindowAlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];

export interface Step {
  /** The time since the previous step. */
  readonly afterMs: number;
  readonly cost: number;
}

export interface Trace {
  readonly policy: PolicyOptions & { readonly window: number };
  readonly capacity: number;
  readonly steps: readonly Step[];
}

const windows = fc.constantFrom(1, 2, 7, 100, 997, 1000, 60_000, 86_400_000, 31_536_000_000);
const limits = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 12 }) },
  { weight: 1, arbitrary: fc.constantFrom(100, 9500, 250_000) },
);

/** Waits that are often close to the window, where off-by-one errors would show. */
function waits(windowMs: number): fc.Arbitrary<number> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: Math.max(1, Math.floor(windowMs / 4)) }) },
    { weight: 2, arbitrary: fc.constantFrom(0, 1) },
    { weight: 1, arbitrary: fc.constantFrom(windowMs - 1, windowMs, windowMs + 1) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 3 * windowMs }) },
  );
}

export function costs(capacity: number): fc.Arbitrary<number> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant(1) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: capacity }) },
    { weight: 1, arbitrary: fc.integer({ min: Math.ceil(capacity / 2), max: capacity }) },
  );
}

export function policies(algorithm: WindowAlgorithmName) {
  return fc
    .record({
      limit: limits,
      window: windows,
      buckets: fc.integer({ min: 1, max: 70 }),
      burst: fc.integer({ min: 1, max: 20 }),
    })
    .map(({ limit, window, buckets, burst }) => {
      if (algorithm === 'sliding-buckets') return { algorithm, limit, window, buckets };
      if (algorithm === 'token-bucket') return { algorithm, limit, window, burst };
      return { algorithm, limit, window };
    });
}

export const capacityOf = ({ limit, burst }: PolicyOptions): number => burst ?? (limit as number);

export function traces(algorithm: WindowAlgorithmName, maxLength = 20): fc.Arbitrary<Trace> {
  return policies(algorithm).chain((policy) => {
    const capacity = capacityOf(policy);
    const step = fc.record({ afterMs: waits(policy.window), cost: costs(capacity) });
    const steps = fc.array(step, { minLength: 1, maxLength });
    return steps.map((list) => ({ policy, capacity, steps: list }));
  });
}

export function open(policy: PolicyOptions) {
  const clock = new ManualClock(START_MS);
  return { clock, limiter: createLimiter({ policies: { p: policy }, clock }) };
}
