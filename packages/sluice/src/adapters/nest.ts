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
import type { ExpressRateLimitOptions } from '../http/express-rate-limit.ts';
import { expressAddress, fastifyAddress } from '../http/framework-address.ts';
import { type AddressFinder, NodeRequestInfo, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision, RequestInfo } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { checkShared, hasLimit, inherited, resolveOptions } from '../http/resolve-options.ts';

/** A request of Express or Fastify. */
// biome-ignore lint/suspicious/noExplicitAny: the type depends on the platform.
export type NestRequest = any;

export interface NestOptions
  extends RequestOptions<NestRequest>,
    Omit<ExpressRateLimitOptions<NestRequest>, 'keyGenerator'> {
  /** Same as `key` with a function. */
  readonly keyGenerator?: (request: NestRequest) => string | Promise<string>;
}

const METADATA = 'sluice:rate-limit';

/** Sets the limit of a controller or handler, in place of the module's. */
export const RateLimit = (options: NestOptions) => SetMetadata(METADATA, options);

/** Exempts a controller or handler from the module's limit. */
export const SkipRateLimit = () => SetMetadata(METADATA, false);

/** The part of reflect-metadata, a dependency of Nest, that the guard uses. */
const metadata = Reflect as unknown as {
  getMetadata(name: string, target: object): NestOptions | false | undefined;
};

export class RateLimitGuard implements CanActivate {
  readonly #shared: RequestLimiter<NestRequest> | undefined;
  /** Limiters of decorated controllers and handlers, created at the first request. */
  readonly #own = new Map<object, RequestLimiter<NestRequest>>();
  readonly #options: Partial<NestOptions>;

  readonly #onExpress: AddressFinder<NestRequest> | undefined;
  readonly #onFastify: AddressFinder<NestRequest> | undefined;

  constructor(options: Partial<NestOptions>) {
    this.#options = options;
    if (options.trustProxy === undefined) {
      this.#onExpress = expressAddress(options.onWarning);
      this.#onFastify = fastifyAddress(options.onWarning);
    }
    this.#shared = hasLimit(options) ? limiterOf(options as NestOptions) : undefined;
    if (this.#shared === undefined) checkShared(options);
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true;
    const limiter = this.#limiterFor(context);
    if (limiter === undefined) return true;
    const http = context.switchToHttp();
    const request = http.getRequest();
    const raw: IncomingMessage = request.raw ?? request;
    const reply = http.getResponse();
    const response: ServerResponse = reply.raw ?? reply;
    // Fastify has Node's request in `raw`; Express's request is Node's.
    const find = request.raw === undefined ? this.#onExpress : this.#onFastify;
    const decision = await decide(limiter, new NodeRequestInfo(request, raw, find));
    for (const [name, value] of decision.headers) reply.header(name, value);
    if (decision.passes) {
      if (decision.settle !== undefined) settleOnEnd(request, response, decision.settle);
      return true;
    }
    const { status, contentType, body } = decision.rejection!;
    reply.header('Content-Type', contentType);
    throw new HttpException(JSON.parse(body), status);
  }

  /** Returns the limiter of the handler, else of the controller, else of the module. */
  #limiterFor(context: ExecutionContext): RequestLimiter<NestRequest> | undefined {
    for (const target of [context.getHandler(), context.getClass()]) {
      const own = metadata.getMetadata(METADATA, target);
      if (own === false) return undefined;
      if (own === undefined) continue;
      const limiter =
        this.#own.get(target) ?? limiterOf({ ...inherited(this.#options, own), ...own });
      this.#own.set(target, limiter);
      return limiter;
    }
    return this.#shared;
  }
}

/** Converts errors with a status to Nest's, because Nest responds to all others with 500. */
async function decide(
  limiter: RequestLimiter<NestRequest>,
  info: RequestInfo<NestRequest>,
): Promise<RequestDecision<NestRequest>> {
  try {
    return await limiter.decide(info);
  } catch (error) {
    const { status, message } = error as { status?: number; message: string };
    throw status === undefined ? error : new HttpException(message, status, { cause: error });
  }
}

function limiterOf(options: NestOptions): RequestLimiter<NestRequest> {
  return new RequestLimiter<NestRequest>(resolveOptions(options as never));
}

// biome-ignore lint/complexity/noStaticOnlyClass: Nest modules are classes.
export class RateLimitModule {
  /** Limits every handler of the application. */
  static forRoot(options: Partial<NestOptions> = {}): DynamicModule {
    const guard = { provide: APP_GUARD, useFactory: () => new RateLimitGuard(options) };
    return { module: RateLimitModule, providers: [guard] };
  }
}
