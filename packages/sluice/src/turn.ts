/**
 * The earliest turn of somebody who waits behind others for the same key: a lower bound, so that
 * nobody gives up who would have been served in time. `demand` is what they and everybody before
 * them ask for.
 */
import type { LimitDecision } from './decision.ts';
import type { Limit } from './store.ts';

/** How often a log has to be emptied before the demand is met: all but its last part. */
const turnsOf = (demand: number, limit: number): number => Math.ceil(demand / limit) - 1;

/** What to ask the store about, to learn what `earliestTurnMs` needs. */
export function askedFor(limit: Limit, demand: number): Limit {
  const { algorithm } = limit.policy;
  const { limit: most, capacity } = limit.terms;
  if (algorithm === 'token-bucket') return { ...limit, cost: Math.min(demand, capacity) };
  const isLog = algorithm === 'sliding-log' || algorithm === 'sliding-buckets';
  return isLog ? { ...limit, cost: demand - turnsOf(demand, most) * most } : limit;
}

/** The earliest turn, in ms from now, given what the store says about `askedFor`. */
export function earliestTurnMs(
  { policy, terms }: Limit,
  demand: number,
  says: LimitDecision,
): number {
  const { limit, capacity, windowMs } = terms;
  switch (policy.algorithm) {
    case 'token-bucket':
      // What is beyond a full bucket comes at the bucket's pace.
      return says.retryAfterMs + Math.floor((Math.max(demand - capacity, 0) * windowMs) / limit);
    case 'fixed-window': {
      // This window serves what remains of it, each later one a limit.
      const windows = Math.ceil((demand - says.remaining) / limit);
      return windows > 0 ? says.resetAfterMs + (windows - 1) * windowMs : 0;
    }
    case 'sliding-counter':
      // It forgets gradually what it admitted, so those before may be forgotten in part.
      return says.retryAfterMs;
    default:
      // Whoever needs what a waiter before them got needs that to have left the window first.
      return says.retryAfterMs + turnsOf(demand, limit) * windowMs;
  }
}
