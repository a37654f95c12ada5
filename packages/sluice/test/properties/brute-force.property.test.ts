/**
 * Random traffic on many keys, compared with a checker that is independent of the implementation:
 * it keeps every admission and sums the window at each decision.
 */
import { expect, it } from 'vitest';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { START_MS } from './traces.ts';

const DECISIONS = Number(process.env.BRUTE_FORCE_DECISIONS ?? 80_000);
const SEED = Number(process.env.BRUTE_FORCE_SEED ?? 20_261_115);
const TIMEOUT_MS = 1_800_000;

/** Returns a random generator with a seed, so that a failure is reproducible. */
function random(seed: number): (below: number) => number {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

it.each(['sliding-log', 'sliding-buckets'] as const)(
  `of ${DECISIONS} decisions of %s, none exceeds the limit; sliding-log denies no cost that fits`,
  (algorithm) => {
    const next = random(SEED);
    const windowMs = 1000;
    const limit = 40;
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({
      policies: { p: { algorithm, limit, window: windowMs } },
      clock,
    });
    const admitted = new Map<string, { atMs: number; cost: number }[]>();
    let over = 0;
    let falseDenials = 0;
    let admissions = 0;
    for (let made = 0; made < DECISIONS; made++) {
      if (next(100) < 3) clock.advance(next(100) === 0 ? next(3000) : next(8));
      const key = `key-${next(50)}`;
      const cost = 1 + next(next(10) === 0 ? 40 : 4);
      const list = admitted.get(key) ?? [];
      const nowMs = clock.now();
      let counting = 0;
      for (const each of list) if (each.atMs > nowMs - windowMs) counting += each.cost;
      if (limiter.checkSync('p', key, { cost }).allowed) {
        admissions++;
        if (counting + cost > limit) over++;
        const kept = list.filter((each) => each.atMs > nowMs - windowMs);
        admitted.set(key, [...kept, { atMs: nowMs, cost }]);
      } else if (counting + cost <= limit && algorithm === 'sliding-log') falseDenials++;
    }
    expect({ over, falseDenials }).toEqual({ over: 0, falseDenials: 0 });
    // The traffic must have both outcomes often.
    expect(admissions).toBeGreaterThan(DECISIONS / 20);
    expect(admissions).toBeLessThan((DECISIONS * 19) / 20);
  },
  TIMEOUT_MS,
);
