/**
 * The worst that a client can do to an algorithm that it knows: which bursts, at which times, get
 * the most through in one true window. Schedules of up to three bursts at the times that matter to
 * any of the algorithms are all tried on the engine; nothing is taken from theory.
 */
import type { Policy, SyncPolicyTable } from 'sluice';
import { roomyStore } from './replay.ts';

export interface Burst {
  /** Since a window of the clock began. */
  readonly afterMs: number;
  /** What was let through. */
  readonly admitted: number;
}

export interface AdversaryReport {
  /** The most that was admitted in one window of the last W. */
  readonly count: number;
  /** The same as a multiple of the limit. */
  readonly multiple: number;
  readonly schedule: readonly Burst[];
}

const MAX_BURSTS = 3;

/** Just before and after windows end, and their middles: where what counts changes. */
function timesThatMatter(windowMs: number): readonly number[] {
  const half = Math.floor(windowMs / 2);
  const edges = [0, windowMs, 2 * windowMs].flatMap((edge) => [edge - 2, edge - 1, edge, edge + 1]);
  const all = [...edges, half, windowMs + half];
  return [...new Set(all.filter((timeMs) => timeMs >= 0))].sort((a, b) => a - b);
}

/** All ways to choose up to so many of the times, in order. */
function* choices(times: readonly number[], most: number): Generator<readonly number[]> {
  for (const [at, timeMs] of times.entries()) {
    yield [timeMs];
    if (most === 1) continue;
    for (const rest of choices(times.slice(at + 1), most - 1)) yield [timeMs, ...rest];
  }
}

/** Takes all there is at each of the times. */
function run(
  space: SyncPolicyTable,
  policy: Policy,
  key: string,
  times: readonly number[],
): Burst[] {
  const params = policy.params!;
  const startMs = params.windowMs;
  return times.map((afterMs) => {
    const nowMs = startMs + afterMs;
    const { remaining } = space.peekSync(params, key, 0, nowMs);
    const isTaken = remaining > 0 && space.takeSync(params, key, remaining, nowMs).allowed;
    return { afterMs, admitted: isTaken ? remaining : 0 };
  });
}

/** The most in any window that ends with one of the bursts. */
function mostIn(windowMs: number, bursts: readonly Burst[]): number {
  const sums = bursts.map((last) =>
    bursts
      .filter(({ afterMs }) => afterMs <= last.afterMs && afterMs > last.afterMs - windowMs)
      .reduce((sum, { admitted }) => sum + admitted, 0),
  );
  return Math.max(...sums);
}

/** Fewer bursts are better, and then those that lie closer together. */
const isSimpler = (one: readonly Burst[], other: readonly Burst[]): boolean =>
  one.length < other.length || (one.length === other.length && spanOf(one) < spanOf(other));

const spanOf = (bursts: readonly Burst[]): number =>
  (bursts[bursts.length - 1]?.afterMs ?? 0) - (bursts[0]?.afterMs ?? 0);

/** The worst of all schedules; of equals the simplest. */
export function adversaryOf(policy: Policy): AdversaryReport {
  const { limit, windowMs } = policy.params!;
  const space = roomyStore().open(policy);
  let worst: readonly Burst[] = [];
  let most = 0;
  for (const times of choices(timesThatMatter(windowMs), MAX_BURSTS)) {
    // Each schedule is a client of its own, so all of them have one store.
    const bursts = run(space, policy, times.join(), times).filter(({ admitted }) => admitted > 0);
    const count = mostIn(windowMs, bursts);
    const isBetter = count > most || (count === most && isSimpler(bursts, worst));
    if (isBetter) [worst, most] = [bursts, count];
  }
  return { count: most, multiple: most / limit, schedule: worst };
}
