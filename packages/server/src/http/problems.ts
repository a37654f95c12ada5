/** HTTP errors: a status, a stable code and a message. */
import type { OutgoingHttpHeaders } from 'node:http';
import { type ErrorCode, SluiceError } from 'sluice';

export const PROBLEM_TYPE = 'application/problem+json';

/** Error codes of the service, in addition to the engine's, with their meaning. */
export const SERVICE_ERRORS = {
  ERR_INVALID_BODY: 'The body, the path or the query is invalid.',
  ERR_BODY_TOO_LARGE: 'The body is larger than 1 MiB.',
  ERR_TOO_BUSY: 'The memory for bodies over 16 KB is in use; retry later.',
  ERR_BODY_TOO_DEEP: 'The body is nested more than 16 levels deep.',
  ERR_TOO_MANY_FIELDS: 'The request has 1,000 headers or more.',
  ERR_NOT_FOUND: 'The path or the named resource does not exist.',
  ERR_METHOD_NOT_ALLOWED: 'The path does not support the method; `Allow` lists those it does.',
  ERR_UNAUTHORIZED: 'The admin token is missing or wrong, or the session has ended.',
  ERR_TOO_MANY_ATTEMPTS: 'This address sent too many wrong tokens or sign-ins; retry later.',
  ERR_TOO_MANY_STREAMS: 'The process has the maximum number of event streams.',
  ERR_CROSS_SITE: 'A browser sent the request for a page of another site.',
  ERR_AMBIGUOUS_REQUEST: 'Proxies and applications could read the forwarded request differently.',
  ERR_MISSING_HEADER: 'A header that the proxy of `--proxy` sends is missing.',
  ERR_CONFLICT: 'The configuration files define this override; change it there.',
  ERR_CONFIG: 'The configuration files are invalid; the previous configuration stays in effect.',
  ERR_INTERNAL: 'Internal error; see the log of the service.',
} as const;

export type ServiceErrorCode = ErrorCode | keyof typeof SERVICE_ERRORS;

export class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly code: ServiceErrorCode,
    message: string,
    /** Position in the body as a JSON pointer: `/checks/3/cost`. */
    readonly pointer?: string,
    readonly fields: OutgoingHttpHeaders = {},
    /** Additional members of the problem details. */
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

export const badRequest = (code: ServiceErrorCode, message: string, pointer?: string): HttpError =>
  new HttpError(400, code, message, pointer);

const UNAVAILABLE: ReadonlySet<string> = new Set(['ERR_STORE_UNAVAILABLE', 'ERR_CLOSED']);

/**
 * Returns the HTTP error for any error: 503 if the store is unavailable, 400 for other errors of
 * the library, and 500 for all others.
 */
export function asHttpError(error: unknown, pointer?: string): HttpError {
  if (error instanceof HttpError) return error;
  if (!(error instanceof SluiceError)) {
    return new HttpError(500, 'ERR_INTERNAL', 'Internal error; see the log of the service');
  }
  const status = UNAVAILABLE.has(error.code) ? 503 : 400;
  return new HttpError(
    status,
    error.code,
    nothingForUndefined(storeMessage(error.message)),
    pointer,
  );
}

const NOT_CONNECTED =
  /(?:Stream isn't writeable|Cluster isn't ready) and enableOfflineQueue options is false/;

/** Replaces a message of ioredis about an option that users of the service cannot set. */
export const storeMessage = (message: string): string =>
  message.replace(NOT_CONNECTED, 'not connected');

/** Replaces `undefined`, which is not a JSON value, by "nothing". */
export const nothingForUndefined = (message: string): string =>
  message.replace(/, got `undefined`$/, ', got nothing');

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** Returns the body of an error response: problem details (RFC 9457). */
export function problemBody({ status, code, message, pointer, more }: HttpError): object {
  const body = { type: 'about:blank', title: TITLES[status], status, code, detail: message };
  return { ...body, ...(pointer !== undefined && { pointer }), ...more };
}
