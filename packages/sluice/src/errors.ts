/**
 * Error codes. A denial is a value, not an error.
 *
 * Codes are stable: match on `error.code`, never on the message. A test compares the comments with
 * the table in docs/errors.md. Codes are types, so they take no space at run time.
 */
export interface ErrorCodes {
  /** An option or field is unknown, misspelt or out of range. */
  ERR_INVALID_OPTION: never;
  /** A policy is neither text such as `100/1m` nor an object with known fields. */
  ERR_INVALID_POLICY: never;
  /** A limit, or the `concurrency` of a policy, is not an integer of at least 1. */
  ERR_INVALID_LIMIT: never;
  /** A window is not a duration of 1 ms to 36500 days. */
  ERR_INVALID_WINDOW: never;
  /** A `lease` is not a duration of 1 ms to 36500 days, or the policy cannot have it. */
  ERR_INVALID_LEASE: never;
  /** A `block` is not a duration or an object with valid fields, or the policy has no `block`. */
  ERR_INVALID_BLOCK: never;
  /** The `algorithm` of a policy is not the name of an algorithm. */
  ERR_INVALID_ALGORITHM: never;
  /** `buckets` is out of range, or the algorithm has no buckets. */
  ERR_INVALID_BUCKETS: never;
  /** `burst` is not an integer of at least 1, or the algorithm has no burst. */
  ERR_INVALID_BURST: never;
  /** A cost in the `costs` of a policy is not an integer from 1 to its limit or `burst`. */
  ERR_INVALID_COSTS: never;
  /** `limit` or `burst` times the window, or `concurrency` times the lease, is above 2^53 - 1. */
  ERR_LIMIT_TOO_LARGE: never;
  /** A call names a policy that the limiter does not have. */
  ERR_UNKNOWN_POLICY: never;
  /** A call names an operation that is not in the policy's `costs`. */
  ERR_UNKNOWN_OPERATION: never;
  /** A key is neither a string of 1 to 1,024 characters nor a list of parts that join to one. */
  ERR_INVALID_KEY: never;
  /** A cost is not an integer of at least 1. Only `peek` and `settle` accept 0. */
  ERR_INVALID_COST: never;
  /** A cost is above the limit or `burst` of the policy, so it can never be admitted. */
  ERR_COST_ABOVE_LIMIT: never;
  /** A check is not a list of 1 to 64 different limits. */
  ERR_INVALID_CHECK: never;
  /** A receipt does not come from an admitted check, or has no hold to release or renew. */
  ERR_INVALID_RECEIPT: never;
  /** `maxWaitMs` is not a number of milliseconds of at least 0. */
  ERR_INVALID_WAIT: never;
  /** A clock returned something other than whole milliseconds since the epoch. */
  ERR_INVALID_CLOCK: never;
  /** A policy has `concurrency` or `block`, which the store does not support. */
  ERR_UNSUPPORTED_POLICY: never;
  /** A synchronous method was called, but the store only returns promises. */
  ERR_NOT_SYNCHRONOUS: never;
  /** The store failed or missed its deadline, and no fallback applies. */
  ERR_STORE_UNAVAILABLE: never;
  /** The hold of a `run` no longer counts: its lease ended, or it was released or reset. */
  ERR_LEASE_LOST: never;
  /** A guard of `sluice/nest` runs for a WebSocket or RPC call without the option `request`. */
  ERR_NO_REQUEST: never;
  /** `limitFetch` or `llmFetch` denied a request (`onDenied: 'throw'`). See `retryAfterMs`. */
  ERR_RATE_LIMITED: never;
  /** `llmFetch` cannot bound the tokens of a call. Set the cap of the model, or `estimate`. */
  ERR_UNBOUNDED_CALL: never;
  /** `llmFetch` limits money, but its `models` have no price for the model of a call. */
  ERR_UNKNOWN_PRICE: never;
  /** The limiter has been closed. */
  ERR_CLOSED: never;
}

export type ErrorCode = keyof ErrorCodes;

/** An error with a stable `code`. Invalid calls throw before the store is changed. */
export class SluiceError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SluiceError';
    this.code = code;
  }
}

/** Returns the error for calls to a closed limiter, and for waiting calls when it closes. */
export const closed = (): SluiceError => new SluiceError('ERR_CLOSED', 'The limiter was closed');

/** Returns an error with the message `Expected X, got Y`. */
export function expected(code: ErrorCode, what: string, actual: unknown): SluiceError {
  return new SluiceError(code, `Expected ${what}, got ${shown(actual)}`);
}

/** Returns a short text for any value. Never throws. */
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

/** Whether a value is an object and not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Throws if a value lacks one of the methods. */
export function checkMethods(what: string, value: unknown, ...names: readonly string[]): void {
  const given = value as Record<string, unknown> | null | undefined;
  if (names.every((name) => typeof given?.[name] === 'function')) return;
  throw expected('ERR_INVALID_OPTION', what, value);
}

/** Throws if `value` is not an object, or has a field that is not in `allowed`. */
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
