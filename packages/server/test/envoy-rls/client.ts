/** A client of Envoy's rate limit service with its own .proto files, and services for tests. */
import * as grpc from '@grpc/grpc-js';
import * as loader from '@grpc/proto-loader';
import { readConfig } from '../../src/config/read.ts';
import { type Running, type RunningOptions, startRunning } from '../running.ts';

const here = (name: string): string => new URL(name, import.meta.url).pathname;
const protos = loader.loadSync([here('client.proto'), here('client-health.proto')], {
  keepCase: true,
  enums: String,
  longs: Number,
  defaults: true,
});

export interface Descriptor {
  readonly entries?: readonly { readonly key?: string; readonly value?: string }[];
  readonly limit?: { readonly requests_per_unit: number; readonly unit: number };
  readonly hits_addend?: { readonly value?: number | string };
  readonly is_negative_hits?: boolean;
}

export interface RateLimitRequest {
  readonly domain?: string;
  readonly descriptors?: readonly Descriptor[];
  readonly hits_addend?: number;
  readonly from_the_future?: string;
}

export interface Status {
  readonly code: string;
  readonly current_limit: {
    readonly requests_per_unit: number;
    readonly unit: string;
    readonly name: string;
  } | null;
  readonly limit_remaining: number;
  readonly duration_until_reset: { readonly seconds: number; readonly nanos: number } | null;
}

export interface RateLimitResponse {
  readonly overall_code: string;
  readonly statuses: readonly Status[];
  readonly response_headers_to_add: readonly { readonly key: string; readonly value: string }[];
  readonly dynamic_metadata: unknown;
}

export const OK = 'ANSWER_OK';
export const OVER = 'ANSWER_OVER_LIMIT';

/** The status of a descriptor without a limit. */
export const FREE: Status = {
  code: OK,
  current_limit: null,
  limit_remaining: 0,
  duration_until_reset: null,
};
export const UNLIMITED: Status = { ...FREE, limit_remaining: 4_294_967_295 };

/** Returns a descriptor: `entries('user', 'ann', 'path', '/')`. */
export function entries(...texts: readonly string[]): Descriptor {
  const pairs = texts.flatMap((key, at) => (at % 2 === 0 ? [{ key, value: texts[at + 1] }] : []));
  return { entries: pairs };
}

type Call = (request: object, callback: (error: Error | null, response: never) => void) => void;

export class RlsClient {
  readonly #rls: grpc.Client;
  readonly #health: grpc.Client;

  constructor(address: string, credentials = grpc.credentials.createInsecure()) {
    // Each client has its own connections, as each Envoy has.
    const options = { 'grpc.use_local_subchannel_pool': 1 };
    const clientOf = (name: string): grpc.Client => {
      const service = protos[name] as grpc.ServiceDefinition;
      return new (grpc.makeClientConstructor(service, name))(address, credentials, options);
    };
    this.#rls = clientOf('envoy.service.ratelimit.v3.RateLimitService');
    this.#health = clientOf('grpc.health.v1.Health');
  }

  #unary<T>(client: grpc.Client, method: string, message: object): Promise<T> {
    return new Promise((resolve, reject) => {
      const call = (client as unknown as Record<string, Call>)[method];
      call.call(client, message, (error, response) => (error ? reject(error) : resolve(response)));
    });
  }

  shouldRateLimit(request: RateLimitRequest): Promise<RateLimitResponse> {
    return this.#unary(this.#rls, 'ShouldRateLimit', request);
  }

  /** Sends equal requests one after the other. Resolves to the number of allowed ones. */
  async countAllowed(request: RateLimitRequest, times: number): Promise<number> {
    let allowed = 0;
    for (let call = 0; call < times; call++) {
      if ((await this.shouldRateLimit(request)).overall_code === OK) allowed++;
    }
    return allowed;
  }

  async health(service = ''): Promise<string> {
    return (await this.#unary<{ status: string }>(this.#health, 'Check', { service })).status;
  }

  watchHealth(service = ''): grpc.ClientReadableStream<{ readonly status: string }> {
    type Watch = (message: object) => grpc.ClientReadableStream<{ readonly status: string }>;
    const { Watch: watch } = this.#health as unknown as { readonly Watch: Watch };
    return watch.call(this.#health, { service });
  }

  close(): void {
    this.#rls.close();
    this.#health.close();
  }
}

/** Returns the gRPC code and message that a call fails with. */
export async function failureOf(call: Promise<unknown>): Promise<readonly [string, string]> {
  try {
    await call;
  } catch (error) {
    const { code, details } = error as grpc.ServiceError;
    return [grpc.status[code], details];
  }
  return ['OK', ''];
}

/** A service and a client that is connected to it. */
export interface Served {
  readonly running: Running;
  readonly client: RlsClient;
  close(): Promise<void>;
}

/** Starts a service. `yaml` is a configuration file of Sluice or of envoyproxy/ratelimit. */
export async function serve(yaml: string, more: RunningOptions = {}): Promise<Served> {
  const config = readConfig([{ path: 'test.yaml', text: yaml }]);
  const settings = { grpc: '127.0.0.1:0', ...more.settings };
  const running = await startRunning({ ...more, config, settings });
  const client = new RlsClient(addressOf(running));
  return {
    running,
    client,
    close: async () => {
      client.close();
      await running.close();
    },
  };
}

export function addressOf({ service: { grpc } }: Running): string {
  return `${grpc?.host}:${grpc?.port}`;
}
