/**
 * Searches for the worst case of an algorithm: the bursts with the largest admitted cost in one
 * sliding window. Runs the algorithm on all schedules of up to three bursts, at the times where the
 * counts of any algorithm change.
 */
import type { Policy, SyncPolicyTable } from 'sluice';
import { unboundedStore } from './replay.ts';

export interface Burst {
  /** Time of the burst, since the start of a clock-aligned window. */
  readonly afterMs: number;
  /** The cost admitted. */
  readonly admitted: number;
}

export interface AdversaryReport {
  /** The largest cost admitted in one sliding window. */
  readonly count: number;
  /** `count` as a multiple of the limit. */
  readonly multiple: number;
  readonly schedule: readonly Burst[];
}

const MAX_BURSTS = 3;

/**
 * Returns times around window boundaries and in the middle of windows. The counts of all algorithms
 * change only there.
 */
function candidateTimes(windowMs: number): readonly number[] {
  const half = Math.floor(windowMs / 2);
  const edges = [0, windowMs, 2 * windowMs].flatMap((edge) => [edge - 2, edge - 1, edge, edge + 1]);
  const all = [...edges, half, windowMs + half];
  return [...new Set(all.filter((timeMs) => timeMs >= 0))].sort((a, b) => a - b);
}

/** Yields all subsets of one to `most` times, each in ascending order. */
function* subsets(times: readonly number[], most: number): Generator<readonly number[]> {
  for (const [at, timeMs] of times.entries()) {
    yield [timeMs];
    if (most === 1) continue;
    for (const rest of subsets(times.slice(at + 1), most - 1)) yield [timeMs, ...rest];
  }
}

/** Takes all remaining capacity of the key at each time. Returns the admitted costs. */
function run(
  table: SyncPolicyTable,
  policy: Policy,
  key: string,
  times: readonly number[],
): Burst[] {
  const params = policy.params!;
  const startMs = params.windowMs;
  return times.map((afterMs) => {
    const nowMs = startMs + afterMs;
    const { remaining } = table.peekSync(params, key, 0, nowMs);
    const isTaken = remaining > 0 && table.takeSync(params, key, remaining, nowMs).allowed;
    return { afterMs, admitted: isTaken ? remaining : 0 };
  });
}

/** Returns the largest admitted cost in any window that ends with a burst. */
function mostIn(windowMs: number, bursts: readonly Burst[]): number {
  const sums = bursts.map((last) =>
    bursts
      .filter(({ afterMs }) => afterMs <= last.afterMs && afterMs > last.afterMs - windowMs)
      .reduce((sum, { admitted }) => sum + admitted, 0),
  );
  return Math.max(...sums);
}

/** Returns true if `one` has fewer bursts than `other`, or as many that are closer together. */
const isSimpler = (one: readonly Burst[], other: readonly Burst[]): boolean =>
  one.length < other.length || (one.length === other.length && spanOf(one) < spanOf(other));

const spanOf = (bursts: readonly Burst[]): number =>
  (bursts[bursts.length - 1]?.afterMs ?? 0) - (bursts[0]?.afterMs ?? 0);

/**
 * Returns the schedule with the largest admitted cost in one sliding window. Of schedules with the
 * same cost, returns the simplest.
 */
export function adversaryOf(policy: Policy): AdversaryReport {
  const { limit, windowMs } = policy.params!;
  const table = unboundedStore().open(policy);
  let worst: readonly Burst[] = [];
  let most = 0;
  for (const times of subsets(candidateTimes(windowMs), MAX_BURSTS)) {
    // Each schedule has its own key, so that all schedules can share one store.
    const bursts = run(table, policy, times.join(), times).filter(({ admitted }) => admitted > 0);
    const count = mostIn(windowMs, bursts);
    const isBetter = count > most || (count === most && isSimpler(bursts, worst));
    if (isBetter) [worst, most] = [bursts, count];
  }
  return { count: most, multiple: most / limit, schedule: worst };
}
