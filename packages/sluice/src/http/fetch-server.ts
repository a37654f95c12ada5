/**
 * Reads the second argument that a server passes to a `Request` handler, such as the address of the
 * client. Deno, Bun and, on Node, @hono/node-server pass it in different forms.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NodeRequestInfo } from './node-server.ts';
import type { RequestDecision, RequestInfo } from './request-decision.ts';
import type { RequestLimiter } from './request-limiter.ts';

type Maybe<T> = T | Promise<T>;

/** The properties of the second argument that are read here. */
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
export interface RequestReader<R> {
  readonly header: (request: R, name: string) => string | undefined;
  readonly fetchRequest: (request: R) => Request;
  /** The `address` option. */
  readonly address: ((request: R) => Maybe<string | undefined>) | undefined;
}

/** Decides a request. Returns a promise if the `address` option or the limiter returns one. */
export function decide<R>(
  limiter: RequestLimiter<R>,
  request: R,
  env: ServerEnv,
  reader: RequestReader<R>,
): Maybe<RequestDecision<R>> {
  try {
    const info = requestInfo(request, env, reader);
    return info instanceof Promise ? info.then(limiter.decide) : limiter.decide(info);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Describes a request. Returns a promise only if the `address` option returns one. */
function requestInfo<R>(
  request: R,
  env: ServerEnv,
  reader: RequestReader<R>,
): Maybe<RequestInfo<R>> {
  const { header, fetchRequest, address } = reader;
  const { incoming } = env;
  if (address === undefined && incoming?.socket !== undefined) {
    return new NodeRequestInfo(request, incoming, undefined, header);
  }
  const describe = (socketAddress: string | undefined): RequestInfo<R> => ({
    request,
    socketAddress,
    header: (name) => header(request, name),
    // The `address` option is set, so a forwarding header needs no warning.
    ...(address && { isForwarded: false }),
  });
  const found = address ? address(request) : addressIn(env, fetchRequest(request));
  return typeof found === 'object' ? Promise.resolve(found).then(describe) : describe(found);
}

function addressIn(env: ServerEnv, request: Request): string | undefined {
  const server = env.server ?? env;
  const isBun = typeof server.requestIP === 'function';
  const found: unknown = isBun ? server.requestIP?.(request)?.address : env.remoteAddr?.hostname;
  // A binding of a Cloudflare Worker may have one of these names and another type.
  return typeof found === 'string' ? found : undefined;
}

/**
 * Returns Node's response to `request`. Set headers on it before the handler runs, instead of on
 * the handler's `Response`: @hono/node-server has a fast path for a `Response` without changes.
 * Returns undefined for a request that the application created with `new Request`, because no
 * client receives the response to it.
 */
export function nodeResponse(
  { outgoing }: ServerEnv,
  request: Request,
): ServerResponse | undefined {
  if (typeof outgoing?.setHeader !== 'function') return undefined;
  // @hono/node-server replaces the global `Request` with a subclass. Requests that the server
  // received have another prototype.
  const constructed = globalThis.Request.prototype;
  const prototype = Object.getPrototypeOf(request);
  const isConstructed =
    prototype === constructed || prototype === Object.getPrototypeOf(constructed);
  return isConstructed ? undefined : outgoing;
}
