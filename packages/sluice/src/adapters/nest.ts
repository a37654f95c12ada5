/**
 * `sluice/nest`: a module, a guard and decorators, on Express or Fastify.
 *
 *     @Module({ imports: [RateLimitModule.forRoot({ limit: 100, window: '1m' })] })
 *     export class AppModule {}
 *
 *     @RateLimit({ limit: 5, window: '1m' })   // on a controller or a handler
 *     @SkipRateLimit()
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  HttpException,
  SetMetadata,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { DecisionInfo, type ExpressRateLimitOptions } from '../http/compat/express-rate-limit.ts';
import type {} from '../http/express-request.ts';
import { expressAddress, fastifyAddress } from '../http/framework-address.ts';
import { noRequest } from '../http/http-error.ts';
import { type AddressFinder, NodeRequestInfo, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import {
  hasLimit,
  inheritedOptions,
  resolveOptions,
  validateShared,
} from '../http/resolve-options.ts';

type Maybe<T> = T | Promise<T>;

/** A request of Express or Fastify. */
// biome-ignore lint/suspicious/noExplicitAny: the type depends on the platform.
export type NestRequest = any;

export interface NestOptions
  extends RequestOptions<NestRequest>,
    Omit<ExpressRateLimitOptions<NestRequest>, 'keyGenerator'> {
  /**
   * Same as `key` with a function.
   *
   * @example keyGenerator: (request) => request.ip
   */
  readonly keyGenerator?: (request: NestRequest) => Maybe<string | number | undefined>;
  /**
   * Returns the request to limit, which is one of Express, Fastify or `node:http`. Required for
   * WebSocket and RPC handlers. Default: the HTTP request; for GraphQL, the `req` of its context.
   *
   * @example request: (context) => context.switchToWs().getClient().request // Socket.IO
   */
  readonly request?: (context: ExecutionContext) => NestRequest;
}

const ADAPTER_FIELDS = ['request'];

const METADATA = 'sluice:rate-limit';

/** Sets the limit of a controller or handler, which replaces the limit of the module. */
export const RateLimit = (options: NestOptions) => SetMetadata(METADATA, options);

/** Exempts a controller or handler from the module's limit. */
export const SkipRateLimit = () => SetMetadata(METADATA, false);

/** The part of reflect-metadata, a dependency of Nest, that the guard uses. */
const metadata = Reflect as unknown as {
  getMetadata(name: string, target: object): NestOptions | false | undefined;
};

export class RateLimitGuard implements CanActivate {
  readonly #shared: GuardLimit | undefined;
  /** The limits of decorated controllers and handlers, created at the first request. */
  readonly #own = new Map<object, GuardLimit>();
  readonly #options: Partial<NestOptions>;

  constructor(options: Partial<NestOptions>) {
    this.#options = options;
    this.#shared = hasLimit(options) ? new GuardLimit(options as NestOptions) : undefined;
    if (this.#shared === undefined) validateShared(options, ADAPTER_FIELDS);
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const limit = this.#limitFor(context);
    if (limit === undefined) return true;
    const { request, response: reply } = limit.exchangeOf(context);
    const decision = await limit.decide(request);
    if (decision.decision !== undefined) {
      // The same value as the adapter of Express or of Fastify sets.
      const onExpress = request.raw === undefined;
      request.rateLimit = onExpress ? new DecisionInfo(decision.decision) : decision.decision;
    }
    for (const [name, value] of decision.headers) setHeader(reply, name, value);
    if (decision.passes) {
      const response: ServerResponse | undefined = reply?.raw ?? reply;
      if (decision.settle !== undefined && response !== undefined) {
        settleOnEnd(request, response, decision.settle);
      } else decision.release?.(); // Without a response, the end of the call is unknown.
      return true;
    }
    const { status, contentType, body } = decision.rejection!;
    if (context.getType() === 'http') setHeader(reply, 'Content-Type', contentType);
    throw new HttpException(JSON.parse(body), status);
  }

  /** Returns the limit of the handler, or else that of the controller or of the module. */
  #limitFor(context: ExecutionContext): GuardLimit | undefined {
    for (const target of [context.getHandler(), context.getClass()]) {
      const own = metadata.getMetadata(METADATA, target);
      if (own === false) return undefined;
      if (own === undefined) continue;
      const limit =
        this.#own.get(target) ??
        new GuardLimit({ ...inheritedOptions(this.#options, own), ...own });
      this.#own.set(target, limit);
      return limit;
    }
    return this.#shared;
  }
}

/** A limit of the module, a controller or a handler. */
class GuardLimit {
  readonly #limiter: RequestLimiter<NestRequest>;
  readonly #request: NestOptions['request'];
  readonly #onExpress: AddressFinder<NestRequest> | undefined;
  readonly #onFastify: AddressFinder<NestRequest> | undefined;

  constructor(options: NestOptions) {
    this.#limiter = new RequestLimiter(resolveOptions(options as never, ADAPTER_FIELDS));
    this.#request = options.request;
    if (options.trustProxy !== undefined) return;
    this.#onExpress = expressAddress(options.onWarning);
    this.#onFastify = fastifyAddress(options.onWarning);
  }

  /** Returns the request of a call, and the response if the call has one. */
  exchangeOf(context: ExecutionContext): Exchange {
    const type = context.getType<string>();
    const request = this.#request?.(context);
    if (type === 'http') {
      const http = context.switchToHttp();
      return { request: request ?? http.getRequest(), response: http.getResponse() };
    }
    const graphql = type === 'graphql' ? graphqlExchange(context.getArgByIndex(2)) : undefined;
    const found = { request: request ?? graphql?.request, response: graphql?.response };
    if (found.request !== undefined) return found;
    throw noRequest(type);
  }

  /**
   * Decides a request. Converts an error with a status to an `HttpException`, because Nest responds
   * to other errors with 500.
   */
  async decide(request: NestRequest): Promise<RequestDecision<NestRequest>> {
    const raw: IncomingMessage = request.raw ?? request;
    // In Fastify, Node's request is in `raw`. In Express, the request is Node's request.
    const find = request.raw === undefined ? this.#onExpress : this.#onFastify;
    try {
      return await this.#limiter.decide(new NodeRequestInfo(request, raw, find));
    } catch (error) {
      const { status, message } = error as { status?: number; message: string };
      throw status === undefined ? error : new HttpException(message, status, { cause: error });
    }
  }
}

interface Exchange {
  readonly request: NestRequest;
  // biome-ignore lint/suspicious/noExplicitAny: the type depends on the platform.
  readonly response: any;
}

/** Reads the context of a GraphQL resolver: `{ req, res }` of Apollo, `{ reply }` of Mercurius. */
function graphqlExchange(context: NestRequest): Exchange {
  const reply = context?.reply ?? context?.res;
  const request = context?.req ?? context?.request ?? reply?.request;
  // In Express, the response is in `request.res`.
  return { request, response: reply ?? request?.res };
}

/** Sets a header on the response of Express or Fastify, if the call has one. */
function setHeader(reply: Exchange['response'], name: string, value: string): void {
  if (typeof reply?.header === 'function' && !reply.headersSent) reply.header(name, value);
}

// biome-ignore lint/complexity/noStaticOnlyClass: Nest modules are classes.
export class RateLimitModule {
  /** Limits every handler of the application. */
  static forRoot(options: Partial<NestOptions> = {}): DynamicModule {
    const guard = { provide: APP_GUARD, useFactory: () => new RateLimitGuard(options) };
    return { module: RateLimitModule, providers: [guard] };
  }
}
