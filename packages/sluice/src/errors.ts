/**
 * Everything that can be wrong with a call, by code. Being denied is not here: that is a value.
 *
 * A code is stable: match on `error.code`, never on the message. The comments are the table in
 * docs/errors.md, which a test compares; as types they cost nothing at run time.
 */
export interface ErrorCodes {
  /** An option or field is unknown, misspelt or out of range. */
  ERR_INVALID_OPTION: never;
  /** A policy is neither text such as `100/1m` nor an object with known fields. */
  ERR_INVALID_POLICY: never;
  /** A limit is not an integer of at least 1. */
  ERR_INVALID_LIMIT: never;
  /** A window is not a duration of 1 ms to 36500 days. */
  ERR_INVALID_WINDOW: never;
  /** An algorithm is not one of the five. */
  ERR_INVALID_ALGORITHM: never;
  /** A number of buckets is out of range, or the algorithm has no buckets. */
  ERR_INVALID_BUCKETS: never;
  /** A burst is not an integer of at least 1, or the algorithm has no burst. */
  ERR_INVALID_BURST: never;
  /** The named costs of a policy are not integers from 1 to what the policy holds. */
  ERR_INVALID_COSTS: never;
  /** limit x window, or burst x window, does not fit exact arithmetic (2^53 - 1). */
  ERR_LIMIT_TOO_LARGE: never;
  /** A call names a policy that the limiter does not have. */
  ERR_UNKNOWN_POLICY: never;
  /** A call names an operation that the policy gives no cost for. */
  ERR_UNKNOWN_OPERATION: never;
  /** A key is not a string of 1 to 1,024 characters, or parts that make one. */
  ERR_INVALID_KEY: never;
  /** A cost is not an integer of at least 1 (0 is for `peek` and `settle`). */
  ERR_INVALID_COST: never;
  /** A cost is more than the policy can ever hold, so no wait would help. */
  ERR_COST_ABOVE_LIMIT: never;
  /** A check is not made of 1 to 64 different limits. */
  ERR_INVALID_CHECK: never;
  /** A receipt has not the form that an admitted check gives it. */
  ERR_INVALID_RECEIPT: never;
  /** A wait is not a number of milliseconds of at least 0. */
  ERR_INVALID_WAIT: never;
  /** A clock gave something else than whole milliseconds since the epoch. */
  ERR_INVALID_CLOCK: never;
  /** A synchronous call was made on a store that answers only with promises. */
  ERR_NOT_SYNCHRONOUS: never;
  /** The store did not answer, and nothing else could be done, or was to be. */
  ERR_STORE_UNAVAILABLE: never;
  /** A request has no readable address of its client, so there is no key for it. */
  ERR_NO_CLIENT_ADDRESS: never;
  /** A call to another API is over its budget; `retryAfterMs` says when it is not. */
  ERR_RATE_LIMITED: never;
  /** A call was made on a limiter that has been closed. */
  ERR_CLOSED: never;
}

export type ErrorCode = keyof ErrorCodes;

/** Misuse: thrown before anything is written, with a stable `code`. */
export class SluiceError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SluiceError';
    this.code = code;
  }
}

/** For calls on a limiter that has been closed, and for those who were waiting then. */
export const closed = (): SluiceError => new SluiceError('ERR_CLOSED', 'The limiter was closed');

/** Builds the one form all messages have: what was expected, and what came instead. */
export function expected(code: ErrorCode, what: string, came: unknown): SluiceError {
  return new SluiceError(code, `Expected ${what}, got ${shown(came)}`);
}

/** Writes any value short enough for a message, and never throws while doing so. */
function shown(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isRecord(value)) return 'an object';
  if (typeof value !== 'string') return `\`${String(value)}\``;
  return `\`${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)}\``;
}

/** Whether a value is an exact integer of at least `least`. */
export function isInteger(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least;
}

/** Returns `value` if it is an exact integer from `least` to `most`, and throws otherwise. */
export function checkInteger(
  code: ErrorCode,
  what: string,
  value: unknown,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  if (isInteger(value, least) && value <= most) return value;
  throw expected(code, `${what} to be an integer from ${least} to ${most}`, value);
}

/** Whether a value has named fields: an object that is not a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Refuses a value without the methods that it is there for. */
export function checkMethods(what: string, value: unknown, ...names: readonly string[]): void {
  const given = value as Record<string, unknown> | null | undefined;
  if (names.every((name) => typeof given?.[name] === 'function')) return;
  throw expected('ERR_INVALID_OPTION', what, value);
}

/** Refuses a misspelt field, which would otherwise silently mean the default. */
export function checkFields(
  value: unknown,
  allowed: readonly string[],
  code: ErrorCode = 'ERR_INVALID_OPTION',
  what = '',
): void {
  const isObject = isRecord(value);
  const stray = isObject ? Object.keys(value).find((name) => !allowed.includes(name)) : value;
  if (isObject && stray === undefined) return;
  throw expected(code, `${what}an object with only ${allowed.join(', ')}`, stray);
}
