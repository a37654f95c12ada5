/**
 * What workers and the owner of the store say to each other. A line holds everything that a worker
 * asked for in one turn of its event loop, as one flat list:
 *
 *     define  id name algorithm windowMs bucketMs limit   no answer; the limit is 0 if keys differ
 *     time    nowMs                                       no answer; for what follows in the line
 *     check   count LIMIT*count                           ANSWER*count
 *     peek    count LIMIT*count                           ANSWER*count
 *     once    name count LIMIT*count                      (capacity ANSWER)*count
 *     adjust  ADJUSTMENT                                  change
 *     settle  receipt count ADJUSTMENT*count              1 change*count, or 0 if it was used
 *     reset   id key                                      0
 *     inspect id limit capacity key                       state, or 0
 *
 *     LIMIT   id limit capacity key cost
 *     ADJUSTMENT  LIMIT chargedAtMs delta
 *     ANSWER  retryAfterMs remaining resetAfterMs laterMs
 *
 * A policy is defined once and has a number from then on; to define a number anew forgets those
 * after it. `laterMs` is by how much it was decided after `nowMs`, because the key knew that time.
 * The line of answers begins with the time, and with what the store says of itself:
 *
 *     nowMs size evicted guaranteedKeys ANSWERS*
 *
 * `guaranteedKeys` is null if the store has no such number. ANSWERS has the result of each
 * operation, in order; an operation that failed has an object with its error instead.
 */
export const KIND = {
  define: 0,
  time: 1,
  check: 2,
  peek: 3,
  once: 4,
  adjust: 5,
  reset: 6,
  inspect: 7,
  settle: 8,
} as const;

/** The largest number of limits in a check, and of adjustments of a receipt. */
export { MAX_LIMITS } from 'sluice/engine';

/** A worker forgets its numbers then, and begins anew, so that neither table grows for ever. */
export const MAX_DEFINED = 1024;

/** An operation that could not be done, in the place of its answer. */
export interface OperationError {
  readonly error: string;
}

export const isError = (value: unknown): value is OperationError =>
  typeof value === 'object' && value !== null && 'error' in value;
