/**
 * `sluice/fastify`: a plugin, and `config.rateLimit` on a route.
 *
 *     await app.register(rateLimit, { limit: 100, window: '1m' });
 *     app.get('/login', { config: { rateLimit: { limit: 5, window: '1m' } } }, handler);
 *     app.get('/health', { config: { rateLimit: false } }, handler);
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { found } from '../http/node-server.ts';
import {
  type FamiliarOptions,
  hasLimit,
  inherited,
  type RequestOptions,
  readyOptions,
} from '../http/options.ts';
import { RequestLimiter, type Verdict } from '../http/request-limiter.ts';

export interface FastifyRateLimit
  extends RequestOptions<FastifyRequest>,
    Omit<FamiliarOptions<FastifyRequest>, 'keyGenerator'> {
  readonly keyGenerator?: (request: FastifyRequest) => string | Promise<string>;
  /** Answers a refusal instead; the status and the fields are set. */
  readonly handler?: (
    request: FastifyRequest,
    reply: FastifyReply,
    verdict: Verdict<FastifyRequest>,
  ) => unknown;
}

export interface FastifyRateLimitPlugin extends Partial<FastifyRateLimit> {
  /** Whether it holds for routes that say nothing. Default: true if a limit is given. */
  readonly global?: boolean;
}

type Verdicts = WeakMap<FastifyRequest, Verdict<FastifyRequest>>;

/** The socket's address; or the one that Fastify found, if it was told which proxies to trust. */
function whoAsks(options: FastifyRateLimit, request: FastifyRequest) {
  // Fastify lists addresses only if it trusts somebody.
  const isFound = options.trustProxy === undefined && request.ips !== undefined;
  return found(request.raw, isFound ? request.ip : undefined);
}

type Done = (error?: Error) => void;

/** Decides about a request, as a hook of a route: a callback is cheaper than a promise. */
function hookOf(options: FastifyRateLimit, verdicts: Verdicts) {
  const limiter = new RequestLimiter<FastifyRequest>(readyOptions(options as never, ['handler']));
  const act = (
    verdict: Verdict<FastifyRequest>,
    request: FastifyRequest,
    reply: FastifyReply,
    done: Done,
  ): void => {
    if (verdict.over !== undefined) verdicts.set(request, verdict);
    for (const [name, value] of verdict.fields) reply.header(name, value);
    if (verdict.passes) {
      done();
      return;
    }
    const { status, contentType, body } = verdict.rejection!;
    reply.code(status);
    if (options.handler === undefined) reply.type(contentType).send(body);
    else Promise.resolve(options.handler(request, reply, verdict)).catch(done);
  };
  return (request: FastifyRequest, reply: FastifyReply, done: Done): void => {
    try {
      const verdict = limiter.decide({ request, ...whoAsks(options, request) });
      if (verdict instanceof Promise) {
        verdict.then((later) => act(later, request, reply, done)).catch(done);
      } else act(verdict, request, reply, done);
    } catch (error) {
      done(error as Error);
    }
  };
}

/** Tells a verdict how its request ended, once. */
function settle(
  verdicts: Verdicts,
  request: FastifyRequest,
  reply: FastifyReply | undefined,
): void {
  const over = verdicts.get(request)?.over;
  if (over === undefined) return;
  verdicts.delete(request);
  const length = reply?.getHeader('content-length');
  over({
    request,
    status: reply?.statusCode ?? 499,
    finished: reply?.raw.writableFinished ?? false,
    bytes: length === undefined ? undefined : Number(length),
  });
}

const plugin: FastifyPluginAsync<FastifyRateLimitPlugin> = async (app, options) => {
  const { global, ...shared } = options;
  const verdicts: Verdicts = new WeakMap();
  const everywhere = hasLimit(shared) ? hookOf(shared as FastifyRateLimit, verdicts) : undefined;
  /** A route for GET has another one for HEAD, with the same limit. */
  const hooks = new WeakMap<object, ReturnType<typeof hookOf>>();
  const hookFor = (own: FastifyRateLimit): ReturnType<typeof hookOf> => {
    const hook = hooks.get(own) ?? hookOf({ ...inherited(shared, own), ...own }, verdicts);
    hooks.set(own, hook);
    return hook;
  };
  app.addHook('onRoute', (route) => {
    const own = (route.config as { rateLimit?: FastifyRateLimit | false } | undefined)?.rateLimit;
    if (own === false) return;
    const byDefault = (global ?? true) ? everywhere : undefined;
    const hook = own === undefined ? byDefault : hookFor(own);
    if (hook !== undefined) addHook(route, hook);
  });
  app.addHook('onResponse', (request, reply, done) => {
    settle(verdicts, request, reply);
    done();
  });
  app.addHook('onRequestAbort', (request, done) => {
    settle(verdicts, request, undefined);
    done();
  });
};

function addHook(route: RouteOptions, hook: ReturnType<typeof hookOf>): void {
  const before = route.onRequest === undefined ? [] : [route.onRequest].flat();
  route.onRequest = [...before, hook as never];
}

/** Hooks of a plugin hold only inside it, unless it is marked as one that is not to be enclosed. */
export const rateLimit: FastifyPluginAsync<FastifyRateLimitPlugin> = Object.assign(plugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'sluice',
});
