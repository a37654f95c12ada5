/**
 * The earliest turn of somebody who waits behind others for the same key: a lower bound, as long as
 * those before them stay, so that nobody gives up who would have been served in time. `demand` is
 * what they and everybody before them ask for.
 */
import type { LimitDecision } from './decision.ts';
import type { Limit } from './store.ts';

/** How often a log has to be emptied before the demand is met: all but its last part. */
function turnsOf({ policy, terms }: Limit, demand: number): number {
  const isLog = policy.algorithm === 'sliding-log' || policy.algorithm === 'sliding-buckets';
  return isLog ? Math.ceil(demand / terms.limit) - 1 : 0;
}

/** What to ask the store about, to learn what `earliestTurnMs` needs. */
export function askedFor(limit: Limit, demand: number): Limit {
  const { algorithm } = limit.policy;
  // These two forget those before as time passes, so only the own cost says something.
  if (algorithm === 'fixed-window' || algorithm === 'sliding-counter') return limit;
  const cost = demand - turnsOf(limit, demand) * limit.terms.limit;
  return { ...limit, cost: Math.min(cost, limit.terms.capacity) };
}

/** The earliest turn, in ms from now, given what the store says about `askedFor`. */
export function earliestTurnMs(limit: Limit, demand: number, says: LimitDecision): number {
  const { limit: most, capacity, windowMs } = limit.terms;
  const { algorithm } = limit.policy;
  if (algorithm === 'fixed-window') {
    // This window serves what remains of it, each later one a limit.
    const windows = Math.ceil((demand - says.remaining) / most);
    return windows > 0 ? says.resetAfterMs + (windows - 1) * windowMs : 0;
  }
  // What is beyond a full bucket comes at the bucket's pace; what needs a log to be emptied needs
  // those before to have left the window.
  const beyond = algorithm === 'token-bucket' ? Math.max(demand - capacity, 0) / most : 0;
  return says.retryAfterMs + Math.floor((turnsOf(limit, demand) + beyond) * windowMs);
}
