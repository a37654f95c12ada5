/**
 * `sluice/koa`: middleware for Koa.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ParameterizedContext } from 'koa';
import type { Decision } from '../decision.ts';
import type { ExpressRateLimitOptions } from '../http/compat/express-rate-limit.ts';
import type { Header } from '../http/headers.ts';
import { NodeRequestInfo, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { resolveOptions } from '../http/resolve-options.ts';
import { appendToList } from '../http/structured-fields.ts';

declare module 'koa' {
  interface DefaultState {
    /** The decision; undefined if the request was not limited. */
    rateLimit?: Decision | undefined;
  }
}

type Maybe<T> = T | Promise<T>;

/** The part of Koa's context that the adapter uses. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly state: Record<string, unknown>;
  status: number;
  body: unknown;
  type: string;
  set(name: string, value: string): void;
}

export interface KoaOptions<Context extends KoaContext = ParameterizedContext>
  extends RequestOptions<Context>,
    Omit<ExpressRateLimitOptions<Context>, 'keyGenerator'> {
  /**
   * Same as `key` with a function.
   *
   * @example keyGenerator: (context) => context.ip
   */
  readonly keyGenerator?: (context: Context) => Maybe<string | number | undefined>;
  /**
   * Responds to denied requests. The status and the rate-limit headers are already set. Default:
   * problem details.
   *
   * @example handler: (context) => { context.body = 'Too many requests'; }
   */
  readonly handler?: (context: Context, decision: RequestDecision<Context>) => unknown;
}

/** Returns the middleware. The decision is in `context.state.rateLimit`. */
export function rateLimit<Context extends KoaContext = ParameterizedContext>(
  options: KoaOptions<Context>,
): (context: Context, next: () => Promise<unknown>) => Promise<void> {
  const limiter = new RequestLimiter<Context>(resolveOptions(options as never, ['handler']));
  return async (context, next) => {
    const decision = await limiter.decide(new NodeRequestInfo(context, context.req));
    for (const [name, value] of decision.headers) {
      context.set(name, appendToList(context.res.getHeader(name), value));
    }
    context.state.rateLimit = decision.decision;
    if (decision.passes) {
      if (decision.settle !== undefined) settleOnEnd(context, context.res, decision.settle);
      await next().catch((error: unknown) => throwWithHeaders(error, decision.headers));
      return;
    }
    const { status, contentType, body } = decision.rejection!;
    context.status = status;
    if (options.handler !== undefined) {
      await options.handler(context, decision);
      return;
    }
    context.type = contentType;
    context.body = body;
  };
}

/** Throws the error with `headers` added. Koa then keeps only these headers of the response. */
function throwWithHeaders(error: unknown, added: readonly Header[]): never {
  if (error instanceof Error) {
    const { headers } = error as { headers?: object };
    Object.assign(error, { headers: { ...Object.fromEntries(added), ...headers } });
  }
  throw error;
}
