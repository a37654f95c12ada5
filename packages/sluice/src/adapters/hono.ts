/**
 * `sluice/hono`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 */
import type { Context, Env, MiddlewareHandler, Next } from 'hono';
import { nodeAnswer, type Reading, requestInfoOf, type ServerEnv } from '../http/fetch-server.ts';
import { whenOver } from '../http/node-server.ts';
import {
  type ExpressRateLimitOptions,
  type RequestOptions,
  resolveOptions,
} from '../http/options.ts';
import { type Field, type RequestDecision, RequestLimiter } from '../http/request-limiter.ts';
import { sendFields } from '../http/send-fields.ts';
import { ended, refusal, withFields } from './fetch.ts';

export interface HonoOptions<E extends Env = Env>
  extends RequestOptions<Context<E>>,
    Omit<ExpressRateLimitOptions<Context<E>>, 'keyGenerator'> {
  readonly keyGenerator?: (context: Context<E>) => string | Promise<string>;
  /** The address at the other end, where the server does not tell it in a known way. */
  readonly address?: (context: Context<E>) => string | undefined;
  /** Makes the answer to a refusal instead; the fields are added to it. */
  readonly handler?: (
    context: Context<E>,
    decision: RequestDecision<Context<E>>,
  ) => Response | Promise<Response>;
}

/** Builds the middleware. What was decided is in `context.get('rateLimit')`. */
export function rateLimit<E extends Env = Env>(options: HonoOptions<E>): MiddlewareHandler<E> {
  const { address, handler, trustProxy } = options;
  const ready = resolveOptions<Context<E>>(options as never, ['address', 'handler']);
  const limiter = new RequestLimiter<Context<E>>(ready);
  const reading: Reading<Context<E>> = {
    header: (context, name) => context.req.header(name),
    plain: (context) => context.req.raw,
    address,
    trustProxy,
  };
  const act = (
    decision: RequestDecision<Context<E>>,
    context: Context<E>,
    env: ServerEnv,
    next: Next,
  ): Answer => {
    context.set('rateLimit' as never, decision.decision as never);
    const { over, passes } = decision;
    const answer = nodeAnswer(env, context.req.raw);
    if (answer !== undefined) sendFields(answer, decision);
    if (!passes) {
      const fields = answer === undefined ? decision.fields : NO_FIELDS;
      const own = handler && (() => handler(context, decision));
      return refusal(context.req.method, decision, fields, own) as Answer;
    }
    if (answer === undefined) return passed(context, decision, next);
    if (over !== undefined) whenOver(context, answer, over);
    return next();
  };
  // No async function: where nothing is waited for, promises are most of the cost.
  return (context, next) => {
    const env = (context.env ?? {}) as ServerEnv;
    const known = address === undefined ? limiter.decideBy(env.incoming?.socket) : undefined;
    const decision = known ?? limiter.decide(requestInfoOf(context, env, reading));
    if (!(decision instanceof Promise)) return act(decision, context, env, next);
    return decision.then((later) => act(later, context, env, next));
  };
}

/** What a middleware answers; Hono takes an answer also without a promise. */
type Answer = ReturnType<MiddlewareHandler>;

const NO_FIELDS: readonly Field[] = [];

async function passed<C extends Context>(
  context: C,
  { fields, over }: RequestDecision<C>,
  next: Next,
): Promise<void> {
  const response = await ended(context, context.req.raw, over, async () => {
    await next();
    return context.res;
  });
  const answer = withFields(response, fields);
  if (answer !== context.res) context.res = answer;
}
