/** Estimates the time at which a waiter can be admitted. */
import type { QueueEstimate } from '../algorithms/algorithm.ts';
import { algorithms, isConcurrency } from '../algorithms/index.ts';
import type { CheckResult } from '../decision.ts';
import type { Check, Limit } from '../store.ts';

/**
 * Estimates the turn of a waiter: the earliest time at which it can be admitted after the waiters
 * before it. `demand` is the summed cost of this waiter and of all waiters before it.
 */
export const estimateTurn = ({ policy, params, cost }: Limit, demand: number): QueueEstimate =>
  algorithms[policy.algorithm].queueEstimate(params, cost, demand);

/**
 * Whether a check that the store denied at `decidedMs` is certain to be denied until its deadline.
 * Before the deadline, only a window limit makes this certain: a hold of a concurrency limit may be
 * released at any time.
 */
export function isDeniedUntil(
  deadlineMs: number,
  { limits }: Check,
  denial: CheckResult,
  decidedMs: number,
  nowMs: number,
): boolean {
  if (decidedMs + denial.retryAfterMs <= deadlineMs) return false;
  if (nowMs >= deadlineMs) return true;
  return denial.limits.some(
    ({ retryAfterMs }, at) =>
      decidedMs + retryAfterMs > deadlineMs && !isConcurrency(limits[at].policy),
  );
}
