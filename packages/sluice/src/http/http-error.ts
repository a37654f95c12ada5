/** HTTP status codes of errors that the limiter throws. */
import { type ErrorCode, SluiceError } from '../errors.ts';

/** Every other code is a programming error, for which frameworks respond with 500. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  ERR_STORE_UNAVAILABLE: 503,
  // A cost above the limit can never be admitted.
  ERR_COST_ABOVE_LIMIT: 413,
};

/** Returns the status to respond with, or undefined if the error has none. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof SluiceError ? STATUSES[error.code] : undefined;
}

/** Throws the error with `status` and `statusCode`, from which frameworks take the response's. */
export function throwWithStatus(error: unknown): never {
  const status = statusOf(error);
  throw status === undefined
    ? error
    : Object.assign(error as Error, { status, statusCode: status });
}
