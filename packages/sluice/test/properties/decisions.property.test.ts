/** Guarantees of decisions, for random policies, traffic and costs. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { ALGORITHMS, capacityOf, costs, open, policies, RUNS, START_MS, traces } from './traces.ts';

const TIMEOUT_MS = 600_000;

function holds<T>(name: string, arbitrary: fc.Arbitrary<T>, property: (value: T) => void): void {
  it(
    name,
    ({ task }) => {
      fc.assert(fc.property(arbitrary, property), { numRuns: RUNS });
      // Shows the progress of a long campaign.
      if (RUNS > 1000) process.stderr.write(`${task.suite?.name}: ${name}: ${RUNS} cases\n`);
    },
    TIMEOUT_MS,
  );
}

/** Returns the cost admitted in the window that ends at `endMs`. */
function inWindow(
  admitted: readonly { atMs: number; cost: number }[],
  endMs: number,
  windowMs: number,
): number {
  let sum = 0;
  for (const { atMs, cost } of admitted) if (atMs > endMs - windowMs && atMs <= endMs) sum += cost;
  return sum;
}

describe.each(['sliding-log', 'sliding-buckets'] as const)('%s', (algorithm) => {
  holds(
    `${algorithm} never admits more than the limit in any window`,
    traces(algorithm, 30),
    (trace) => {
      const { clock, limiter } = open(trace.policy);
      const admitted: { atMs: number; cost: number }[] = [];
      for (const { afterMs, cost } of trace.steps) {
        clock.advance(afterMs);
        if (limiter.checkSync('p', 'k', { cost }).allowed)
          admitted.push({ atMs: clock.now(), cost });
      }
      for (const { atMs } of admitted) {
        expect(inWindow(admitted, atMs, trace.policy.window)).toBeLessThanOrEqual(trace.capacity);
      }
    },
  );
});

describe('sliding-log', () => {
  holds(
    'sliding-log never denies a cost that fits',
    traces('sliding-log', 30),
    ({ policy, capacity, steps }) => {
      const { clock, limiter } = open(policy);
      const admitted: { atMs: number; cost: number }[] = [];
      for (const { afterMs, cost } of steps) {
        clock.advance(afterMs);
        const fits = inWindow(admitted, clock.now(), policy.window) + cost <= capacity;
        expect(limiter.checkSync('p', 'k', { cost }).allowed).toBe(fits);
        if (fits) admitted.push({ atMs: clock.now(), cost });
      }
    },
  );
});

