/**
 * What servers tell a handler from `Request` to `Response` beside the request: Node through
 * @hono/node-server, Deno and Bun, each in its own way.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isForwarding, NodeFacts, sendFields } from './node-server.ts';
import type { Facts, Field, Verdict } from './request-limiter.ts';

/** The second argument of a handler, as far as it is understood. */
export interface ServerEnv {
  readonly incoming?: IncomingMessage;
  readonly outgoing?: ServerResponse;
  readonly remoteAddr?: { readonly hostname?: string };
  readonly server?: BunServer;
  readonly requestIP?: BunServer['requestIP'];
}

interface BunServer {
  requestIP?(request: Request): { readonly address?: string } | null;
}

/** How an adapter reads its requests. */
export interface Reading<R> {
  readonly header: (request: R, name: string) => string | undefined;
  readonly plain: (request: R) => Request;
  /** The address at the other end, if the caller says it. */
  readonly address: ((request: R, env: ServerEnv) => string | undefined) | undefined;
  readonly trustProxy: unknown;
}

/** On Node, who sent a request is read where it came in, which is much faster. */
class IncomingFacts<R> extends NodeFacts<R> {
  readonly #header: Reading<R>['header'];

  constructor(request: R, raw: IncomingMessage, header: Reading<R>['header']) {
    super(request, raw);
    this.#header = header;
  }

  /** Other headers may have been changed on the way here. */
  override header(name: string): string | undefined {
    return isForwarding(name) ? super.header(name) : this.#header(this.request, name);
  }
}

export function factsOf<R>(request: R, env: ServerEnv, reading: Reading<R>): Facts<R> {
  const { header, plain, address, trustProxy } = reading;
  if (address === undefined && env.incoming?.socket !== undefined) {
    return new IncomingFacts(request, env.incoming, header);
  }
  const found = address ? address(request, env) : addressIn(env, plain(request));
  return {
    request,
    socketAddress: found ?? unknownProxy(trustProxy),
    header: (name) => header(request, name),
  };
}

function addressIn(env: ServerEnv, request: Request): string | undefined {
  const server = env.server ?? env;
  const isBun = typeof server.requestIP === 'function';
  const found: unknown = isBun ? server.requestIP?.(request)?.address : env.remoteAddr?.hostname;
  // Where it is something else under the same name, such as a worker's bindings, it tells nothing.
  return typeof found === 'string' ? found : undefined;
}

/** Where proxies are counted, it does not matter which address the nearest one has. */
function unknownProxy(trustProxy: unknown): string | undefined {
  return typeof trustProxy === 'number' ? '127.0.0.1' : undefined;
}

const NO_FIELDS: readonly Field[] = [];

/**
 * The fields that a `Response` still has to get. Node's own answer takes them whatever is answered,
 * and the `Response` stays as it is, which @hono/node-server has a fast way for.
 */
export function fieldsLeft({ outgoing }: ServerEnv, verdict: Verdict<never>): readonly Field[] {
  if (typeof outgoing?.writeHead !== 'function') return verdict.fields;
  sendFields(outgoing, verdict);
  return NO_FIELDS;
}
