/** What a request is refused with: a status, a code that programs can rely on, and a sentence. */
import type { OutgoingHttpHeaders } from 'node:http';
import { type ErrorCode, SluiceError } from 'sluice';

/** Codes of the service itself, beside the engine's, and what they mean, as in docs/http-api.md. */
export const SERVICE_ERRORS = {
  ERR_INVALID_BODY: 'The body, the path or the query is not what is expected there.',
  ERR_BODY_TOO_LARGE: 'The body is larger than 1 MiB.',
  ERR_TOO_BUSY: 'Bodies over 16 KB take all memory that is reserved for them; retry later.',
  ERR_BODY_TOO_DEEP: 'The body is nested more than 16 deep.',
  ERR_TOO_MANY_FIELDS: 'The request has 1,000 header fields or more.',
  ERR_NOT_FOUND: 'There is nothing at this path, or nothing of that name.',
  ERR_METHOD_NOT_ALLOWED: 'The path is right, the method is not; `Allow` says which are.',
  ERR_UNAUTHORIZED: 'The admin token is missing or wrong, or the session is over.',
  ERR_TOO_MANY_ATTEMPTS: 'Too many wrong tokens or sign-ins came from this address; wait.',
  ERR_TOO_MANY_STREAMS: 'The process that was asked has as many event streams as it may.',
  ERR_CROSS_SITE: 'A page of another site made a browser ask.',
  ERR_AMBIGUOUS_REQUEST: 'Proxies and applications could read the forwarded request differently.',
  ERR_MISSING_HEADER: 'A header that the proxy of `--proxy` sends is missing.',
  ERR_CONFLICT: 'The configuration files say otherwise, and only they can be changed to that.',
  ERR_CONFIG: 'The configuration files have mistakes; `problems` lists them. The old ones count.',
  ERR_INTERNAL: 'Something went wrong in the service; its log says what.',
} as const;

export type ServiceErrorCode = ErrorCode | keyof typeof SERVICE_ERRORS;

/** What a caller did wrong, or could not be given, as a status and a code. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly code: ServiceErrorCode,
    message: string,
    /** Where in the body, as a JSON pointer: `/checks/3/cost`. */
    readonly pointer?: string,
    readonly fields: OutgoingHttpHeaders = {},
    /** What else the answer says. */
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

export const badRequest = (code: ServiceErrorCode, message: string, pointer?: string): HttpError =>
  new HttpError(400, code, message, pointer);

/** What is not the caller's doing. */
const UNAVAILABLE: ReadonlySet<string> = new Set(['ERR_STORE_UNAVAILABLE', 'ERR_CLOSED']);

/** The status that an error of the engine is answered with: it is the caller's, or the store's. */
export function asHttpError(error: unknown, pointer?: string): HttpError {
  if (error instanceof HttpError) return error;
  if (!(error instanceof SluiceError)) {
    return new HttpError(500, 'ERR_INTERNAL', 'Something went wrong here; the log says what');
  }
  const status = UNAVAILABLE.has(error.code) ? 503 : 400;
  return new HttpError(status, error.code, withNothing(storeWords(error.message)), pointer);
}

const NOT_CONNECTED =
  /(?:Stream isn't writeable|Cluster isn't ready) and enableOfflineQueue options is false/;

/** What ioredis says of a connection that is down names an option that nobody here can set. */
export const storeWords = (message: string): string =>
  message.replace(NOT_CONNECTED, 'not connected');

/** What is missing in JSON is not there at all; `undefined` is a word of JavaScript. */
export const withNothing = (message: string): string =>
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

/** Problem details (RFC 9457). */
export function problemBody({ status, code, message, pointer, more }: HttpError): object {
  const body = { type: 'about:blank', title: TITLES[status], status, code, detail: message };
  return { ...body, ...(pointer !== undefined && { pointer }), ...more };
}
