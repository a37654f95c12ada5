/** Random checks of limits with blocks, compared with a model that keeps every admission. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { RUNS, START_MS } from './traces.ts';

const TIMEOUT_MS = 600_000;
const duration = fc.integer({ min: 1, max: 40 });

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant('check' as const),
      cost: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('advance' as const), ms: duration }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('peek' as const), cost: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('block' as const), ms: duration }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('unblock' as const) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('reset' as const) }) },
);
const trace = fc.record({
  limit: fc.integer({ min: 3, max: 6 }),
  windowMs: duration,
  forMs: duration,
  factor: fc.integer({ min: 1, max: 3 }),
  moreMs: fc.nat(200),
  forgetMs: fc.nat(100),
  steps: fc.array(step, { minLength: 1, maxLength: 60 }),
});
type Trace = typeof trace extends fc.Arbitrary<infer T> ? T : never;

function play({ limit, windowMs, forMs, factor, moreMs, forgetMs, steps }: Trace): void {
  const maxMs = forMs + moreMs;
  const clock = new ManualClock(START_MS);
  const block = { for: forMs, factor, max: maxMs, forget: forgetMs };
  const limiter = createLimiter({ policies: { p: { limit, window: windowMs, block } }, clock });
  let admitted: { atMs: number; cost: number }[] = [];
  let untilMs = Number.NEGATIVE_INFINITY;
  let count = 0;
  const usedAt = (atMs: number): number =>
    admitted.filter((each) => each.atMs > atMs - windowMs).reduce((sum, { cost }) => sum + cost, 0);
  const waitAt = (nowMs: number, cost: number): number => {
    let waitMs = 0;
    while (nowMs + waitMs < untilMs || usedAt(nowMs + waitMs) + cost > limit) waitMs++;
    return waitMs;
  };
  /** The number of blocks in a row before the next one. */
  const countAt = (nowMs: number): number => (nowMs - untilMs > forgetMs ? 0 : count);
  for (const each of steps) {
    const nowMs = clock.now();
    if (each.op === 'advance') clock.advance(each.ms);
    else if (each.op === 'unblock' || each.op === 'reset') {
      limiter[`${each.op}Sync`]('p', 'a');
      untilMs = Number.NEGATIVE_INFINITY;
      if (each.op === 'reset') admitted = [];
    } else if (each.op === 'block') {
      limiter.blockSync('p', 'a', each.ms);
      count = countAt(nowMs);
      untilMs = nowMs + each.ms;
    } else {
      const isRunning = nowMs < untilMs;
      const fits = !isRunning && usedAt(nowMs) + each.cost <= limit;
      const got =
        each.op === 'check'
          ? limiter.checkSync('p', 'a', { cost: each.cost })
          : limiter.peekSync('p', 'a', { cost: each.cost });
      if (each.op === 'check' && fits) admitted.push({ atMs: nowMs, cost: each.cost });
      if (each.op === 'check' && !fits && !isRunning) {
        const before = countAt(nowMs);
        untilMs = nowMs + Math.min(forMs * factor ** before, maxMs);
        count = before + 1;
      }
      let resetMs = 0;
      while (nowMs + resetMs < untilMs || usedAt(nowMs + resetMs) > 0) resetMs++;
      expect(got).toMatchObject({
        allowed: fits,
        remaining: nowMs < untilMs ? 0 : limit - usedAt(nowMs),
        retryAfterMs: fits ? 0 : waitAt(nowMs, each.cost),
        resetAfterMs: resetMs,
      });
      expect(got.blockedUntilMs).toBe(nowMs < untilMs ? untilMs : undefined);
    }
  }
}

it(
  'limits with blocks decide like the reference model',
  () => fc.assert(fc.property(trace, play), { numRuns: RUNS }),
  TIMEOUT_MS,
);

it(
  'a denied call during a block changes nothing',
  () =>
    fc.assert(
      fc.property(fc.array(fc.nat(30), { maxLength: 20 }), duration, (pauses, forMs) => {
        const clock = new ManualClock(START_MS);
        const policies = { p: { limit: 2, window: 20, block: { for: forMs, factor: 2 } } };
        const [quiet, busy] = [0, 1].map(() => createLimiter({ policies, clock }));
        for (const limiter of [quiet, busy]) {
          limiter.checkSync('p', 'a', { cost: 2 });
          limiter.checkSync('p', 'a');
        }
        for (const ms of pauses) {
          clock.advance(ms);
          if (busy.peekSync('p', 'a').blockedUntilMs !== undefined) busy.checkSync('p', 'a');
          expect(busy.inspectSync('p', 'a')).toEqual(quiet.inspectSync('p', 'a'));
        }
      }),
      { numRuns: RUNS },
    ),
  TIMEOUT_MS,
);
