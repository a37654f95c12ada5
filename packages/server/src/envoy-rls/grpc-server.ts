/**
 * The rate limit service and the health service over gRPC. This module is imported dynamically, so
 * that the gRPC libraries are loaded only if gRPC is on.
 */
import { fileURLToPath } from 'node:url';
import { load, type ServiceDefinition } from '@grpc/proto-loader';
import { SluiceError } from 'sluice';
import type { AppContext } from '../app-context.ts';
import { monotonicMs } from '../clock.ts';
import { storeMessage } from '../http/problems.ts';
import type { Listen } from '../settings.ts';
import { type Call, type Method, STATUS } from './grpc-calls.ts';
import { HealthService } from './grpc-health.ts';
import { GrpcTransport } from './grpc-transport.ts';
import type { RateLimitRequest, RateLimitResponse } from './messages.ts';
import { InvalidRequest } from './plan.ts';
import { rateLimit } from './rate-limit.ts';
import { structOf } from './struct.ts';

export interface GrpcServer {
  readonly listen: Listen;
  /**
   * Graceful shutdown: completes the calls in flight. Closes connections that are still open after
   * `drainMs`.
   */
  close(drainMs: number): Promise<void>;
}

const PROTOS = fileURLToPath(new URL('../../proto', import.meta.url));
const RATE_LIMIT = 'envoy.service.ratelimit.v3.RateLimitService';
const HEALTH = 'grpc.health.v1.Health';

/**
 * Options for the parser of the proto files. It converts 64-bit integers to numbers. A cost large
 * enough to lose precision exceeds every limit.
 */
const LOAD_OPTIONS = { includeDirs: [PROTOS], longs: Number };

export async function startGrpcServer(app: AppContext, listen: Listen): Promise<GrpcServer> {
  const files = ['envoy/service/ratelimit/v3/rls.proto', 'grpc/health/v1/health.proto'];
  const services = await load(files, LOAD_OPTIONS);
  // `ratelimit` is the name of the service in envoyproxy/ratelimit.
  const names = ['', RATE_LIMIT, 'ratelimit'];
  const health = new HealthService(() => app.health.isStoreUp(), names);
  const methods = new Map([
    ...methodsOf(services[RATE_LIMIT] as ServiceDefinition, {
      ShouldRateLimit: shouldRateLimit(app),
    }),
    ...methodsOf(services[HEALTH] as ServiceDefinition, health.handlers),
  ]);
  const transport = new GrpcTransport(methods, app.certificates, app.log);
  const bound = await transport.listen(listen, app.group.source);
  return {
    listen: bound,
    close: (drainMs) => {
      health.drain();
      return transport.close(drainMs);
    },
  };
}

type Handlers = Readonly<Record<string, Method['handle']>>;

/** Returns methods by path, such as `/grpc.health.v1.Health/Check`. */
const methodsOf = (service: ServiceDefinition, handlers: Handlers): readonly [string, Method][] =>
  Object.entries(handlers).map(([name, handle]) => {
    const { path, requestDeserialize, responseSerialize } = service[name];
    return [path, { requestDeserialize, responseSerialize, handle }];
  });

function shouldRateLimit(app: AppContext): Method['handle'] {
  return (call) => {
    const startMs = monotonicMs();
    const succeed = (response: RateLimitResponse): void => {
      call.respond(wireForm(response));
      app.metrics.recordDecision('grpc', monotonicMs() - startMs);
    };
    const fail = (error: unknown): void => failWith(call, error, app);
    try {
      const response = rateLimit(app, call.request as RateLimitRequest);
      if (response instanceof Promise) response.then(succeed).catch(fail);
      else succeed(response);
    } catch (error) {
      fail(error);
    }
  };
}

function wireForm(response: RateLimitResponse): object {
  const { dynamicMetadata } = response;
  if (dynamicMetadata === undefined) return response;
  return { ...response, dynamicMetadata: structOf(dynamicMetadata) };
}

/**
 * Ends a call with an error status. Envoy then admits or denies the request according to its
 * setting `failure_mode_deny`.
 */
function failWith(call: Call, error: unknown, { log }: AppContext): void {
  if (error instanceof InvalidRequest) call.fail(STATUS.INVALID_ARGUMENT, error.message);
  else if (error instanceof SluiceError && error.code === 'ERR_STORE_UNAVAILABLE') {
    call.fail(STATUS.UNAVAILABLE, storeMessage(error.message));
  } else {
    log.error({ err: error }, 'call failed');
    call.fail(STATUS.INTERNAL, 'Internal error; see the log of the service');
  }
}
