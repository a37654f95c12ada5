/**
 * `sluice/express`: for Express 4 and 5, and other frameworks with `(request, response, next)`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 *
 * Also accepts the option names of express-rate-limit: to migrate, change the import.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request as ExpressRequest, Response as ExpressResponse } from 'express';
import type { Decision } from '../decision.ts';
import type {
  ClientRateLimitInfo,
  CounterStore,
  LegacyStore,
} from '../http/compat/counter-store.ts';
import {
  DecisionInfo,
  type ExpressRateLimitOptions,
  type RateLimitInfo,
} from '../http/compat/express-rate-limit.ts';
import { ipKeyGenerator } from '../http/compat/ip-key-generator.ts';
import { type Logger, logOf } from '../http/compat/logger.ts';
import { MemoryStore } from '../http/compat/memory-store.ts';
import {
  checkReadable,
  countOf,
  initStore,
  type UsedOptions,
  usedOptions,
  withExpressDefaults,
} from '../http/compat/middleware-options.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../http/compat/time-constants.ts';
import type {} from '../http/express-request.ts';
import { expressAddress } from '../http/framework-address.ts';
import { NodeRequestInfo, sendRejection, setHeaders, settleOnEnd } from '../http/node-server.ts';
import { normalizeKey } from '../http/normalize-key.ts';
import type { RequestOptions, ResolvedOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { resolveOptions } from '../http/resolve-options.ts';

export type {
  ClientRateLimitInfo,
  ClientRateLimitInfo as IncrementResponse,
  CounterStore as Store,
  IncrementCallback,
  LegacyStore,
} from '../http/compat/counter-store.ts';
export type { Logger } from '../http/compat/logger.ts';
export { DAY, HOUR, ipKeyGenerator, MemoryStore, MINUTE, type RateLimitInfo, SECOND };

type Next = (error?: unknown) => void;
type Maybe<T> = T | Promise<T>;

/** The fourth argument of `handler`, as in express-rate-limit: the options with their defaults. */
export interface DenialInfo extends UsedOptions {
  /** Undefined if the client is in a network of `deny`. */
  readonly decision: Decision | undefined;
}

export interface ExpressOptions<
  Request extends IncomingMessage = ExpressRequest,
  Response extends ServerResponse = ExpressResponse,
> extends Omit<RequestOptions<Request>, 'headers' | 'limit' | 'skip' | 'store'>,
    Omit<ExpressRateLimitOptions<Request>, 'max' | 'keyGenerator'> {
  /**
   * Requests, or cost, admitted per window. A function returns the limit for each request. Default:
   * 5, but commonJsExport if `window` is set.
   *
   * @example limit: 100
   */
  readonly limit?: number | ((request: Request, response: Response) => Maybe<number>);
  /**
   * Same as `limit`.
   *
   * @example max: 100
   */
  readonly max?: number | ((request: Request, response: Response) => Maybe<number>);
  /**
   * Same as `key` with a function.
   *
   * @example keyGenerator: (request) => request.ip
   */
  readonly keyGenerator?: (
    request: Request,
    response: Response,
  ) => Maybe<string | number | undefined>;
  /**
   * Returns true for requests that are neither checked nor counted. Default: none.
   *
   * @example skip: (request) => request.path === '/health'
   */
  readonly skip?: (request: Request, response: Response) => Maybe<boolean>;
  /**
   * Responds to denied requests. The rate-limit headers are already set, but not the status.
   * Default: sends `statusCode` and `message`.
   *
   * @example handler: (request, response) => response.status(429).render('slow-down')
   */
  readonly handler?: (
    request: Request,
    response: Response,
    next: Next,
    info: DenialInfo,
  ) => unknown;
  /**
   * Status of denied requests. Default: 429, or 503 if the store is unavailable.
   *
   * @example statusCode: 420
   */
  readonly statusCode?: number;
  /**
   * Body of denied requests, or a function that returns it. Default: problem details (RFC 9457).
   *
   * @example message: { error: 'Too many requests' }
   */
  readonly message?: unknown;
  /**
   * Whether a request succeeded, for `count`. Default: its status is below 400.
   *
   * @example requestWasSuccessful: (request, response) => response.statusCode !== 401
   */
  readonly requestWasSuccessful?: (request: Request, response: Response) => Maybe<boolean>;
  /**
   * The store of the counters. Default: a memory store in this process. Stores of
   * express-rate-limit work too, but count in fixed windows.
   *
   * @example store: redisStore(client)
   */
  readonly store?: RequestOptions<Request>['store'] | CounterStore | LegacyStore;
  /**
   * The form of the rate-limit headers. Default `'draft'`, the current IETF draft. A boolean is the
   * same as `legacyHeaders`.
   *
   * @example headers: 'legacy' // X-RateLimit-*
   */
  readonly headers?: RequestOptions<Request>['headers'] | boolean;
  /**
   * Receives warnings, and errors of a store of express-rate-limit. Default: process warnings.
   *
   * @example logger: pino()
   */
  readonly logger?: Logger;
  /**
   * Accepted for compatibility and ignored: options are always validated. Default: none.
   *
   * @example validate: false
   */
  readonly validate?: unknown;
  /**
   * The property of the request that holds the `RateLimitInfo`. Default `'rateLimit'`.
   *
   * @example requestPropertyName: 'quota'
   */
  readonly requestPropertyName?: string;
}

