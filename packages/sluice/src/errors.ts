/**
 * Everything that can be wrong with a call, by code. Being denied is not here: that is a value.
 *
 * A code is stable: match on `error.code`, never on the message. The table is also the
 * documentation (docs/errors.md is compared with it by a test).
 */
export const errorCodes = {
  ERR_INVALID_OPTION: 'An option of `createLimiter` or `memoryStore` is unknown or out of range.',
  ERR_INVALID_POLICY: 'A policy is neither text such as `100/1m` nor an object with known fields.',
  ERR_INVALID_LIMIT: 'A limit is not an integer of at least 1.',
  ERR_INVALID_WINDOW: 'A window is not a duration of 1 ms to 36500 days.',
  ERR_INVALID_ALGORITHM: 'An algorithm is not one of the five.',
  ERR_INVALID_BUCKETS: 'A number of buckets is out of range, or the algorithm has no buckets.',
  ERR_INVALID_BURST: 'A burst is not an integer of at least 1, or the algorithm has no burst.',
  ERR_INVALID_COSTS: 'The named costs of a policy are not integers from 1 to what the policy holds.',
  ERR_LIMIT_TOO_LARGE: 'limit x window, or burst x window, does not fit exact arithmetic (2^53 - 1).',
  ERR_UNKNOWN_POLICY: 'A call names a policy that the limiter does not have.',
  ERR_UNKNOWN_OPERATION: 'A call names an operation that the policy gives no cost for.',
  ERR_INVALID_KEY: 'A key is not a string of 1 to 1,024 characters, or parts that make one.',
  ERR_INVALID_COST: 'A cost is not an integer of at least 1 (0 is for `peek` and `settle`).',
  ERR_COST_ABOVE_LIMIT: 'A cost is more than the policy can ever hold, so no wait would help.',
  ERR_INVALID_CHECK: 'A check is not made of 1 to 64 different limits.',
  ERR_INVALID_RECEIPT: 'A receipt did not come from an admitted check of this limiter.',
  ERR_INVALID_WAIT: 'A wait is not a number of milliseconds of at least 0.',
  ERR_INVALID_CLOCK: 'A clock gave something else than whole milliseconds since the epoch.',
  ERR_NOT_SYNCHRONOUS: 'A synchronous call was made on a store that answers only with promises.',
  ERR_CLOSED: 'A call was made on a limiter that has been closed.',
} as const;

export type ErrorCode = keyof typeof errorCodes;

/** Misuse: thrown before anything is written, with a stable `code`. */
export class SluiceError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SluiceError';
    this.code = code;
  }
}

/** Builds the one form all messages have: what was expected, and what came instead. */
export function expected(code: ErrorCode, what: string, came: unknown): SluiceError {
  return new SluiceError(code, `Expected ${what}, got ${shown(came)}`);
}

/** Writes any value short enough for a message, and never throws while doing so. */
function shown(value: unknown): string {
  if (typeof value === 'string') {
    const start = value.length > 60 ? `${value.slice(0, 60)}…` : value;
    return `\`${JSON.stringify(start)}\`${value.length > 60 ? ` (${value.length} characters)` : ''}`;
  }
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? `an array of ${value.length}` : 'an object';
  }
  return `\`${String(value)}\``;
}
