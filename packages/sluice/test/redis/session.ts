/**
 * A session of all that a limiter can be asked, one after the other, on a clock that stands still:
 * without faults its answers are always the same. It keeps the books of a careful caller, who knows
 * what was admitted, and counts as gone whatever was to be given back.
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

/** Everything that a session touches. */
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

/** What the caller was told, and what must be charged because of it. */
export interface Outcome {
  /** Answers as JSON; instead of an error its code. */
  readonly answers: readonly string[];
  /** Whatever was thrown and is not an error of the limiter's. */
  readonly untyped: readonly unknown[];
  readonly degraded: number;
  readonly failed: number;
  /** By policy and key: the least that Redis has to hold. */
  readonly owed: ReadonlyMap<string, number>;
}

export const nameOf = (policy: string, key: string): string => `${policy} ${key}`;

class Books {
  readonly owed = new Map<string, number>();
  readonly #ids = new Set<string>();

  admitted({ allowed, limits }: Decision, id?: string): void {
    if (!allowed) return;
    for (const { policy, key, cost } of limits) {
      const name = nameOf(policy, key);
      if (id !== undefined && this.#ids.has(`${name} ${id}`)) continue;
      if (id !== undefined) this.#ids.add(`${name} ${id}`);
      this.add(name, cost);
    }
  }

  add(name: string, by: number): void {
    this.owed.set(name, Math.max((this.owed.get(name) ?? 0) + by, 0));
  }
}

export async function runSession(store: Store): Promise<Outcome> {
  const limiter = limiterOn(store);
  const books = new Books();
  const answers: string[] = [];
  const untyped: unknown[] = [];
  const count = { degraded: 0, failed: 0 };
  const attempt = async <T>(ask: () => Promise<T>): Promise<T | undefined> => {
    try {
      const answer = await ask();
      if ((answer as Decision | undefined)?.degraded) count.degraded++;
      answers.push(JSON.stringify(answer) ?? 'nothing');
      return answer;
    } catch (error) {
      count.failed++;
      answers.push(String((error as SluiceError).code));
      if (!(error instanceof SluiceError)) untyped.push(error);
      return undefined;
    }
  };
  const check = async (ask: () => Promise<Decision>, id?: string) => {
    const decision = await attempt(ask);
    if (decision !== undefined) books.admitted(decision, id);
    return decision?.receipt;
  };
  // What was not admitted cannot be settled: then there is one question less.
  const settle = async (receipt: Receipt | undefined, actual: number): Promise<void> => {
    if (receipt === undefined) return;
    for (const { policy, key, cost } of receipt.charges) {
      books.add(nameOf(policy, key), Math.min(actual - cost, 0));
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
  books.owed.delete(nameOf('p', 'b'));
  await attempt(() => limiter.reset('p', 'b'));
  await check(() => limiter.check(both));
  await attempt(() => limiter.inspect('f', 'd'));
  return { answers, untyped, ...count, owed: books.owed };
}
