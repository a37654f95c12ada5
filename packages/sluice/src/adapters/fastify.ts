/**
 * `sluice/fastify`: a plugin, and `config.rateLimit` on a route.
 *
 *     await app.register(rateLimit, { limit: 100, window: '1m' });
 *     app.get('/login', { config: { rateLimit: { limit: 5, window: '1m' } } }, handler);
 *     app.get('/health', { config: { rateLimit: false } }, handler);
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import type { ExpressRateLimitOptions } from '../http/express-rate-limit.ts';
import { fastifyAddress } from '../http/framework-address.ts';
import { bytesOf, NodeRequestInfo } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { checkShared, hasLimit, inherited, resolveOptions } from '../http/resolve-options.ts';
import { appendToList } from '../http/structured-fields.ts';

export interface FastifyRateLimit
  extends RequestOptions<FastifyRequest>,
    Omit<ExpressRateLimitOptions<FastifyRequest>, 'keyGenerator'> {
  /** Same as `key` with a function. */
  readonly keyGenerator?: (request: FastifyRequest) => string | Promise<string>;
  /**
   * Responds to denied requests: sends a reply or returns the body. Status and rate-limit headers
   * are set. Default: problem details.
   *
   * @example handler: async () => ({ error: 'Too many requests' })
   */
  readonly handler?: (
    request: FastifyRequest,
    reply: FastifyReply,
    decision: RequestDecision<FastifyRequest>,
  ) => unknown;
}

export interface FastifyRateLimitPlugin extends Partial<FastifyRateLimit> {
  /**
   * Whether the plugin's limit applies to routes without `config.rateLimit`. Default true.
   *
   * @example global: false
   */
  readonly global?: boolean;
}

/** Sends the value that a handler returned, unless the handler has sent a reply. */
async function sendReturned(returned: unknown, reply: FastifyReply): Promise<void> {
  const payload = await returned;
  if (payload !== undefined && payload !== reply && !reply.sent) reply.send(payload);
}

function setHeaders(reply: FastifyReply, { headers }: RequestDecision<FastifyRequest>): void {
  if (headers.length === 0) return;
  const isFirst = !reply.hasHeader(headers[0][0]);
  for (const { 0: name, 1: value } of headers) {
    reply.header(name, isFirst ? value : appendToList(reply.getHeader(name), value));
  }
}

type Done = (error?: Error) => void;
type Hook = (request: FastifyRequest, reply: FastifyReply, done: Done) => void;

/** The hooks that a limit adds to a route. */
interface Hooks {
  readonly onRequest: Hook;
  /** Only if decisions are settled: both hooks cost time on every request. */
  readonly onResponse?: Hook;
  readonly onRequestAbort?: (request: FastifyRequest, done: Done) => void;
}

/** Builds the hooks. They take callbacks, which cost Fastify less than promises. */
function hooksOf(options: FastifyRateLimit): Hooks {
  const limiter = new RequestLimiter<FastifyRequest>(resolveOptions(options as never, ['handler']));
  const find = options.trustProxy === undefined ? fastifyAddress(options.onWarning) : undefined;
  const pending: PendingDecisions = new WeakMap();
  const apply = (
    decision: RequestDecision<FastifyRequest>,
    request: FastifyRequest,
    reply: FastifyReply,
    done: Done,
  ): void => {
    if (decision.settle !== undefined) pending.set(request, decision);
    setHeaders(reply, decision);
    if (decision.passes) {
      done();
      return;
    }
    const { status, contentType, body } = decision.rejection!;
    reply.code(status);
    if (options.handler === undefined) reply.type(contentType).send(body);
    else sendReturned(options.handler(request, reply, decision), reply).catch(done);
  };
  const onRequest: Hook = (request, reply, done) => {
    try {
      const decision = limiter.decide(new NodeRequestInfo(request, request.raw, find));
      if (decision instanceof Promise) {
        decision.then((resolved) => apply(resolved, request, reply, done)).catch(done);
      } else apply(decision, request, reply, done);
    } catch (error) {
      done(error as Error);
    }
  };
  return limiter.settles ? { onRequest, ...settlingHooks(pending) } : { onRequest };
}

type PendingDecisions = WeakMap<FastifyRequest, RequestDecision<FastifyRequest>>;

/** Builds the hooks that settle decisions when their responses have ended. */
function settlingHooks(pending: PendingDecisions): Omit<Hooks, 'onRequest'> {
  const end = (request: FastifyRequest, reply: FastifyReply | undefined, done: Done): void => {
    const decision = pending.get(request);
    pending.delete(request);
    decision?.settle?.({
      request,
      status: reply?.statusCode ?? 499,
      // `onResponse` runs when the response is complete or has failed. `writableFinished` is not
      // set on the responses of `inject`.
      finished: reply !== undefined && !reply.raw.errored,
      bytes: reply && bytesOf(reply.raw),
    });
    done();
  };
  return { onResponse: end, onRequestAbort: (request, done) => end(request, undefined, done) };
}

const plugin: FastifyPluginAsync<FastifyRateLimitPlugin> = async (app, options) => {
  const { global = true, ...shared } = options;
  const sharedHooks = hasLimit(shared) ? hooksOf(shared as FastifyRateLimit) : undefined;
  if (sharedHooks === undefined) checkShared(shared, ['handler']);
  /** Hooks by `config.rateLimit`, so that the HEAD route of a GET route has the same limit. */
  const routeHooks = new WeakMap<object, Hooks>();
  const hooksFor = (own: FastifyRateLimit): Hooks => {
    const hooks = routeHooks.get(own) ?? hooksOf({ ...inherited(shared, own), ...own });
    routeHooks.set(own, hooks);
    return hooks;
  };
  app.addHook('onRoute', (route) => {
    const own = (route.config as { rateLimit?: FastifyRateLimit | false } | undefined)?.rateLimit;
    if (own === false) return;
    const defaultHooks = global ? sharedHooks : undefined;
    const hooks = own === undefined ? defaultHooks : hooksFor(own);
    if (hooks !== undefined) addHooks(route, hooks);
  });
};

function addHooks(route: RouteOptions, hooks: Hooks): void {
  for (const [name, hook] of Object.entries(hooks) as [keyof Hooks, never][]) {
    const before = route[name] === undefined ? [] : [route[name]].flat();
    route[name] = [...before, hook] as never;
  }
}

/** Not encapsulated (`skip-override`), so that the hooks apply to the whole app. */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitPlugin> = Object.assign(plugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'sluice',
});
