/**
 * `sluice/hono`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 */
import type { Context, Env, MiddlewareHandler } from 'hono';
import { type FamiliarOptions, type RequestOptions, readyOptions } from '../http/options.ts';
import { RequestLimiter, type Verdict } from '../http/request-limiter.ts';
import { endOf, refusal, unknownProxy, withFields } from './fetch.ts';

export interface HonoOptions<E extends Env = Env>
  extends RequestOptions<Context<E>>,
    Omit<FamiliarOptions<Context<E>>, 'keyGenerator'> {
  readonly keyGenerator?: (context: Context<E>) => string | Promise<string>;
  /** The address at the other end, where the server does not tell it in a known way. */
  readonly address?: (context: Context<E>) => string | undefined;
  /** Makes the answer to a refusal instead; the fields are added to it. */
  readonly handler?: (
    context: Context<E>,
    verdict: Verdict<Context<E>>,
  ) => Response | Promise<Response>;
}

/** The address that Node (@hono/node-server), Deno or Bun tells. */
function addressFrom(context: Context): string | undefined {
  const env = (context.env ?? {}) as {
    incoming?: { socket?: { remoteAddress?: string } };
    remoteAddr?: { hostname?: string };
    server?: { requestIP?: (request: Request) => { address?: string } | null };
    requestIP?: (request: Request) => { address?: string } | null;
  };
  if (env.incoming !== undefined) return env.incoming.socket?.remoteAddress;
  const server = env.server ?? env;
  if (typeof server.requestIP === 'function') return server.requestIP(context.req.raw)?.address;
  return env.remoteAddr?.hostname;
}

/** Builds the middleware. What was decided is in `context.get('rateLimit')`. */
export function rateLimit<E extends Env = Env>(options: HonoOptions<E>): MiddlewareHandler<E> {
  const ready = readyOptions<Context<E>>(options as never, ['address', 'handler']);
  const limiter = new RequestLimiter<Context<E>>(ready);
  return async (context, next) => {
    const verdict = await limiter.decide({
      request: context,
      socketAddress:
        (options.address ? options.address(context) : addressFrom(context as Context)) ??
        unknownProxy(options.trustProxy),
      header: (name) => context.req.header(name),
    });
    context.set('rateLimit' as never, verdict.decision as never);
    if (!verdict.passes) {
      const { handler } = options;
      const answer = handler ? await handler(context, verdict) : refusal(context.req.raw, verdict);
      return withFields(answer, verdict.fields);
    }
    await next();
    const answer = withFields(context.res, verdict.fields);
    if (answer !== context.res) context.res = answer;
    verdict.over?.({ request: context, ...endOf(context.req.raw, context.res) });
    return undefined;
  };
}
