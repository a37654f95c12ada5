/**
 * `sluice/hono`: middleware for Hono.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 */
import type { Context, Env, MiddlewareHandler, Next } from 'hono';
import type { Decision } from '../decision.ts';
import type { ExpressRateLimitOptions } from '../http/compat/express-rate-limit.ts';
import { decide, nodeResponse, type RequestReader, type ServerEnv } from '../http/fetch-server.ts';
import { statusOf } from '../http/http-error.ts';
import { setHeaders, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { resolveOptions } from '../http/resolve-options.ts';
import { errorResponse, rejectionResponse, runAndSettle, withHeaders } from './fetch.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision; undefined if the request was not limited. */
    rateLimit: Decision | undefined;
  }
}

type Maybe<T> = T | Promise<T>;

export interface HonoOptions<E extends Env = Env>
  extends RequestOptions<Context<E>>,
    Omit<ExpressRateLimitOptions<Context<E>>, 'keyGenerator'> {
  /**
   * Same as `key` with a function.
   *
   * @example keyGenerator: (context) => context.req.header('x-user')
   */
  readonly keyGenerator?: (context: Context<E>) => Maybe<string | number | undefined>;
  /**
   * Returns the address of the socket. Default: the address that Node, Deno or Bun provides.
   *
   * @example address: (context) => context.req.header('cf-connecting-ip')
   */
  readonly address?: (context: Context<E>) => Maybe<string | undefined>;
  /**
   * Returns the response to a denied request; the rate-limit headers are added to it. Default:
   * problem details.
   *
   * @example handler: (context) => context.text('Too many requests', 429)
   */
  readonly handler?: (
    context: Context<E>,
    decision: RequestDecision<Context<E>>,
  ) => Maybe<Response>;
}

/** Returns the middleware. The decision is in `context.get('rateLimit')`. */
export function rateLimit<E extends Env = Env>(options: HonoOptions<E>): MiddlewareHandler<E> {
  const { address, handler } = options;
  const resolved = resolveOptions<Context<E>>(options as never, ['address', 'handler']);
  const limiter = new RequestLimiter<Context<E>>(resolved);
  const reader: RequestReader<Context<E>> = {
    header: (context, name) => context.req.header(name),
    fetchRequest: (context) => context.req.raw,
    address,
  };
  const apply = (
    decision: RequestDecision<Context<E>>,
    context: Context<E>,
    env: ServerEnv,
    next: Next,
  ): Result => {
    context.set('rateLimit', decision.decision);
    const response = nodeResponse(env, context.req.raw);
    if (!decision.passes) {
      const own = handler && (() => handler(context, decision));
      return rejectionResponse(context.req.method, decision, response, own) as Result;
    }
    if (response === undefined) return runNext(context, decision, next);
    setHeaders(response, decision);
    if (decision.settle !== undefined) settleOnEnd(context, response, decision.settle);
    return next();
  };
  // This function is not async, which avoids a promise for a synchronous decision.
  return (context, next) => {
    const env = (context.env ?? {}) as ServerEnv;
    const decision = decide(limiter, context, env, reader);
    if (!(decision instanceof Promise)) return apply(decision, context, env, next);
    return decision.then((each) => apply(each, context, env, next), throwWithResponse);
  };
}

/** Throws the error with `getResponse` added. Without this method, Hono responds with 500. */
function throwWithResponse(error: unknown): never {
  if (statusOf(error) === undefined) throw error;
  throw Object.assign(error as Error, { getResponse: () => errorResponse(error) });
}

/** Hono also accepts a response without a promise, which its own type does not allow. */
type Result = ReturnType<MiddlewareHandler>;

async function runNext<C extends Context>(
  context: C,
  decision: RequestDecision<C>,
  next: Next,
): Promise<void> {
  const response = await runAndSettle(context, context.req.raw, decision, async () => {
    await next();
    return context.res;
  });
  const limited = withHeaders(response, decision.headers);
  if (limited !== context.res) context.res = limited;
}