describe.each(ALGORITHMS)('%s', (algorithm) => {
  holds(`${algorithm} admits at retryAfterMs and not 1 ms earlier`, traces(algorithm), (trace) => {
    const { clock, limiter } = open(trace.policy);
    for (const { afterMs, cost } of trace.steps) {
      clock.advance(afterMs);
      const nowMs = clock.now();
      const { allowed, retryAfterMs } = limiter.checkSync('p', 'k', { cost });
      expect(retryAfterMs === 0).toBe(allowed);
      if (allowed) continue;
      clock.set(nowMs + retryAfterMs - 1);
      expect(limiter.peekSync('p', 'k', { cost }).allowed).toBe(false);
      clock.set(nowMs + retryAfterMs);
      expect(limiter.peekSync('p', 'k', { cost }).allowed).toBe(true);
      clock.set(nowMs);
    }
  });

  holds(
    `${algorithm} has its full limit at resetAfterMs and not earlier`,
    traces(algorithm),
    (trace) => {
      const { clock, limiter } = open(trace.policy);
      for (const { afterMs, cost } of trace.steps) {
        clock.advance(afterMs);
        const nowMs = clock.now();
        const { resetAfterMs } = limiter.checkSync('p', 'k', { cost });
        clock.set(nowMs + resetAfterMs - 1);
        expect(limiter.peekSync('p', 'k').remaining).toBeLessThan(trace.capacity);
        clock.set(nowMs + resetAfterMs);
        expect(limiter.peekSync('p', 'k').remaining).toBe(trace.capacity);
        clock.set(nowMs);
      }
    },
  );

  holds(
    `remaining of ${algorithm} is exactly the largest cost that fits`,
    traces(algorithm),
    (trace) => {
      const { clock, limiter } = open(trace.policy);
      for (const { afterMs, cost } of trace.steps) {
        clock.advance(afterMs);
        const { remaining } = limiter.checkSync('p', 'k', { cost });
        expect(limiter.peekSync('p', 'k', { cost: remaining }).allowed).toBe(true);
        if (remaining === trace.capacity) continue;
        expect(limiter.peekSync('p', 'k', { cost: remaining + 1 }).allowed).toBe(false);
      }
    },
  );

  holds(
    `a peek of ${algorithm} changes nothing, even if the clock jumps`,
    fc.tuple(traces(algorithm), fc.array(fc.integer({ min: -3, max: 3 }))),
    ([{ policy, steps }, jumps]) => {
      const [plain, peeked] = [open(policy), open(policy)];
      for (const [place, { afterMs, cost }] of steps.entries()) {
        plain.clock.advance(afterMs);
        const nowMs = plain.clock.now();
        peeked.clock.set(Math.max(0, nowMs + (jumps[place] ?? 0) * policy.window));
        peeked.limiter.peekSync('p', 'k', { cost });
        peeked.clock.set(nowMs);
        const expected = plain.limiter.checkSync('p', 'k', { cost });
        expect(peeked.limiter.checkSync('p', 'k', { cost })).toEqual(expected);
      }
    },
  );

  holds(
    `a denied check of ${algorithm} changes nothing`,
    traces(algorithm, 30),
    ({ policy, steps }) => {
      const [all, admittedOnly] = [open(policy), open(policy)];
      for (const { afterMs, cost } of steps) {
        all.clock.advance(afterMs);
        admittedOnly.clock.advance(afterMs);
        const decision = all.limiter.checkSync('p', 'k', { cost });
        if (decision.allowed) admittedOnly.limiter.checkSync('p', 'k', { cost });
        const expected = admittedOnly.limiter.peekSync('p', 'k');
        expect(all.limiter.peekSync('p', 'k')).toEqual(expected);
        expect(decision.remaining).toBe(expected.remaining);
      }
    },
  );

  holds(
    `a refund of ${algorithm} restores the state before the refunded call`,
    traces(algorithm),
    ({ policy, steps }) => {
      const [plain, refunded] = [open(policy), open(policy)];
      for (const [place, { afterMs, cost }] of steps.entries()) {
        plain.clock.advance(afterMs);
        refunded.clock.advance(afterMs);
        // Every other call is made and refunded on one limiter only.
        if (place % 2 === 1) {
          const decision = refunded.limiter.checkSync('p', 'k', { cost });
          if (decision.allowed) expect(refunded.limiter.refundSync(decision.receipt)).toBe(cost);
          expect(refunded.limiter.peekSync('p', 'k')).toEqual(plain.limiter.peekSync('p', 'k'));
          continue;
        }
        const expected = plain.limiter.checkSync('p', 'k', { cost });
        expect(refunded.limiter.checkSync('p', 'k', { cost })).toEqual(expected);
      }
    },
  );
});

describe('a check of two limits', () => {
  const algorithm = fc.constantFrom(...ALGORITHMS);
  const pair = fc.tuple(algorithm.chain(policies), algorithm.chain(policies)).chain((both) => {
    const [first, second] = both;
    const step = fc.record({
      afterMs: fc.integer({ min: 0, max: first.window }),
      costs: fc.tuple(costs(capacityOf(first)), costs(capacityOf(second))),
    });
    return fc.record({ both: fc.constant(both), steps: fc.array(step, { maxLength: 15 }) });
  });

  holds(
    'two limits admit at retryAfterMs and not earlier, and a denial charges neither',
    pair,
    (one) => {
      const [a, b] = one.both;
      const clock = new ManualClock(START_MS);
      const limiter = createLimiter({ policies: { a, b }, clock });
      for (const { afterMs, costs: cost } of one.steps) {
        clock.advance(afterMs);
        const nowMs = clock.now();
        const limits = [
          { policy: 'a', key: 'k', cost: cost[0] },
          { policy: 'b', key: 'k', cost: cost[1] },
        ] as const;
        const before = [limiter.peekSync('a', 'k'), limiter.peekSync('b', 'k')];
        const decision = limiter.checkSync(limits);
        expect(decision.allowed).toBe(
          before[0].remaining >= cost[0] && before[1].remaining >= cost[1],
        );
        const spent = decision.allowed ? cost : [0, 0];
        expect(limiter.peekSync('a', 'k').remaining).toBe(before[0].remaining - spent[0]);
        expect(limiter.peekSync('b', 'k').remaining).toBe(before[1].remaining - spent[1]);
        if (decision.allowed) continue;
        clock.set(nowMs + decision.retryAfterMs - 1);
        expect(limiter.peekSync(limits).allowed).toBe(false);
        clock.set(nowMs + decision.retryAfterMs);
        expect(limiter.peekSync(limits).allowed).toBe(true);
        clock.set(nowMs);
      }
    },
  );
});
