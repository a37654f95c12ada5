/**
 * `sluice/fastify`: a plugin, and `config.rateLimit` on a route.
 *
 *     await app.register(rateLimit, { limit: 100, window: '1m' });
 *     app.get('/login', { config: { rateLimit: { limit: 5, window: '1m' } } }, handler);
 *     app.get('/health', { config: { rateLimit: false } }, handler);
 */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import type { AddressOptions } from '../http/client-address.ts';
import { NodeFacts, trustWarning } from '../http/node-server.ts';
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

/** The address that Fastify has found. It lists addresses only if it trusts somebody. */
function fastifyAddress(onWarning: AddressOptions['onWarning']) {
  const warn = trustWarning("Fastify's `trustProxy`", onWarning);
  return (request: FastifyRequest): string | undefined => {
    if (request.ips === undefined) return undefined;
    if (settingsOf(request.server)?.trustProxy === true) warn();
    return request.ip;
  };
}

/** What Fastify was told when it was built; it keeps that under a symbol of its own. */
function settingsOf(app: object | null): { readonly trustProxy?: unknown } | undefined {
  for (let each = app; each !== null; each = Object.getPrototypeOf(each)) {
    const symbols = Object.getOwnPropertySymbols(each);
    const found = symbols.find(({ description }) => description === 'fastify.options');
    if (found !== undefined) return (each as Record<symbol, object>)[found];
  }
  return undefined;
}

/** The few names of fields, in lower case. */
const lowerNames = new Map<string, string>();

/** Fastify wants names in lower case, and making them anew for each answer is slow. */
function lowerCase(name: string): string {
  let lower = lowerNames.get(name);
  if (lower === undefined) {
    lower = name.toLowerCase();
    lowerNames.set(name, lower);
  }
  return lower;
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
function hooksOf(options: FastifyRateLimit): Hooks {
  const limiter = new RequestLimiter<FastifyRequest>(readyOptions(options as never, ['handler']));
  const find = options.trustProxy === undefined ? fastifyAddress(options.onWarning) : undefined;
  const verdicts: Verdicts = new WeakMap();
  const act = (
    verdict: Verdict<FastifyRequest>,
    request: FastifyRequest,
    reply: FastifyReply,
    done: Done,
  ): void => {
    if (verdict.over !== undefined) verdicts.set(request, verdict);
    for (const field of verdict.fields) reply.header(lowerCase(field[0]), field[1]);
    if (verdict.passes) {
      done();
      return;
    }
    const { status, contentType, body } = verdict.rejection!;
    reply.code(status);
    if (options.handler === undefined) reply.type(contentType).send(body);
    else Promise.resolve(options.handler(request, reply, verdict)).catch(done);
  };
  const onRequest: Hook = (request, reply, done) => {
    try {
      const verdict = limiter.decide(new NodeFacts(request, request.raw, find));
      if (verdict instanceof Promise) {
        verdict.then((later) => act(later, request, reply, done)).catch(done);
      } else act(verdict, request, reply, done);
    } catch (error) {
      done(error as Error);
    }
  };
  return limiter.settles ? { onRequest, ...endings(verdicts) } : { onRequest };
}

type Verdicts = WeakMap<FastifyRequest, Verdict<FastifyRequest>>;

/** The hooks that tell a verdict how its request ended, once. */
function endings(verdicts: Verdicts): Omit<Hooks, 'onRequest'> {
  const end = (request: FastifyRequest, reply: FastifyReply | undefined, done: Done): void => {
    const over = verdicts.get(request)?.over;
    verdicts.delete(request);
    const length = reply?.getHeader('content-length');
    over?.({
      request,
      status: reply?.statusCode ?? 499,
      // Asked only when all of it is out or has failed; `inject` says nothing more than that.
      finished: reply !== undefined && !reply.raw.errored,
      bytes: length === undefined ? undefined : Number(length),
    });
    done();
  };
  return { onResponse: end, onRequestAbort: (request, done) => end(request, undefined, done) };
}

const plugin: FastifyPluginAsync<FastifyRateLimitPlugin> = async (app, options) => {
  const { global, ...shared } = options;
  const everywhere = hasLimit(shared) ? hooksOf(shared as FastifyRateLimit) : undefined;
  /** A route for GET has another one for HEAD, with the same limit. */
  const known = new WeakMap<object, Hooks>();
  const hooksFor = (own: FastifyRateLimit): Hooks => {
    const hooks = known.get(own) ?? hooksOf({ ...inherited(shared, own), ...own });
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