/** The middleware. Also accepts requests of `node:http`. */
export interface ExpressHandler {
  (request: IncomingMessage, response: ServerResponse, next: Next): void | Promise<void>;
  /** Resets a key in all limits. */
  resetKey(key: string): Promise<void>;
  /** Resolves to the count of a key in the first limit, or undefined if it has no count. */
  getKey(key: string): Promise<ClientRateLimitInfo | undefined>;
}

/**
 * Types of express-rate-limit. `Options` are the options with their defaults, as `init` of a store
 * receives them; `rateLimit` accepts a part of them.
 */
export type Options = ExpressOptions & UsedOptions;
export type RateLimitRequestHandler = ReturnType<typeof rateLimit>;
export type RateLimitExceededEventHandler = NonNullable<ExpressOptions['handler']>;
type HandlerArguments = Parameters<RateLimitExceededEventHandler>;
export type ValueDeterminingMiddleware<T> = (
  request: HandlerArguments[0],
  response: HandlerArguments[1],
) => Maybe<T>;
export type AugmentedRequest = HandlerArguments[0] & {
  rateLimit: RateLimitInfo;
  [property: string]: RateLimitInfo;
};
export type DraftHeadersVersion = Exclude<
  NonNullable<ExpressRateLimitOptions<never>['standardHeaders']>,
  boolean
>;

const ADAPTER_FIELDS = [
  ...['handler', 'statusCode', 'message', 'requestPropertyName'],
  ...['requestWasSuccessful', 'validate'],
];

/** Converts a function of a request and a response to a function of the request. */
function withResponse<Request, Response, T>(
  given: ((request: Request, response: Response) => T) | undefined,
): ((request: Request) => T) | undefined {
  if (typeof given !== 'function') return given;
  return (request) => given(request, (request as { res?: Response }).res!);
}

function sharedOptions<Request extends IncomingMessage, Response extends ServerResponse>(
  options: ExpressOptions<Request, Response>,
): RequestOptions<Request> & ExpressRateLimitOptions<Request> {
  const { limit, max, keyGenerator, skip, ...rest } = options;
  const wrapped = {
    limit: withResponse(limit as never),
    max: withResponse(max as never),
    keyGenerator: withResponse(keyGenerator),
    skip: withResponse(skip),
  };
  const present = Object.entries(wrapped).filter(([, value]) => value !== undefined);
  return { ...rest, ...Object.fromEntries(present) } as never;
}

/** Returns the middleware. */
export function rateLimit<
  Request extends IncomingMessage = ExpressRequest,
  Response extends ServerResponse = ExpressResponse,
