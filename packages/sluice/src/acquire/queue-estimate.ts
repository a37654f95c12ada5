/**
 * The earliest turn of somebody who waits behind others for the same key: a lower bound, as long as
 * those before them stay, so that nobody gives up who would have been served in time. `demand` is
 * what they and everybody before them ask for.
 */
import type { LimitDecision } from '../decision.ts';
import type { Limit } from '../store.ts';

export interface QueueEstimate {
  /** What to ask the store about. */
  readonly asked: Limit;
  /** The earliest turn, in ms from now, given what the store says about that. */
  earliestMs(says: LimitDecision): number;
}

export function estimateQueue(limit: Limit, demand: number): QueueEstimate {
  const { limit: most, capacity, windowMs } = limit.params;
  const { algorithm } = limit.policy;
  if (algorithm === 'fixed-window') {
    // This window serves what remains of it, each later one a limit.
    const earliestMs = ({ remaining, resetAfterMs }: LimitDecision): number => {
      const windows = Math.ceil((demand - remaining) / most);
      return windows > 0 ? resetAfterMs + (windows - 1) * windowMs : 0;
    };
    return { asked: limit, earliestMs };
  }
  // A counter forgets those before as time passes, so only the own cost says something.
  let { cost } = limit;
  let windows = 0;
  if (algorithm === 'token-bucket') {
    // What is beyond a full bucket comes at the bucket's pace.
    cost = Math.min(demand, capacity);
    windows = (demand - cost) / most;
  } else if (algorithm !== 'sliding-counter') {
    // A log is emptied for all but the last part, so those before have to leave the window.
    windows = Math.ceil(demand / most) - 1;
    cost = demand - windows * most;
  }
  const beyondMs = Math.floor(windows * windowMs);
  return { asked: { ...limit, cost }, earliestMs: ({ retryAfterMs }) => retryAfterMs + beyondMs };
}
