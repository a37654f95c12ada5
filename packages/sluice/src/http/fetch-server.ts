/**
 * What servers tell a handler from `Request` to `Response` beside the request: Node through
 * @hono/node-server, Deno and Bun, each in its own way.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NodeRequestInfo } from './node-server.ts';
import type { RequestInfo } from './request-limiter.ts';

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

export function requestInfoOf<R>(request: R, env: ServerEnv, reading: Reading<R>): RequestInfo<R> {
  const { header, plain, address, trustProxy } = reading;
  const { incoming } = env;
  if (address === undefined && incoming?.socket !== undefined) {
    // On Node, who sent a request is read where it came in, which is much faster.
    return new NodeRequestInfo(request, incoming, undefined, incoming.socket, header);
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
  // In none of the networks that lists speak of.
  return typeof trustProxy === 'number' ? '0.0.0.0' : undefined;
}

/**
 * Node's own answer to a request, which is told what limits say whatever is answered, so that the
 * `Response` stays as it is: @hono/node-server has a fast way for that. A request that was made
 * from the one that came in has an answer of its own.
 */
export function nodeAnswer({ outgoing }: ServerEnv, request: Request): ServerResponse | undefined {
  return typeof outgoing?.writeHead === 'function' && !isMade(request) ? outgoing : undefined;
}

/** The usual kind of request, and the one that it was made from. */
let usual: Request | undefined;
let original: Request | undefined;

/** Whether a request was made by `new Request`, rather than by a server for one that came. */
function isMade(request: Request): boolean {
  if (usual !== Request.prototype) {
    usual = Request.prototype;
    // The server puts a kind of its own in the place of the usual one.
    original = Object.getPrototypeOf(usual);
  }
  const kind = Object.getPrototypeOf(request);
  return kind === usual || kind === original;
}
