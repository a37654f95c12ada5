/** The HTTP status codes for errors that the limiter throws. */
import { type ErrorCode, expected, SluiceError } from '../errors.ts';
import { type Rejection, rejection } from './rejection.ts';

const UNAVAILABLE = 503;
const TOO_LARGE = JSON.stringify({ type: 'about:blank', title: 'Content Too Large', status: 413 });

/** The status by error code. Other codes are programming errors: frameworks respond with 500. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  ERR_STORE_UNAVAILABLE: UNAVAILABLE,
  // A cost above the limit can never be admitted.
  ERR_COST_ABOVE_LIMIT: 413,
};

/** Returns the status to respond with, or undefined if the error has none. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof SluiceError ? STATUSES[error.code] : undefined;
}

/** Returns the response for an error, for frameworks that do not use the `status` of errors. */
export function errorRejection(error: unknown): Rejection | undefined {
  const status = statusOf(error);
  if (status === undefined) return undefined;
  return status === UNAVAILABLE
    ? rejection({})
    : { status, contentType: 'application/problem+json', body: TOO_LARGE };
}

/** Throws the error with `status` and `statusCode` set, which frameworks use for the response. */
export function throwWithStatus(error: unknown): never {
  const status = statusOf(error);
  throw status === undefined
    ? error
    : Object.assign(error as Error, { status, statusCode: status });
}

/** Returns the error for a Nest call of a type that has no HTTP request. */
export function noRequest(type: string): SluiceError {
  const what =
    `the option \`request\` of sluice/nest to return the request of a call of type ${type} ` +
    '(exempt handlers with @SkipRateLimit())';
  return expected('ERR_NO_REQUEST', what, undefined);
}
