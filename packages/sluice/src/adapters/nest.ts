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
import { expressAddress, fastifyAddress } from '../http/framework-address.ts';
import { type AddressFinder, NodeRequestInfo, whenOver } from '../http/node-server.ts';
import {
  checkShared,
  type ExpressRateLimitOptions,
  hasLimit,
  inherited,
  type RequestOptions,
  resolveOptions,
} from '../http/options.ts';
import { type RequestDecision, type RequestInfo, RequestLimiter } from '../http/request-limiter.ts';

/** A request of Express, or of Fastify, which keeps Node's own in `raw`. */
// biome-ignore lint/suspicious/noExplicitAny: what it is depends on the platform.
export type NestRequest = any;

export interface NestOptions
  extends RequestOptions<NestRequest>,
    Omit<ExpressRateLimitOptions<NestRequest>, 'keyGenerator'> {
  readonly keyGenerator?: (request: NestRequest) => string | Promise<string>;
}

const METADATA = 'sluice:rate-limit';

/** A limit of its own for a controller or a handler, in place of the module's. */
export const RateLimit = (options: NestOptions) => SetMetadata(METADATA, options);

/** No limit for a controller or a handler. */
export const SkipRateLimit = () => SetMetadata(METADATA, false);

/** The parts of Reflect that Nest brings along. */
const metadata = Reflect as unknown as {
  getMetadata(name: string, target: object): NestOptions | false | undefined;
};

export class RateLimitGuard implements CanActivate {
  readonly #shared: RequestLimiter<NestRequest> | undefined;
  /** A limiter for each decorated target, made when it is first reached. */
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
    const find = request.raw === undefined ? this.#onExpress : this.#onFastify;
    const decision = await decided(limiter, new NodeRequestInfo(request, raw, find));
    for (const [name, value] of decision.fields) reply.header(name, value);
    if (decision.passes) {
      const { over } = decision;
      if (over !== undefined) whenOver(request, response, over);
      return true;
    }
    const { status, contentType, body } = decision.rejection!;
    reply.header('Content-Type', contentType);
    throw new HttpException(JSON.parse(body), status);
  }

  /** The handler's own limit goes before the controller's, and that before the module's. */
  #limiterFor(context: ExecutionContext): RequestLimiter<NestRequest> | undefined {
    for (const target of [context.getHandler(), context.getClass()]) {
      const own = metadata.getMetadata(METADATA, target);
      if (own === false) return undefined;
      if (own === undefined) continue;
      const known = this.#own.get(target);
      if (known !== undefined) return known;
      const limiter = limiterOf({ ...inherited(this.#options, own), ...own });
      this.#own.set(target, limiter);
      return limiter;
    }
    return this.#shared;
  }
}

/** Nest answers with 500 whatever is not one of its own. */
async function decided(
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

// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class.
export class RateLimitModule {
  /** Guards every handler of the application. */
  static forRoot(options: Partial<NestOptions> = {}): DynamicModule {
    const guard = { provide: APP_GUARD, useFactory: () => new RateLimitGuard(options) };
    return { module: RateLimitModule, providers: [guard] };
  }
}
