/**
 * `sluice/koa`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { joinedField } from '../http/headers.ts';
import { NodeRequestInfo, whenOver } from '../http/node-server.ts';
import {
  type ExpressRateLimitOptions,
  type RequestOptions,
  resolveOptions,
} from '../http/options.ts';
import { type Field, type RequestDecision, RequestLimiter } from '../http/request-limiter.ts';

/** The part of Koa's context that is needed. */
export interface KoaContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly state: Record<string, unknown>;
  status: number;
  body: unknown;
  type: string;
  set(name: string, value: string): void;
}

export interface KoaOptions<Context extends KoaContext = KoaContext>
  extends RequestOptions<Context>,
    Omit<ExpressRateLimitOptions<Context>, 'keyGenerator'> {
  readonly keyGenerator?: (context: Context) => string | Promise<string>;
  /** Answers a refusal instead; the status and the fields are set. */
  readonly handler?: (context: Context, decision: RequestDecision<Context>) => unknown;
}

/** Builds the middleware. What was decided is in `context.state.rateLimit`. */
export function rateLimit<Context extends KoaContext = KoaContext>(
  options: KoaOptions<Context>,
): (context: Context, next: () => Promise<unknown>) => Promise<void> {
  const limiter = new RequestLimiter<Context>(resolveOptions(options as never, ['handler']));
  return async (context, next) => {
    const decision = await limiter.decide(new NodeRequestInfo(context, context.req));
    for (const [name, value] of decision.fields) {
      context.set(name, joinedField(context.res.getHeader(name), value));
    }
    context.state.rateLimit = decision.decision;
    if (decision.passes) {
      if (decision.over !== undefined) whenOver(context, context.res, decision.over);
      await next().catch((error: unknown) => throwWith(error, decision.fields));
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

/** Koa answers an error with no fields but those that it carries. */
function throwWith(error: unknown, fields: readonly Field[]): never {
  if (error instanceof Error) {
    const { headers } = error as { headers?: object };
    Object.assign(error, { headers: { ...Object.fromEntries(fields), ...headers } });
  }
  throw error;
}
