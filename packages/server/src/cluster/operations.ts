/**
 * Protocol between workers (`remote-store.ts`) and the store process (`store-server.ts`). A worker
 * sends all operations of one turn of its event loop as one line: a flat JSON list, in which each
 * operation is a number of `KIND` followed by its parameters. The store process replies with one
 * line, in the order of the requests.
 *
 *     operation    parameters                                     results
 *     define       POLICY                                         none
 *     defineBlock  POLICY forMs factor maxMs forgetMs             none
 *     time         nowMs                                          none
 *     label        text                                           none
 *     check        count LIMIT*count                              RESULT*count
 *     peek         count LIMIT*count                              RESULT*count
 *     checkWithId  id client count LIMIT*count                    client (capacity RESULT)*count
 *     adjust       ADJUSTMENT                                     change
 *     settle       receipt client count ADJUSTMENT*count          1 change*count; 0 if used before
 *     reset        policy key                                     0
 *     block        policy key forMs                               0
 *     inspect      policy limit capacity key                      state; 0 if the key has none
 *
 *     POLICY       policy name algorithm windowMs bucketMs limit
 *     LIMIT        policy limit capacity key cost
 *     ADJUSTMENT   LIMIT chargedAtMs delta             for a concurrency limit, also: fence renew
 *     RESULT       retryAfterMs remaining resetAfterMs laterMs
 *                  for a concurrency limit, also: fence
 *                  for a policy with the `block` option, also: blockedUntilMs
 *
 * - `define` assigns the number `policy` to a policy, for this channel. Its `limit` is 0 if keys
 *   have different limits. Assigning a number again deletes all higher numbers. `defineBlock` is
 *   the same for a policy with the `block` option.
 * - `time` sets the time of all later operations of the line. Default: the store process's clock.
 * - `label` sets `Check.label` of the next check.
 * - `fence` and `blockedUntilMs` are 0 if there is none. `renew` is 1 for a renewal, else 0.
 * - `client` is the client to which the store attributes the memory of an id or a used receipt;
 *   empty if there is none.
 * - `laterMs` is the time of the decision minus the time of the reply. The times of a key never
 *   decrease, so a decision can be later than the clock.
 *
 * The reply has the time, the sizes of the store, and the results of all operations:
 *
 *     nowMs size evicted guaranteedKeys results...
 *
 * `guaranteedKeys` is null if the store does not report it. The result of a failed operation is an
 * object with the error.
 */
export const KIND = {
  define: 0,
  time: 1,
  check: 2,
  peek: 3,
  checkWithId: 4,
  adjust: 5,
  reset: 6,
  inspect: 7,
  settle: 8,
  block: 9,
  defineBlock: 10,
  label: 11,
} as const;

/** Maximum number of limits in a check, and of adjustments in a receipt. */
export { MAX_LIMITS } from 'sluice/engine';

/** Maximum number of policies on one channel. After that, a worker starts again from number 0. */
export const MAX_CHANNEL_POLICIES = 1024;

/** The result of a failed operation. */
export interface OperationError {
  readonly error: string;
}

export const isOperationError = (value: unknown): value is OperationError =>
  typeof value === 'object' && value !== null && 'error' in value;
