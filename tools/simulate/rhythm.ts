/**
 * When the calls of a process come: in bursts, because only keys with many calls are hot.
 *
 *     regular    all processes begin together, again after about one window: the calls of a burst
 *                come when those of the one before leave the window. Finds entries that leave too
 *                early
 *     irregular  the processes are independent
 */
import type { Random } from './random.ts';

export interface Burst {
  readonly calls: number;
  /** The mean time between two calls. */
  readonly meanMs: number;
  /** The time from the start of this burst to the start of the next one. */
  readonly pauseMs: number;
}

export interface Demand {
  readonly windowMs: number;
  readonly leaseMs: number;
  /** The calls per window of one process. */
  readonly calls: number;
}

export interface Rhythm {
  /** Returns when a process begins its first burst. */
  readonly firstMs: () => number;
  readonly next: () => Burst;
}

export function rhythmOf(random: Random, demand: Demand): Rhythm {
  return random.chance(0.7) ? regular(random, demand) : irregular(random, demand);
}

function regular(random: Random, { windowMs, leaseMs, calls }: Demand): Rhythm {
  const periodMs = windowMs * random.pick([0.5, 1, 1]) + leaseMs * random.between(-1, 2);
  const lengthMs = leaseMs * random.pick([1, 3, 8, 20]);
  const burst = Math.ceil((calls * periodMs) / windowMs);
  return {
    firstMs: () => random.between(0, leaseMs),
    next: () => ({
      calls: burst,
      meanMs: lengthMs / burst,
      pauseMs: periodMs + leaseMs * random.between(-0.2, 0.2),
    }),
  };
}

function irregular(random: Random, { windowMs, leaseMs, calls }: Demand): Rhythm {
  const longest = random.pick([20, 80, 200]);
  const meanMs = leaseMs * random.pick([0.01, 0.03, 0.1]);
  const next = (): Burst => {
    const burst = random.integer(1, longest);
    return { calls: burst, meanMs, pauseMs: random.exponential((burst / calls) * windowMs) };
  };
  return { firstMs: () => next().pauseMs, next };
}
