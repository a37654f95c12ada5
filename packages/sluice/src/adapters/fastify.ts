/**
 * `sluice/fastify`: a plugin, and `config.rateLimit` on a route.
 *
 *     await app.register(rateLimit, { limit: 100, window: '1m' });
 *     app.get('/login', { config: { rateLimit: { limit: 5, window: '1m' } } }, handler);
 *     app.get('/health', { config: { rateLimit: false } }, handler);
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { fastifyAddress, mayTrustProxies } from '../http/framework-address.ts';
import { joinedField } from '../http/headers.ts';
import { bytesOf, NodeRequestInfo } from '../http/node-server.ts';
import {
  checkShared,
  type ExpressRateLimitOptions,
  hasLimit,
  inherited,
  type RequestOptions,
  resolveOptions,
} from '../http/options.ts';
import { type RequestDecision, RequestLimiter } from '../http/request-limiter.ts';
import { announce } from '../http/send-fields.ts';

export interface FastifyRateLimit
  extends RequestOptions<FastifyRequest>,
    Omit<ExpressRateLimitOptions<FastifyRequest>, 'keyGenerator'> {
  readonly keyGenerator?: (request: FastifyRequest) => string | Promise<string>;
  /** Answers a refusal instead; the status and the fields are set. */
  readonly handler?: (
    request: FastifyRequest,
    reply: FastifyReply,
    decision: RequestDecision<FastifyRequest>,
  ) => unknown;
}

export interface FastifyRateLimitPlugin extends Partial<FastifyRateLimit> {
  /** Whether it holds for routes that say nothing. Default: true if a limit is given. */
  readonly global?: boolean;
}

/** As everywhere in Fastify, what a function answers is sent, unless it has sent something. */
async function answered(answer: unknown, reply: FastifyReply): Promise<void> {
  const payload = await answer;
  if (payload !== undefined && payload !== reply && !reply.sent) reply.send(payload);
}

/** Sets fields; limiters in a row tell their policies in one list. */
function setFields(reply: FastifyReply, decision: RequestDecision<FastifyRequest>): void {
  const { fields } = decision;
  if (fields.length === 0 || announce(reply.raw, decision)) return;
  const isFirst = !reply.hasHeader(fields[0][0]);
  for (const [name, value] of fields) {
    reply.header(name, isFirst ? value : joinedField(reply.getHeader(name), value));
  }
}

type Done = (error?: Error) => void;
type Hook = (request: FastifyRequest, reply: FastifyReply, done: Done) => void;

/** What a limit adds to a route. */
interface Hooks {
  readonly onRequest: Hook;
  /** Only where something depends on how a request ends: listening for that is not free. */
  readonly onResponse?: Hook;
  readonly onRequestAbort?: (request: FastifyRequest, done: Done) => void;
}

/** Decides about requests, in hooks of a route: a callback is cheaper than a promise. */
function hooksOf(options: FastifyRateLimit, trusts: boolean): Hooks {
  const limiter = new RequestLimiter<FastifyRequest>(resolveOptions(options as never, ['handler']));
  const isAsked = trusts && options.trustProxy === undefined;
  const find = isAsked ? fastifyAddress(options.onWarning) : undefined;
  const verdicts: RequestDecisions = new WeakMap();
  const act = (
    decision: RequestDecision<FastifyRequest>,
    request: FastifyRequest,
    reply: FastifyReply,
    done: Done,
  ): void => {
    if (decision.over !== undefined) verdicts.set(request, decision);
    setFields(reply, decision);
    if (decision.passes) {
      done();
      return;
    }
    const { status, contentType, body } = decision.rejection!;
    reply.code(status);
    if (options.handler === undefined) reply.type(contentType).send(body);
    else answered(options.handler(request, reply, decision), reply).catch(done);
  };
  const onRequest: Hook = (request, reply, done) => {
    try {
      const known = find === undefined ? limiter.decideBy(request.raw.socket) : undefined;
      const decision = known ?? limiter.decide(new NodeRequestInfo(request, request.raw, find));
      if (decision instanceof Promise) {
        decision.then((later) => act(later, request, reply, done)).catch(done);
      } else act(decision, request, reply, done);
    } catch (error) {
      done(error as Error);
    }
  };
  return limiter.settles ? { onRequest, ...endings(verdicts) } : { onRequest };
}

type RequestDecisions = WeakMap<FastifyRequest, RequestDecision<FastifyRequest>>;

/** The hooks that tell a verdict how its request ended, once. */
function endings(verdicts: RequestDecisions): Omit<Hooks, 'onRequest'> {
  const end = (request: FastifyRequest, reply: FastifyReply | undefined, done: Done): void => {
    const over = verdicts.get(request)?.over;
    verdicts.delete(request);
    over?.({
      request,
      status: reply?.statusCode ?? 499,
      // Asked only when all of it is out or has failed; `inject` says nothing more than that.
      finished: reply !== undefined && !reply.raw.errored,
      bytes: reply && bytesOf(reply.raw),
    });
    done();
  };
  return { onResponse: end, onRequestAbort: (request, done) => end(request, undefined, done) };
}

const plugin: FastifyPluginAsync<FastifyRateLimitPlugin> = async (app, options) => {
  const { global, ...shared } = options;
  const trusts = mayTrustProxies(app);
  const everywhere = hasLimit(shared) ? hooksOf(shared as FastifyRateLimit, trusts) : undefined;
  if (everywhere === undefined) checkShared(shared, ['handler']);
  /** A route for GET has another one for HEAD, with the same limit. */
  const known = new WeakMap<object, Hooks>();
  const hooksFor = (own: FastifyRateLimit): Hooks => {
    const hooks = known.get(own) ?? hooksOf({ ...inherited(shared, own), ...own }, trusts);
    known.set(own, hooks);
    return hooks;
  };
  app.addHook('onRoute', (route) => {
    const own = (route.config as { rateLimit?: FastifyRateLimit | false } | undefined)?.rateLimit;
    if (own === false) return;
    const byDefault = (global ?? true) ? everywhere : undefined;
    const hooks = own === undefined ? byDefault : hooksFor(own);
    if (hooks !== undefined) addHooks(route, hooks);
  });
};

function addHooks(route: RouteOptions, hooks: Hooks): void {
  for (const [name, hook] of Object.entries(hooks) as [keyof Hooks, never][]) {
    const before = route[name] === undefined ? [] : [route[name]].flat();
    route[name] = [...before, hook] as never;
  }
}

/** Hooks of a plugin hold only inside it, unless it is marked as one that is not to be enclosed. */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitPlugin> = Object.assign(plugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'sluice',
});