>(options: ExpressOptions<Request, Response> = {}): ExpressHandler {
  const isSuccess = withResponse(options.requestWasSuccessful);
  const log = logOf(options);
  const resolved: ResolvedOptions<Request> = {
    ...resolveOptions(sharedOptions(withExpressDefaults(options, log)), ADAPTER_FIELDS),
    succeeded: isSuccess && (({ request }) => isSuccess(request)),
  };
  const limiter = new RequestLimiter<Request>(resolved);
  const [{ name: firstName }] = resolved.limits;
  const used = usedOptions(options, limiter.windowsMs.get(firstName)!);
  initStore(options.store, used, log);
  const find = options.trustProxy === undefined ? expressAddress(log.warn) : undefined;
  const property = options.requestPropertyName ?? 'rateLimit';
  /** Functions among the options receive `request.res`, which only Express sets. */
  const needsResponse = Object.values(options).some((each) => typeof each === 'function');

  const apply = (
    decision: RequestDecision<Request>,
    request: Request,
    response: Response,
    next: Next,
  ): undefined | Promise<void> => {
    setHeaders(response, decision);
    if (decision.decision !== undefined) {
      (request as Record<string, unknown>)[property] = new DecisionInfo(decision.decision);
    }
    if (!decision.passes) return respond(options, used, request, response, next, decision);
    if (decision.settle !== undefined) settleOnEnd(request, response, decision.settle);
    next();
    return undefined;
  };
  const middleware = (
    request: Request,
    response: Response,
    next: Next,
  ): undefined | Promise<void> => {
    try {
      if (needsResponse) (request as { res?: Response }).res ??= response;
      const decision = limiter.decide(new NodeRequestInfo(request, request, find));
      if (!(decision instanceof Promise)) {
        return apply(decision, request, response, next)?.catch(next);
      }
      return decision.then((each) => apply(each, request, response, next)).catch(next);
    } catch (error) {
      next(error);
      return undefined;
    }
  };
  const resetKey = async (key: string): Promise<void> => {
    await Promise.all(
      resolved.limits.map(({ name }) => limiter.limiter.reset(name, normalizeKey(key))),
    );
  };
  const getKey = (key: string): Promise<ClientRateLimitInfo | undefined> => {
    checkReadable(options.store);
    return countOf(limiter.limiter.inspect(firstName, normalizeKey(key)));
  };
  return Object.assign(middleware as ExpressHandler, { resetKey, getKey });
}

/** Responds to a denied request. Returns a promise if a function among the options responds. */
function respond<Request extends IncomingMessage, Response extends ServerResponse>(
  options: ExpressOptions<Request, Response>,
  used: UsedOptions,
  request: Request,
  response: Response,
  next: Next,
  { rejection, decision }: RequestDecision<never>,
): undefined | Promise<void> {
  const { handler, statusCode, message } = options;
  const { status: defaultStatus, body, contentType } = rejection!;
  // `statusCode` and `message` are for denials by a limit, not for networks of `deny`.
  if (decision === undefined && handler === undefined) {
    sendRejection(response, rejection!);
    return undefined;
  }
  const status = statusCode ?? defaultStatus;
  if (handler !== undefined) {
    const info = { ...used, statusCode: status, decision };
    // Do not set the status: the handler may call `next` instead of responding.
    return callAsync(() => handler(request, response, next, info));
  }
  response.statusCode = status;
  if (message !== undefined) return callAsync(() => sendMessage(message, request, response));
  const isDefault = status === defaultStatus;
  const problem = isDefault ? body : JSON.stringify({ ...JSON.parse(body), status });
  sendRejection(response, { status, contentType, body: problem });
  return undefined;
}

/** Calls `task`. If `task` throws, the returned promise rejects. */
async function callAsync(task: () => unknown): Promise<void> {
  await task();
}

async function sendMessage(
  message: unknown,
  request: unknown,
  response: ServerResponse,
): Promise<void> {
  const body = typeof message === 'function' ? await message(request, response) : message;
  if (response.writableEnded) return;
  const express = response as unknown as { send?(body: unknown): void };
  if (express.send !== undefined) express.send(body);
  else response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

export default rateLimit;

/** The result of `require('sluice/express')`: the function itself, as in express-rate-limit. */
const commonJsExport = Object.assign(rateLimit.bind(undefined) as typeof rateLimit, {
  default: rateLimit,
  rateLimit,
  ipKeyGenerator,
  MemoryStore,
  SECOND,
  MINUTE,
  HOUR,
  DAY,
});

export { commonJsExport as 'module.exports' };
