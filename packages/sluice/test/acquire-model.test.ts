/** `acquire` compared with a reference model that searches one list of all waiters. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock, memoryStore, type Receipt, type Store } from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';
import { ALGORITHMS } from './properties/traces.ts';
import { WaitingModel, type WantedLimit } from './waiting-model.ts';

const START_MS = 1_745_000_100_000;

const limit = fc.record({
  policy: fc.constantFrom('p', 'q'),
  key: fc.constantFrom('a', 'b'),
  cost: fc.integer({ min: 1, max: 3 }),
});
const limits = fc.uniqueArray(limit, {
  minLength: 1,
  maxLength: 3,
  selector: ({ policy, key }) => policy + key,
});
const maxWaitMs = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(20, 40, 1e6));
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('arrive' as const), limits, maxWaitMs }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(25) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('abort' as const), which: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('refund' as const), which: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const), limit }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Resolves when all promise callbacks have run. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function expectSame(steps: readonly Step[], algorithm: string, store: Store) {
  const policies = {
    p: { limit: 4, window: 20, algorithm } as never,
    q: { limit: 3, window: 30, algorithm } as never,
  };
  const modelClock = new ManualClock(START_MS);
  const alone = createLimiter({ policies, clock: modelClock });
  const model = new WaitingModel(alone, modelClock, policies);
  const clock = new ManualClock(START_MS);
  const limiter = createLimiter({ policies, clock, store });
  const outcomes = new Map<number, readonly unknown[]>();
  const receipts: Receipt[] = [];
  const stops: AbortController[] = [];

  const start = (wanted: readonly WantedLimit[], waitMs: number): void => {
    const id = stops.push(new AbortController()) - 1;
    const { signal } = stops[id];
    limiter.acquire(wanted as never, { maxWaitMs: waitMs, signal }).then(
      (decision) => {
        if (decision.allowed) receipts.push(decision.receipt);
        const outcome = decision.allowed ? ['served'] : ['denied', decision.retryAfterMs];
        outcomes.set(id, [...outcome, clock.now()]);
      },
      () => outcomes.set(id, ['aborted', clock.now()]),
    );
    model.arrive(id, wanted, waitMs);
  };
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed++) {
      clock.advance(1);
      model.tick();
      await settle();
    }
  };

  for (const each of steps) {
    if (each.do === 'arrive') start(each.limits, each.maxWaitMs);
    if (each.do === 'pass') await pass(each.ms);
    if (each.do === 'abort' && each.which < stops.length) {
      stops[each.which].abort();
      model.abort(each.which);
    }
    if (each.do === 'refund' && each.which < receipts.length) {
      // The receipts of one millisecond may come in another order, so both refund the same.
      const [receipt] = receipts.splice(each.which, 1);
      const text = JSON.stringify(receipt);
      const at = model.receipts.findIndex((other) => JSON.stringify(other) === text);
      model.refund(model.receipts.splice(at, 1)[0]);
      await limiter.refund(receipt);
    }
    if (each.do === 'reset') {
      model.reset(each.limit);
      await limiter.reset(each.limit.policy as never, each.limit.key);
    }
    await settle();
    expect([...outcomes].sort(byId)).toEqual([...model.outcomes].sort(byId));
  }
  // Ends as soon as every call has an outcome.
  const isOver = () => outcomes.size === stops.length && model.outcomes.size === stops.length;
  for (let passed = 0; passed < 400 && !isOver(); passed++) await pass(1);
  expect([...outcomes].sort(byId)).toEqual([...model.outcomes].sort(byId));
  await limiter.close();
}

const byId = ([one]: readonly [number, unknown], [other]: readonly [number, unknown]): number =>
  one - other;

describe.each([
  ['a synchronous store', memoryStore],
  ['an asynchronous store', promisesOnly],
])('acquire on %s', (_, open) => {
  it.each(ALGORITHMS)(
    'acquire of a %s limit has the outcomes and times of the reference model',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 25 }), (steps) =>
          expectSame(steps, algorithm, open()),
        ),
        { numRuns: Number(process.env.PROPERTY_RUNS ?? 40) },
      );
    },
  );
});
