/** Estimates of when a waiter can be admitted. */
import type { QueueEstimate } from '../algorithms/algorithm.ts';
import { algorithms, isConcurrency } from '../algorithms/index.ts';
import type { CheckResult } from '../decision.ts';
import type { Check, Limit } from '../store.ts';

/** Estimates the turn of the last of the waiters whose cost together is `demand`. */
export const estimateTurn = ({ policy, params, cost }: Limit, demand: number): QueueEstimate =>
  algorithms[policy.algorithm].queueEstimate(params, cost, demand);

/**
 * Whether a check that was denied at `decidedMs` is certain to be denied up to its deadline. A hold
 * of a concurrency limit may be released at any time, so only the waits of window limits are
 * certain.
 */
export function isAfter(
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
