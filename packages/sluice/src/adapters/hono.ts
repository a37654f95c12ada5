/**
 * `sluice/hono`.
 *
 *     app.use(rateLimit({ limit: 100, window: '1m' }));
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context, Env, MiddlewareHandler, Next } from 'hono';
import { isForwarding, NodeFacts, setFields } from '../http/node-server.ts';
import { type FamiliarOptions, type RequestOptions, readyOptions } from '../http/options.ts';
import { type Facts, type Field, RequestLimiter, type Verdict } from '../http/request-limiter.ts';
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

/** What servers tell in `env`: Node (@hono/node-server), Deno or Bun. */
interface ServerEnv {
  readonly incoming?: IncomingMessage;
  readonly outgoing?: ServerResponse;
  readonly remoteAddr?: { readonly hostname?: string };
  readonly server?: BunServer;
  readonly requestIP?: BunServer['requestIP'];
}

interface BunServer {
  requestIP?(request: Request): { readonly address?: string } | null;
}

function addressFrom(context: Context, env: ServerEnv): string | undefined {
  const server = env.server ?? env;
  if (typeof server.requestIP === 'function') return server.requestIP(context.req.raw)?.address;
  return env.remoteAddr?.hostname;
}

/** On Node, who sent a request is read where it came in, which is much faster. */
class HonoFacts<C extends Context> extends NodeFacts<C> {
  /** Other headers may have been changed on the way here. */
  override header(name: string): string | undefined {
    return isForwarding(name) ? super.header(name) : this.request.req.header(name);
  }
}

/** Builds the middleware. What was decided is in `context.get('rateLimit')`. */
export function rateLimit<E extends Env = Env>(options: HonoOptions<E>): MiddlewareHandler<E> {
  const { address, handler, trustProxy } = options;
  const ready = readyOptions<Context<E>>(options as never, ['address', 'handler']);
  const limiter = new RequestLimiter<Context<E>>(ready);

  const factsOf = (context: Context<E>, env: ServerEnv): Facts<Context<E>> => {
    if (env.incoming !== undefined && address === undefined) {
      return new HonoFacts(context, env.incoming);
    }
    const found = address ? address(context) : addressFrom(context as Context, env);
    return {
      request: context,
      socketAddress: found ?? unknownProxy(trustProxy),
      header: (name) => context.req.header(name),
    };
  };
  const act = (
    verdict: Verdict<Context<E>>,
    context: Context<E>,
    { outgoing }: ServerEnv,
    next: Next,
  ): Answer => {
    context.set('rateLimit' as never, verdict.decision as never);
    // Node's own answer takes the fields whatever is answered, and a `Response` stays as it is,
    // which @hono/node-server has a fast way for.
    const isNode = typeof outgoing?.setHeader === 'function';
    if (isNode) setFields(outgoing, verdict);
    const fields = isNode ? NO_FIELDS : verdict.fields;
    if (!verdict.passes) return refused(context, verdict, fields, handler) as Answer;
    if (fields.length === 0 && verdict.over === undefined) return next();
    return passed(context, verdict, fields, next);
  };
  // No async function: where nothing is waited for, promises are most of the cost.
  return (context, next) => {
    const env = (context.env ?? {}) as ServerEnv;
    const verdict = limiter.decide(factsOf(context, env));
    if (!(verdict instanceof Promise)) return act(verdict, context, env, next);
    return verdict.then((later) => act(later, context, env, next));
  };
}

/** What a middleware answers; Hono takes an answer also without a promise. */
type Answer = ReturnType<MiddlewareHandler>;

const NO_FIELDS: readonly Field[] = [];

function refused<E extends Env>(
  context: Context<E>,
  verdict: Verdict<Context<E>>,
  fields: readonly Field[],
  handler: HonoOptions<E>['handler'],
): Response | Promise<Response> {
  if (handler === undefined) return refusal(context.req.method, verdict, fields);
  return Promise.resolve(handler(context, verdict)).then((answer) => withFields(answer, fields));
}

async function passed<C extends Context>(
  context: C,
  { over }: Verdict<C>,
  fields: readonly Field[],
  next: Next,
): Promise<void> {
  await next();
  const answer = withFields(context.res, fields);
  if (answer !== context.res) context.res = answer;
  over?.({ request: context, ...endOf(context.req.raw, context.res) });
}
