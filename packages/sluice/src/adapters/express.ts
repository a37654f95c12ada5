/**
 * `sluice/express`: for Express 4 and 5, and whatever else takes `(request, response, next)`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 *
 * The option names of express-rate-limit work too, so that moving is changing one import.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { dateOf } from '../clock.ts';
import type { Decision } from '../decision.ts';
import { factsOf, refuse, setFields, whenOver } from '../http/node-server.ts';
import { type FamiliarOptions, type RequestOptions, readyOptions } from '../http/options.ts';
import { RequestLimiter, type Verdict } from '../http/request-limiter.ts';

type Next = (error?: unknown) => void;
type Maybe<T> = T | Promise<T>;

/** What a handler of refusals is told, as express-rate-limit has it. */
export interface RefusalInfo {
  readonly statusCode: number;
  readonly message: unknown;
  readonly verdict: Verdict<never>;
}

/** What a request carries for those who come after, as express-rate-limit has it. */
export interface RateLimitInfo {
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  readonly resetTime: Date;
  readonly key: string;
  readonly decision: Decision;
}

export interface ExpressOptions<
  Request extends IncomingMessage = IncomingMessage,
  Response extends ServerResponse = ServerResponse,
> extends Omit<RequestOptions<Request>, 'limit' | 'skip'>,
    Omit<FamiliarOptions<Request>, 'max' | 'keyGenerator'> {
  readonly limit?: number | ((request: Request, response: Response) => Maybe<number>);
  readonly max?: number | ((request: Request, response: Response) => Maybe<number>);
  readonly keyGenerator?: (request: Request, response: Response) => Maybe<string>;
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
  /** Under which name the request carries what was decided. Default `'rateLimit'`. */
  readonly requestPropertyName?: string;
}

export interface ExpressHandler<Request, Response> {
  (request: Request, response: Response, next: Next): void;
  /** Makes a key new, for all limits. */
  resetKey(key: string): Promise<void>;
}

const OWN_FIELDS = ['handler', 'statusCode', 'message', 'requestPropertyName'];

/** Gives functions the answer as well, which Express keeps with the request. */
function withResponse<Request, Response, T>(
  given: ((request: Request, response: Response) => T) | undefined,
): ((request: Request) => T) | undefined {
  if (typeof given !== 'function') return given;
  return (request) => given(request, (request as { res?: Response }).res!);
}

function ours<Request extends IncomingMessage, Response extends ServerResponse>(
  options: ExpressOptions<Request, Response>,
): RequestOptions<Request> & FamiliarOptions<Request> {
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
>(options: ExpressOptions<Request, Response>): ExpressHandler<Request, Response> {
  const ready = readyOptions(ours(options), OWN_FIELDS);
  const limiter = new RequestLimiter<Request>(ready);
  const property = options.requestPropertyName ?? 'rateLimit';

  const act = (
    verdict: Verdict<Request>,
    request: Request,
    response: Response,
    next: Next,
  ): void | Promise<void> => {
    setFields(response, verdict);
    if (verdict.decision !== undefined) {
      (request as unknown as Record<string, unknown>)[property] = infoOf(verdict.decision);
    }
    if (!verdict.passes) return answer(options, request, response, next, verdict);
    if (verdict.over !== undefined) whenOver(request, response, verdict.over);
    next();
  };
  const middleware = (request: Request, response: Response, next: Next): void => {
    try {
      const verdict = limiter.decide(factsOf(request));
      if (!(verdict instanceof Promise)) {
        act(verdict, request, response, next)?.catch(next);
        return;
      }
      verdict.then((later) => act(later, request, response, next)).catch(next);
    } catch (error) {
      next(error);
    }
  };
  const resetKey = async (key: string): Promise<void> => {
    await Promise.all(ready.limits.map(({ name }) => limiter.limiter.reset(name, key)));
  };
  return Object.assign(middleware, { resetKey });
}

function infoOf(decision: Decision): RateLimitInfo {
  const { limit, remaining, resetAfterMs, atMs, key } = decision;
  return {
    limit,
    used: limit - remaining,
    remaining,
    // Made when it is read, as it mostly is not.
    get resetTime() {
      return dateOf(atMs + resetAfterMs);
    },
    key,
    decision,
  };
}

async function answer<Request extends IncomingMessage, Response extends ServerResponse>(
  { handler, statusCode, message }: ExpressOptions<Request, Response>,
  request: Request,
  response: Response,
  next: Next,
  verdict: Verdict<never>,
): Promise<void> {
  const status = statusCode ?? verdict.rejection!.status;
  if (handler !== undefined) {
    response.statusCode = status;
    await handler(request, response, next, { statusCode: status, message, verdict });
    return;
  }
  if (message === undefined) {
    const rejection = { ...verdict.rejection!, status };
    refuse(response, { ...verdict, rejection });
    return;
  }
  const body = typeof message === 'function' ? await message(request, response) : message;
  response.statusCode = status;
  (response as unknown as { send(body: unknown): void }).send(body);
}
