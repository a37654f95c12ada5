/** Random holds and window charges, compared with a model that keeps every hold. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLimiter, type Decision, ManualClock, type Receipt } from '../../src/index.ts';
import { RUNS, START_MS } from './traces.ts';

const TIMEOUT_MS = 600_000;
const KEYS = ['a', 'b'];

interface Hold {
  readonly key: string;
  readonly cost: number;
  readonly fence: number;
  expiresMs: number;
}

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant('check' as const),
      of: fc.nat(1),
      cost: fc.integer({ min: 1, max: 4 }),
      isJoint: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant('advance' as const),
      ms: fc.integer({ min: 1, max: 15 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('release' as const), of: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('renew' as const), of: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('refund' as const), of: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('reset' as const), of: fc.nat(1) }) },
);
const trace = fc.record({
  most: fc.integer({ min: 1, max: 6 }),
  leaseMs: fc.integer({ min: 1, max: 30 }),
  limit: fc.integer({ min: 4, max: 12 }),
  windowMs: fc.integer({ min: 1, max: 40 }),
  steps: fc.array(step, { minLength: 1, maxLength: 40 }),
});
type Trace = typeof trace extends fc.Arbitrary<infer T> ? T : never;

class Model {
  holds: Hold[] = [];
  charges: { key: string; cost: number; atMs: number }[] = [];

  constructor(readonly given: Trace) {}

  held(key: string, nowMs: number): number {
    const counting = this.holds.filter((hold) => hold.key === key && nowMs < hold.expiresMs);
    return counting.reduce((sum, { cost }) => sum + cost, 0);
  }

  charged(key: string, nowMs: number): number {
    const { windowMs } = this.given;
    const counting = this.charges.filter(
      (each) => each.key === key && each.atMs > nowMs - windowMs,
    );
    return counting.reduce((sum, { cost }) => sum + cost, 0);
  }

  /** Returns the first time from `nowMs` on at which both limits have room. */
  waitMs(key: string, cost: number, isJoint: boolean, nowMs: number): number {
    const { most, limit } = this.given;
    const fits = (atMs: number): boolean =>
      this.held(key, atMs) + cost <= most && (!isJoint || this.charged(key, atMs) + cost <= limit);
    let waitMs = 0;
    while (!fits(nowMs + waitMs)) waitMs++;
    return waitMs;
  }
}

function play(given: Trace): void {
  const { most, leaseMs, limit, windowMs, steps } = given;
  const clock = new ManualClock(START_MS);
  const policies = {
    held: { concurrency: most, lease: leaseMs },
    rate: { limit, window: windowMs },
  };
  const limiter = createLimiter({ policies, clock });
  const model = new Model(given);
  const receipts: { receipt: Receipt; hold: Hold; charge: Model['charges'][number] | undefined }[] =
    [];
  const newest = new Map<string, number>();
  const admit = (decision: Decision, key: string, cost: number, isJoint: boolean): void => {
    if (!decision.allowed) return;
    const { fence, receipt } = decision;
    expect(fence).toBeGreaterThan(newest.get(key) ?? 0);
    newest.set(key, fence!);
    const hold = { key, cost, fence: fence!, expiresMs: clock.now() + leaseMs };
    const charge = { key, cost, atMs: clock.now() };
    model.holds.push(hold);
    if (isJoint) model.charges.push(charge);
    receipts.push({ receipt, hold, charge: isJoint ? charge : undefined });
  };
  for (const each of steps) {
    const nowMs = clock.now();
    if (each.op === 'advance') clock.advance(each.ms);
    else if (each.op === 'check') {
      const key = KEYS[each.of];
      const cost = Math.min(each.cost, most);
      const expectedMs = model.waitMs(key, cost, each.isJoint, nowMs);
      const limits = [
        { policy: 'held', key, cost } as const,
        ...(each.isJoint ? [{ policy: 'rate', key, cost } as const] : []),
      ];
      const decision = limiter.checkSync(limits);
      expect(decision.retryAfterMs).toBe(expectedMs);
      admit(decision, key, cost, each.isJoint);
      expect(decision.limits[0].remaining).toBe(most - model.held(key, nowMs));
      let resetMs = 0;
      while (model.held(key, nowMs + resetMs) > 0) resetMs++;
      expect(decision.limits[0].resetAfterMs).toBe(resetMs);
    } else if (each.op === 'reset') {
      limiter.resetSync('held', KEYS[each.of]);
      model.holds = model.holds.filter(({ key }) => key !== KEYS[each.of]);
    } else if (receipts.length > 0) {
      const { receipt, hold, charge } = receipts[each.of % receipts.length];
      const counts = model.holds.includes(hold) && nowMs < hold.expiresMs;
      if (each.op === 'renew') {
        expect(limiter.renewSync(JSON.parse(JSON.stringify(receipt)))).toBe(counts);
        if (counts) hold.expiresMs = nowMs + leaseMs;
        continue;
      }
      model.holds = model.holds.filter((other) => other !== hold);
      if (each.op === 'release') expect(limiter.releaseSync(receipt)).toBe(counts);
      else {
        limiter.refundSync(receipt);
        model.charges = model.charges.filter((other) => other !== charge);
      }
    }
    for (const key of KEYS) {
      expect(model.held(key, clock.now())).toBeLessThanOrEqual(most);
      const { remaining } = limiter.peekSync('held', key);
      expect(remaining).toBe(most - model.held(key, clock.now()));
      expect(limiter.peekSync('rate', key).remaining).toBe(limit - model.charged(key, clock.now()));
    }
  }
}

it(
  'concurrency limits decide like the model, alone and together with a window limit',
  () => fc.assert(fc.property(trace, play), { numRuns: RUNS }),
  TIMEOUT_MS,
);

it(
  'a call that a concurrency limit denied passes after retryAfterMs, not 1 ms earlier',
  () =>
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.nat(10)), { maxLength: 12 }),
        fc.integer({ min: 1, max: 20 }),
        (calls, leaseMs) => {
          const clock = new ManualClock(START_MS);
          const limiter = createLimiter({
            policies: { p: { concurrency: 3, lease: leaseMs } },
            clock,
          });
          for (const [cost, ms] of calls) {
            const { allowed, retryAfterMs } = limiter.checkSync('p', 'a', { cost });
            if (!allowed) {
              clock.advance(retryAfterMs - 1);
              expect(limiter.checkSync('p', 'a', { cost }).allowed).toBe(false);
              clock.advance(1);
              expect(limiter.checkSync('p', 'a', { cost }).allowed).toBe(true);
            }
            clock.advance(ms);
          }
        },
      ),
      { numRuns: RUNS },
    ),
  TIMEOUT_MS,
);
