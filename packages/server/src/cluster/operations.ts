/**
 * Protocol between workers and the store process. A line is a flat list with all operations of one
 * turn of the worker's event loop:
 *
 *     define  id name algorithm windowMs bucketMs limit   no result; the limit is 0 if keys differ
 *     time    nowMs                                       no result; for the rest of the line
 *     check   count LIMIT*count                           RESULT*count
 *     peek    count LIMIT*count                           RESULT*count
 *     once    name CLIENT count LIMIT*count               CLIENT (capacity RESULT)*count
 *     adjust  ADJUSTMENT                                  change
 *     settle  receipt CLIENT count ADJUSTMENT*count       1 change*count, or 0 if it was used
 *     reset   id key                                      0
 *     inspect id limit capacity key                       state, or 0
 *
 *     LIMIT   id limit capacity key cost
 *     ADJUSTMENT  LIMIT chargedAtMs delta
 *     RESULT  retryAfterMs remaining resetAfterMs laterMs
 *     CLIENT  the client that a record is accounted to; empty if there is none
 *
 * `define` assigns a number to a policy; defining a number again deletes those after it. `laterMs`
 * is the time of the decision minus `nowMs`: a key never goes back in time, so the decision may be
 * later. The reply is a line with the time, figures of the store, and the results in order:
 *
 *     nowMs size evicted guaranteedKeys results...
 *
 * `guaranteedKeys` is null if the store does not have it. A failed operation has an object with its
 * error as the result.
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

/** Maximum number of limits in a check, and of adjustments in a receipt. */
export { MAX_LIMITS } from 'sluice/engine';

/** Maximum number of defined policies. A worker then starts again from 0. */
export const MAX_DEFINED = 1024;

/** The result of a failed operation. */
export interface OperationError {
  readonly error: string;
}

export const isError = (value: unknown): value is OperationError =>
  typeof value === 'object' && value !== null && 'error' in value;
