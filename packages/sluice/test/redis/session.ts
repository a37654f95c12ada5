/**
 * A session of all methods of a limiter, in sequence, on a clock that does not move. Without faults
 * its results are always the same. It sums the admitted cost of each key. A refund is subtracted
 * even if it fails, because the store may have applied it.
 */
import {
  createLimiter,
  type Decision,
  ManualClock,
  type Receipt,
  SluiceError,
  type Store,
} from '../../src/index.ts';

export const START_MS = 1_745_000_100_000;

export const POLICIES = {
  p: '5/1m',
  q: { limit: 4, window: '1m', algorithm: 'token-bucket' },
  f: { limit: 6, window: '1m', algorithm: 'fixed-window' },
} as const;

export type PolicyName = keyof typeof POLICIES;
export const LIMITS: Readonly<Record<PolicyName, number>> = { p: 5, q: 4, f: 6 };

/** All keys that a session uses. */
export const KEYS: readonly (readonly [PolicyName, string])[] = [
  ['p', 'a'],
  ['p', 'b'],
  ['q', 'b'],
  ['q', 'c'],
  ['f', 'd'],
  ['q', 'd'],
];

export const limiterOn = (store: Store) =>
  createLimiter({ policies: POLICIES, store, clock: new ManualClock(START_MS) });

/** The results of a session, and the cost that must be charged because of them. */
export interface Outcome {
  /** Results as JSON, or the code of an error. */
  readonly results: readonly string[];
  /** Errors without a code of the limiter. */
  readonly untyped: readonly unknown[];
  readonly degraded: number;
  readonly failed: number;
  /** By policy and key: the least cost that Redis must have charged. */
  readonly admitted: ReadonlyMap<string, number>;
}

export const nameOf = (policy: string, key: string): string => `${policy} ${key}`;

class AdmittedCosts {
  readonly byKey = new Map<string, number>();
  readonly #ids = new Set<string>();

  addDecision({ allowed, limits }: Decision, id?: string): void {
    if (!allowed) return;
    for (const { policy, key, cost } of limits) {
      const name = nameOf(policy, key);
      if (id !== undefined && this.#ids.has(`${name} ${id}`)) continue;
      if (id !== undefined) this.#ids.add(`${name} ${id}`);
      this.add(name, cost);
    }
  }

  add(name: string, by: number): void {
    this.byKey.set(name, Math.max((this.byKey.get(name) ?? 0) + by, 0));
  }
}

export async function runSession(store: Store): Promise<Outcome> {
  const limiter = limiterOn(store);
  const admitted = new AdmittedCosts();
  const results: string[] = [];
  const untyped: unknown[] = [];
  const count = { degraded: 0, failed: 0 };
  const attempt = async <T>(call: () => Promise<T>): Promise<T | undefined> => {
    try {
      const result = await call();
      if ((result as Decision | undefined)?.degraded) count.degraded++;
      results.push(JSON.stringify(result) ?? 'undefined');
      return result;
    } catch (error) {
      count.failed++;
      results.push(String((error as SluiceError).code));
      if (!(error instanceof SluiceError)) untyped.push(error);
      return undefined;
    }
  };
  const check = async (call: () => Promise<Decision>, id?: string) => {
    const decision = await attempt(call);
    if (decision !== undefined) admitted.addDecision(decision, id);
    return decision?.receipt;
  };
  // A denied call cannot be settled, so the session has one call less.
  const settle = async (receipt: Receipt | undefined, actual: number): Promise<void> => {
    if (receipt === undefined) return;
    for (const { policy, key, cost } of receipt.charges) {
      admitted.add(nameOf(policy, key), Math.min(actual - cost, 0));
    }
    await attempt(() => limiter.settle(receipt, actual));
  };
  const both = [
    { policy: 'p', key: 'b', cost: 2 },
    { policy: 'q', key: 'b' },
  ] as const;
  const once = [
    { policy: 'f', key: 'd', cost: 3 },
    { policy: 'q', key: 'd' },
  ] as const;

  await check(() => limiter.check('p', 'a', { cost: 2 }));
  const second = await check(() => limiter.check('p', 'a', { cost: 2 }));
  const joint = await check(() => limiter.check(both));
  await attempt(() => limiter.peek('p', 'a', { cost: 1 }));
  await check(() => limiter.check('p', 'a', { cost: 3 }));
  await settle(second, 0);
  const third = await check(() => limiter.check('p', 'a', { cost: 3 }));
  await settle(third, 1);
  await settle(joint, 0);
  for (let time = 0; time < 2; time++) {
    await check(() => limiter.check('q', 'c', { id: 'x', cost: 3 }), 'x');
    await check(() => limiter.check(once, { id: 'y' }), 'y');
  }
  await attempt(() => limiter.inspect('p', 'a'));
  admitted.byKey.delete(nameOf('p', 'b'));
  await attempt(() => limiter.reset('p', 'b'));
  await check(() => limiter.check(both));
  await attempt(() => limiter.inspect('f', 'd'));
  return { results, untyped, ...count, admitted: admitted.byKey };
}
