/**
 * `sluice/express`: for Express 4 and 5, and whatever else takes `(request, response, next)`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 *
 * The option names of express-rate-limit work too, so that moving is changing one import.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Decision } from '../decision.ts';
import { addressKey } from '../http/client-address.ts';
import { Info, propertyOf } from '../http/express-info.ts';
import { expressAddress } from '../http/framework-address.ts';
import { NodeRequestInfo, refuse, setFields, whenOver } from '../http/node-server.ts';
import { normalizeKey } from '../http/normalize-key.ts';
import {
  type ExpressRateLimitOptions,
  type RequestOptions,
  type ResolvedOptions,
  resolveOptions,
} from '../http/options.ts';
import { type RequestDecision, RequestLimiter } from '../http/request-limiter.ts';

export type { RateLimitInfo } from '../http/express-info.ts';

type Next = (error?: unknown) => void;
type Maybe<T> = T | Promise<T>;

/** What a handler of refusals is told, as express-rate-limit has it. */
export interface RefusalInfo {
  readonly statusCode: number;
  readonly message: unknown;
  readonly limit: unknown;
  readonly windowMs: unknown;
  /** The decision; undefined if the client is on the list of denied networks. */
  readonly decision: Decision | undefined;
}

export interface ExpressOptions<
  Request extends IncomingMessage = IncomingMessage,
  Response extends ServerResponse = ServerResponse,
> extends Omit<RequestOptions<Request>, 'limit' | 'skip'>,
    Omit<ExpressRateLimitOptions<Request>, 'max' | 'keyGenerator'> {
  readonly limit?: number | ((request: Request, response: Response) => Maybe<number>);
  readonly max?: number | ((request: Request, response: Response) => Maybe<number>);
  readonly keyGenerator?: (request: Request, response: Response) => Maybe<string | number>;
  readonly skip?: (request: Request, response: Response) => Maybe<boolean>;
  /** Answers a refusal instead. The fields are set. */
  readonly handler?: (
    request: Request,
    response: Response,
    next: Next,
    info: RefusalInfo,
  ) => unknown;
  /** The status of a refusal. Default: 429, or 503 if the store is away. */
  readonly statusCode?: number;
  /** The body of a refusal, or a function that makes it. Default: problem details. */
  readonly message?: unknown;
  /** Whether a request went well, for those that count only some. Default: a status below 400. */
  readonly requestWasSuccessful?: (request: Request, response: Response) => boolean;
  /** Taken and not needed: what it would check is checked anyway. */
  readonly validate?: unknown;
  /** Under which name the request carries what was decided. Default `'rateLimit'`. */
  readonly requestPropertyName?: string;
}

export interface ExpressHandler<Request, Response> {
  (request: Request, response: Response, next: Next): void;
  /** Makes a key new, for all limits. */
  resetKey(key: string): Promise<void>;
}

/** The names that express-rate-limit has for these types. */
export type Options = ExpressOptions;
export type RateLimitRequestHandler = ExpressHandler<IncomingMessage, ServerResponse>;

const OWN_FIELDS = [
  ...['handler', 'statusCode', 'message', 'requestPropertyName'],
  ...['requestWasSuccessful', 'validate'],
];
const MESSAGE = 'Too many requests, please try again later.';

/** Gives functions the answer as well, which Express keeps with the request. */
function withResponse<Request, Response, T>(
  given: ((request: Request, response: Response) => T) | undefined,
): ((request: Request) => T) | undefined {
  if (typeof given !== 'function') return given;
  return (request) => given(request, (request as { res?: Response }).res!);
}

function ours<Request extends IncomingMessage, Response extends ServerResponse>(
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

/** Builds the middleware. */
export function rateLimit<
  Request extends IncomingMessage = IncomingMessage,
  Response extends ServerResponse = ServerResponse,
>(options: ExpressOptions<Request, Response> = {}): ExpressHandler<Request, Response> {
  const isWell = withResponse(options.requestWasSuccessful);
  const ready: ResolvedOptions<Request> = {
    ...resolveOptions(ours(options), OWN_FIELDS),
    succeeded: isWell && (({ request }) => isWell(request)),
  };
  const limiter = new RequestLimiter<Request>(ready);
  const find = options.trustProxy === undefined ? expressAddress(options.onWarning) : undefined;
  const give = propertyOf(options.requestPropertyName ?? 'rateLimit');
  /** Whether functions are given the answer, which not everything like Express keeps. */
  const isAsked = Object.values(options).some((each) => typeof each === 'function');

  const act = (
    decision: RequestDecision<Request>,
    request: Request,
    response: Response,
    next: Next,
  ): undefined | Promise<void> => {
    setFields(response, decision);
    if (decision.decision !== undefined) give(request, new Info(decision.decision));
    if (!decision.passes) return answer(options, request, response, next, decision);
    if (decision.over !== undefined) whenOver(request, response, decision.over);
    next();
    return undefined;
  };
  const middleware = (request: Request, response: Response, next: Next): void => {
    try {
      if (isAsked) (request as { res?: Response }).res ??= response;
      // The answer's socket is read by Node too; it has none while others are answered before it.
      const socket = response.socket ?? request.socket;
      const decision = limiter.decide(new NodeRequestInfo(request, request, find, socket));
      if (!(decision instanceof Promise)) {
        act(decision, request, response, next)?.catch(next);
        return;
      }
      decision.then((later) => act(later, request, response, next)).catch(next);
    } catch (error) {
      next(error);
    }
  };
  const resetKey = async (key: string): Promise<void> => {
    await Promise.all(
      ready.limits.map(({ name }) => limiter.limiter.reset(name, normalizeKey(key))),
    );
  };
  return Object.assign(middleware, { resetKey });
}

/** The key of an address, for key generators: a whole network of IPv6 is one client. */
export function ipKeyGenerator(address: string, ipv6Subnet = 64): string {
  return addressKey(address, ipv6Subnet) ?? address;
}

/** Answers a request that does not pass, with a promise only if the answer is somebody else's. */
function answer<Request extends IncomingMessage, Response extends ServerResponse>(
  options: ExpressOptions<Request, Response>,
  request: Request,
  response: Response,
  next: Next,
  decision: RequestDecision<never>,
): undefined | Promise<void> {
  const { handler, statusCode, message } = options;
  const { status: usual, body, contentType } = decision.rejection!;
  // Who is on a list was not limited, and there is nothing to wait for.
  if (decision.decision === undefined && handler === undefined) {
    refuse(response, decision.rejection!);
    return undefined;
  }
  const status = statusCode ?? usual;
  if (handler !== undefined) {
    // The status is the handler's to set: it may let the request pass.
    const size = {
      limit: options.limit ?? options.max,
      windowMs: options.windowMs ?? options.window,
    };
    const info = {
      statusCode: status,
      message: message ?? MESSAGE,
      ...size,
      decision: decision.decision,
    };
    return called(() => handler(request, response, next, info));
  }
  response.statusCode = status;
  if (message !== undefined) return called(() => send(message, request, response));
  const problem = status === usual ? body : JSON.stringify({ ...JSON.parse(body), status });
  refuse(response, { status, contentType, body: problem });
  return undefined;
}

async function called(task: () => unknown): Promise<void> {
  await task();
}

async function send(message: unknown, request: unknown, response: ServerResponse): Promise<void> {
  const text = typeof message === 'function' ? await message(request, response) : message;
  if (response.writableEnded) return;
  const express = response as unknown as { send?(body: unknown): void };
  if (express.send !== undefined) express.send(text);
  else response.end(typeof text === 'string' ? text : JSON.stringify(text));
}

export default rateLimit;
