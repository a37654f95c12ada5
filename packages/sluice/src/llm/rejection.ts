/** Responses or errors for calls that are not sent. Responses have the provider's error shape. */
import { expected, SluiceError } from '../errors.ts';
import type { ModelCall } from './model-call.ts';

export interface Denial {
  readonly retryAfterMs: number;
  /** The policies that lack capacity. Empty if the provider's limits are exceeded. */
  readonly policies: readonly string[];
}

/** SDKs ignore a longer Retry-After and retry too early, so they must not retry then. */
const MAX_SDK_WAIT_MS = 60_000;

const TYPES = 'https://iana.org/assignments/http-problem-types';

interface Shape {
  readonly title: string;
  /** The problem type (RFC 9457). */
  readonly problem: string;
  readonly openai: readonly [type: string, code: string];
  readonly anthropic: string;
}

const SHAPES: Readonly<Record<number, Shape>> = {
  400: {
    title: 'Bad Request',
    problem: 'about:blank',
    openai: ['invalid_request_error', 'invalid_request'],
    anthropic: 'invalid_request_error',
  },
  413: {
    title: 'Content Too Large',
    problem: 'about:blank',
    openai: ['invalid_request_error', 'request_too_large'],
    anthropic: 'request_too_large',
  },
  429: {
    title: 'Quota Exceeded',
    problem: `${TYPES}#quota-exceeded`,
    openai: ['rate_limit_error', 'rate_limit_exceeded'],
    anthropic: 'rate_limit_error',
  },
  503: {
    title: 'Temporary Reduced Capacity',
    problem: `${TYPES}#temporary-reduced-capacity`,
    openai: ['server_error', 'server_error'],
    anthropic: 'api_error',
  },
};

function respond(
  { provider }: ModelCall,
  status: number,
  message: string,
  headers: Record<string, string>,
  details: object,
): Response {
  const { title, problem: type, openai, anthropic } = SHAPES[status];
  const problem = { type, title, status, detail: message, ...details };
  const body =
    provider === 'anthropic'
      ? { type: 'error', error: { type: anthropic, message, problem } }
      : { error: { message, type: openai[0], param: null, code: openai[1], problem } };
  return Response.json(body, { status, headers });
}

/** Returns a 429 response that SDKs handle like a 429 of the provider, or throws an error. */
export function denialResponse(
  call: ModelCall,
  denial: Denial,
  onDenied: 'respond' | 'throw',
): Response {
  const { retryAfterMs, policies } = denial;
  if (onDenied === 'throw') {
    const what = 'a call within the limit';
    const error = expected('ERR_RATE_LIMITED', what, `a call that has to wait ${retryAfterMs} ms`);
    throw Object.assign(error, { retryAfterMs });
  }
  const limits =
    policies.length > 0 ? `the limit of ${policies.join(', ')}` : "the provider's limit";
  const headers = {
    'Retry-After': String(Math.ceil(retryAfterMs / 1000)),
    'Retry-After-Ms': String(retryAfterMs),
    ...(retryAfterMs >= MAX_SDK_WAIT_MS && { 'X-Should-Retry': 'false' }),
  };
  const message = `The call exceeds ${limits}. Retry after ${retryAfterMs} ms.`;
  const details = { 'violated-policies': policies, 'retry-after-ms': retryAfterMs };
  return respond(call, 429, message, headers, details);
}

/** The status of errors that are about the call. Other errors are thrown. */
const STATUSES: Partial<Record<SluiceError['code'], number>> = {
  ERR_UNBOUNDED_CALL: 400,
  ERR_UNKNOWN_PRICE: 400,
  ERR_COST_ABOVE_LIMIT: 413,
  ERR_STORE_UNAVAILABLE: 503,
};

/** Returns the response for an error that is about the call, or throws the error. */
export function errorResponse(
  call: ModelCall,
  error: unknown,
  onDenied: 'respond' | 'throw',
): Response {
  const status = error instanceof SluiceError ? STATUSES[error.code] : undefined;
  if (status === undefined || onDenied === 'throw') throw error;
  const { code, message } = error as SluiceError;
  const retry = status === 503 ? {} : { 'X-Should-Retry': 'false' };
  return respond(call, status, message, retry, { code });
}
