/**
 * `sluice/fastify`: a plugin, and `config.rateLimit` on a route.
 *
 *     await app.register(rateLimit, { limit: 100, window: '1m' });
 *     app.get('/login', { config: { rateLimit: { limit: 5, window: '1m' } } }, handler);
 *     app.get('/health', { config: { rateLimit: false } }, handler);
 */
import type {
  FastifyContextConfig,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
} from 'fastify';
import type { Decision } from '../decision.ts';
import type { ExpressRateLimitOptions } from '../http/compat/express-rate-limit.ts';
import { fastifyAddress } from '../http/framework-address.ts';
import { NodeRequestInfo, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import {
  hasLimit,
  inheritedOptions,
  resolveOptions,
  validateShared,
} from '../http/resolve-options.ts';
import { appendToList } from '../http/structured-fields.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The limit of the route, which replaces that of the plugin; `false` for no limit. */
    rateLimit?: FastifyRateLimit | false;
  }
  interface FastifyRequest {
    /** The decision; undefined if the request was not limited. */
    rateLimit?: Decision | undefined;
  }
}

type Maybe<T> = T | Promise<T>;

export interface FastifyRateLimit
  extends RequestOptions<FastifyRequest>,
    Omit<ExpressRateLimitOptions<FastifyRequest>, 'keyGenerator'> {
  /**
   * Same as `key` with a function.
   *
   * @example keyGenerator: (request) => request.ip
   */
  readonly keyGenerator?: (request: FastifyRequest) => Maybe<string | number | undefined>;
  /**
   * Responds to denied requests: sends a reply or returns the body. The status and the rate-limit
   * headers are already set. Default: problem details.
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

/** Builds the hook of a limit. The hook takes a callback, which avoids a promise per request. */
function hookOf(options: FastifyRateLimit): Hook {
  const limiter = new RequestLimiter<FastifyRequest>(resolveOptions(options as never, ['handler']));
  const find = options.trustProxy === undefined ? fastifyAddress(options.onWarning) : undefined;
  const apply = (
    decision: RequestDecision<FastifyRequest>,
    request: FastifyRequest,
    reply: FastifyReply,
    done: Done,
  ): void => {
    if (decision.settle !== undefined) settleOnEnd(request, reply.raw, decision.settle);
    request.rateLimit = decision.decision;
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
  return (request, reply, done) => {
    try {
      const decision = limiter.decide(new NodeRequestInfo(request, request.raw, find));
      if (decision instanceof Promise) {
        decision.then((resolved) => apply(resolved, request, reply, done)).catch(done);
      } else apply(decision, request, reply, done);
    } catch (error) {
      done(error as Error);
    }
  };
}

const plugin: FastifyPluginAsync<FastifyRateLimitPlugin> = async (app, options) => {
  const { global = true, ...shared } = options;
  // Declares the property, so that V8 uses one hidden class for all requests.
  if (!app.hasRequestDecorator('rateLimit')) app.decorateRequest('rateLimit', undefined);
  const sharedHook = hasLimit(shared) ? hookOf(shared as FastifyRateLimit) : undefined;
  if (sharedHook === undefined) validateShared(shared, ['handler']);
  const defaultHook = global ? sharedHook : undefined;
  /** Hooks by `config.rateLimit`, so that a GET route and its HEAD route share one limit. */
  const routeHooks = new WeakMap<object, Hook>();
  const hookFor = (config: object): Hook | undefined => {
    const { rateLimit: own } = config as FastifyContextConfig;
    if (own === undefined) return defaultHook;
    if (own === false) return undefined;
    const hook = routeHooks.get(own) ?? hookOf({ ...inheritedOptions(shared, own), ...own });
    routeHooks.set(own, hook);
    return hook;
  };
  /** Marks the configurations of routes that `onRoute` has processed. */
  const isProcessed = Symbol('limited');
  app.addHook('onRoute', (route) => {
    const hook = hookFor(route.config ?? {});
    route.config = { ...route.config, [isProcessed]: true } as object;
    const before = route.onRequest === undefined ? [] : [route.onRequest].flat();
    if (hook !== undefined) route.onRequest = [...before, hook];
  });
  // `onRoute` does not run for requests without a route (404), and for routes that were added
  // before the plugin was loaded. Without `await`, `register` loads the plugin later.
  app.addHook('onRequest', (request, reply, done) => {
    const config = request.routeOptions.config as { readonly [isProcessed]?: true };
    if (config[isProcessed]) {
      done();
      return;
    }
    try {
      const hook = request.is404 ? defaultHook : hookFor(config);
      if (hook === undefined) done();
      else hook(request, reply, done);
    } catch (error) {
      done(error as Error);
    }
  });
};

/** The plugin. It is not encapsulated (`skip-override`), so its hooks apply to the whole app. */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitPlugin> = Object.assign(plugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'sluice',
});
