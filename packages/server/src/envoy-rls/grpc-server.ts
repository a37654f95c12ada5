/**
 * The rate limit service and the health of it over gRPC. Nothing else imports this file, and it is
 * loaded only when gRPC is on, so that others do not pay for its libraries.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  type handleUnaryCall,
  logVerbosity,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type StatusObject,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js';
import { load } from '@grpc/proto-loader';
import { SluiceError, systemClock } from 'sluice';
import { monotonicMs } from '../clock.ts';
import { storeWords } from '../http/problems.ts';
import type { Parts } from '../parts.ts';
import { type Listen, listenText, type Settings } from '../settings.ts';
import { HealthService } from './grpc-health.ts';
import type { RateLimitRequest, RateLimitResponse } from './messages.ts';
import { InvalidRequest } from './plan.ts';
import { rateLimit } from './rate-limit.ts';
import { structOf } from './struct.ts';

export interface GrpcServer {
  readonly listen: Listen;
  /** Takes no new calls, answers those in flight, and ends what is left after `drainMs`. */
  close(drainMs: number): Promise<void>;
}

const PROTOS = fileURLToPath(new URL('../../proto', import.meta.url));
const RATE_LIMIT = 'envoy.service.ratelimit.v3.RateLimitService';
const HEALTH = 'grpc.health.v1.Health';

/** What a connection may take. Envoy opens another where one has all the calls it may have. */
const BOUNDS = {
  'grpc.max_receive_message_length': 256 * 1024,
  'grpc.max_concurrent_streams': 1000,
  'grpc.enable_channelz': 0,
};

/** Only what was sent is in a message, and 64 bits are a number: a cost that large never fits. */
const FORM = { includeDirs: [PROTOS], longs: Number };

export async function startGrpcServer(parts: Parts, listen: Listen): Promise<GrpcServer> {
  const files = ['envoy/service/ratelimit/v3/rls.proto', 'grpc/health/v1/health.proto'];
  const services = await load(files, FORM);
  // It would print beside the log what is thrown or answered anyway.
  setLogVerbosity(logVerbosity.NONE);
  const server = new Server(BOUNDS);
  server.addService(services[RATE_LIMIT] as ServiceDefinition, {
    ShouldRateLimit: shouldRateLimit(parts),
  });
  // The last is the name that envoyproxy/ratelimit has for itself.
  const names = ['', RATE_LIMIT, 'ratelimit'];
  const health = new HealthService(() => parts.health.isStoreUp(), names);
  server.addService(services[HEALTH] as ServiceDefinition, health.handlers);
  const entry = await enter(server, parts, listen);
  return {
    listen: entry.listen,
    close: (drainMs) => {
      health.drain();
      return shutDown(server, entry, drainMs);
    },
  };
}

/** Where connections come in, and how they are ended. */
interface Entry {
  readonly listen: Listen;
  drain(graceMs: number): void;
}

/** By the port, or from another process that has it. */
async function enter(server: Server, parts: Parts, listen: Listen): Promise<Entry> {
  const credentials = credentialsOf(parts.settings);
  const { door } = parts.crew;
  if (door === undefined) {
    const port = await bind(server, listenText(listen), credentials);
    const bound = { host: listen.host, port };
    return { listen: bound, drain: (graceMs) => server.drain(listenText(bound), graceMs) };
  }
  const injector = server.createConnectionInjector(credentials);
  return {
    listen: door.open('grpc', (socket) => injector.injectConnection(socket)),
    drain: (graceMs) => injector.drain(graceMs),
  };
}

function credentialsOf({ tlsCert, tlsKey }: Settings): ServerCredentials {
  if (tlsCert === undefined || tlsKey === undefined) return ServerCredentials.createInsecure();
  const pair = { cert_chain: readFileSync(tlsCert), private_key: readFileSync(tlsKey) };
  return ServerCredentials.createSsl(null, [pair]);
}

function bind(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => {
      if (error) reject(error);
      else resolve(port);
    });
  });
}

/** How much longer a connection may take to end; one that never became a session does not. */
const ENDING_MS = 250;

/** Connections end when their last call has been answered; `drain` sees to those that do not. */
function shutDown(server: Server, entry: Entry, drainMs: number): Promise<void> {
  return new Promise((resolve) => {
    const stopWaiting = systemClock.schedule(drainMs + ENDING_MS, resolve);
    entry.drain(drainMs);
    server.tryShutdown(() => {
      stopWaiting();
      resolve();
    });
  });
}

function shouldRateLimit(parts: Parts): handleUnaryCall<RateLimitRequest, object> {
  return (call, answer) => {
    const startMs = monotonicMs();
    const succeed = (response: RateLimitResponse): void => {
      answer(null, wireForm(response));
      parts.metrics.decided('grpc', monotonicMs() - startMs);
    };
    const fail = (error: unknown): void => answer(statusOf(error, parts));
    try {
      const response = rateLimit(parts, call.request);
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

/** Envoy lets a request pass, or not, by its own setting when a call fails. */
function statusOf(error: unknown, { log }: Parts): Partial<StatusObject> {
  if (error instanceof InvalidRequest) {
    return { code: status.INVALID_ARGUMENT, details: error.message };
  }
  if (error instanceof SluiceError && error.code === 'ERR_STORE_UNAVAILABLE') {
    return { code: status.UNAVAILABLE, details: storeWords(error.message) };
  }
  log.error({ err: error }, 'failed');
  return { code: status.INTERNAL, details: 'Something went wrong here; the log says what' };
}
