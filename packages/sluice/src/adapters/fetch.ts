/**
 * `sluice/fetch`: for handlers that take a `Request` and return a `Response`, as in Next.js, Bun,
 * Deno and Cloudflare Workers.
 *
 *     const limited = rateLimit({ limit: 100, window: '1m', key: (request) => userOf(request) });
 *     export const GET = limited((request) => new Response('hello'));
 *
 * A `Request` does not contain the client's address. Deno, Bun and, on Node, @hono/node-server pass
 * the address in the handler's second argument. On other platforms, set `key`, `address` or
 * `trustProxy`.
 */
import type { ServerResponse } from 'node:http';
import type { ExpressRateLimitOptions } from '../http/compat/express-rate-limit.ts';
import { setDecision } from '../http/decision-of.ts';
import { decide, nodeResponse, type RequestReader, type ServerEnv } from '../http/fetch-server.ts';
import type { Header } from '../http/headers.ts';
import { errorRejection } from '../http/http-error.ts';
import { setHeaders, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { resolveOptions } from '../http/resolve-options.ts';
import { appendToList, prependToList } from '../http/structured-fields.ts';

export { decisionOf } from '../http/decision-of.ts';

type Maybe<T> = T | Promise<T>;

/** In Bun, a handler that upgraded the connection to a WebSocket returns no response. */
type HandlerResult = Response | undefined;
const SWITCHING_PROTOCOLS = 101;

export type FetchHandler<
  More extends unknown[],
  R extends HandlerResult = Response,
  Q extends Request = Request,
> = (request: Q, ...more: More) => Maybe<R>;

export interface FetchOptions<More extends unknown[] = unknown[], Q extends Request = Request>
  extends RequestOptions<Q>,
    ExpressRateLimitOptions<Q> {
  /**
   * Returns the address of the socket. Default: the address that Node, Deno or Bun provides.
   *
   * @example address: (request) => request.headers.get('cf-connecting-ip') ?? undefined
   */
  readonly address?: (request: Q, ...more: More) => Maybe<string | undefined>;
  /**
   * Returns the response to a denied request; the rate-limit headers are added to it. Default:
   * problem details.
   *
   * @example handler: () => new Response('Too many requests', { status: 429 })
   */
  readonly handler?: (request: Q, decision: RequestDecision<Q>) => Maybe<Response>;
}

/** Returns the response with headers added, or a copy if its own headers are immutable. */
export function withHeaders<R extends HandlerResult>(response: R, headers: readonly Header[]): R {
  if (headers.length === 0 || response === undefined) return response;
  try {
    return addHeaders(response, headers) as R;
  } catch {
    // A response that cannot be copied either, such as a WebSocket upgrade, is returned unchanged.
    const { status, bodyUsed } = response;
    const isCopyable = status >= 200 && status <= 599 && !bodyUsed;
    return isCopyable
      ? (addHeaders(new Response(response.body, response), headers) as R)
      : response;
  }
}

function addHeaders(response: Response, added: readonly Header[]): Response {
  const { headers } = response;
  for (const [name, value] of added) {
    const current = headers.get(name);
    headers.set(name, current === null ? value : prependToList(value, current));
  }
  return response;
}

/** Returns the response to a denied request: from the `handler` option, or problem details. */
export function rejectionResponse(
  method: string,
  decision: RequestDecision<never>,
  node: ServerResponse | undefined,
  handler: (() => Maybe<Response>) | undefined,
): Maybe<Response> {
  if (handler !== undefined) {
    if (node !== undefined) setHeaders(node, decision);
    const added = node === undefined ? decision.headers : [];
    return Promise.resolve(handler()).then((response) => withHeaders(response, added));
  }
  const { status, contentType, body } = decision.rejection!;
  // @hono/node-server sends headers of this object faster than headers of Node's response.
  const headers: Record<string, string> = { 'Content-Type': contentType };
  for (const [name, value] of decision.headers) {
    headers[name] = appendToList(node?.getHeader(name), value);
  }
  return new Response(method === 'HEAD' ? null : body, { status, headers });
}

/** Returns the response to an error of the limiter; rethrows errors without a status. */
export function errorResponse(error: unknown): Response {
  const rejection = errorRejection(error);
  if (rejection === undefined) throw error;
  const { status, contentType, body } = rejection;
  return new Response(body, { status, headers: { 'Content-Type': contentType } });
}

/** Returns a function that wraps a handler: the limit is checked before the handler runs. */
export function rateLimit<More extends unknown[] = unknown[], Q extends Request = Request>(
  options: FetchOptions<More, Q>,
): <M extends More, R extends HandlerResult = Response, Each extends Q = Q>(
  handler: FetchHandler<M, R, Each>,
) => FetchHandler<M, R, Each> {
  const limiter = new RequestLimiter<Q>(resolveOptions(options, ['address', 'handler']));
  const { address, handler: onDenied } = options;
  const reader: RequestReader<Q> = {
    header: (request, name) => request.headers.get(name) ?? undefined,
    fetchRequest: (request) => request,
    address: undefined,
  };

  const apply = <R extends HandlerResult>(
    decision: RequestDecision<Q>,
    request: Q,
    node: ServerResponse | undefined,
    run: () => Maybe<R>,
  ): Maybe<R> => {
    const { headers, settle } = decision;
    setDecision(request, decision.decision);
    if (!decision.passes) {
      const own = onDenied && (() => onDenied(request, decision));
      return rejectionResponse(request.method, decision, node, own) as Maybe<R>;
    }
    if (node === undefined) {
      return runAndSettle(request, request, decision, run).then((each) =>
        withHeaders(each, headers),
      );
    }
    setHeaders(node, decision);
    if (settle !== undefined) settleOnEnd(request, node, settle);
    return run();
  };
  return <M extends More, R extends HandlerResult, Each extends Q>(
    handler: FetchHandler<M, R, Each>,
  ): FetchHandler<M, R, Each> =>
    (request, ...more) => {
      const env = envOf(more[0]);
      const node = nodeResponse(env, request);
      const own = address && { ...reader, address: () => address(request, ...more) };
      const decision = decide<Q>(limiter, request, env, own ?? reader);
      const run = (): Maybe<R> => handler(request, ...more);
      if (decision instanceof Promise) {
        return decision.then(
          (each) => apply(each, request, node, run),
          (error) => errorResponse(error) as R,
        );
      }
      try {
        const response = apply(decision, request, node, run);
        // @hono/node-server has a fast path for a response without a promise.
        return node === undefined ? Promise.resolve(response) : response;
      } catch (error) {
        return Promise.reject(error);
      }
    };
}

/** Returns the handler's second argument if it is an object. */
function envOf(env: unknown): ServerEnv {
  return typeof env === 'object' && env !== null ? env : {};
}

/**
 * Runs the handler and settles the decision when it has returned or thrown. Holds of concurrency
 * limits are released when the body of the response has been read.
 */
export async function runAndSettle<T, R extends HandlerResult>(
  request: T,
  fetchRequest: Request,
  { settle, release }: RequestDecision<T>,
  run: () => Maybe<R>,
): Promise<R> {
  // Deno aborts the signal only if it was read before the client disconnected.
  if (settle !== undefined) void fetchRequest.signal;
  try {
    const response = await run();
    const isStreaming = release !== undefined && isReadable(fetchRequest, response);
    const outcome = {
      request,
      status: response?.status ?? SWITCHING_PROTOCOLS,
      finished: !fetchRequest.signal.aborted,
      bytes: response && bytesOf(response),
    };
    settle?.(outcome, isStreaming);
    return isStreaming ? (callOnEnd(response!, fetchRequest.signal, release) as R) : response;
  } catch (error) {
    settle?.({ request, status: 500, finished: false, bytes: undefined });
    throw error;
  }
}

/** Whether the server will read the body of a response. */
function isReadable({ method, signal }: Request, response: HandlerResult): boolean {
  if (method === 'HEAD' || signal.aborted || !response?.body) return false;
  return !response.bodyUsed && response.status >= 200 && response.status <= 599;
}

/** Returns the response with a body that calls `end` when it was read, failed or is cancelled. */
function callOnEnd(response: Response, signal: AbortSignal, end: () => void): Response {
  const reader = response.body!.getReader();
  const strategy = { highWaterMark: 0 };
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            controller.enqueue(value);
            return;
          }
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        end();
      },
      cancel(reason) {
        end();
        return reader.cancel(reason);
      },
    },
    strategy,
  );
  signal.addEventListener('abort', end, { once: true });
  return new Response(body, response);
}

/** Returns the Content-Length header as a number, or undefined if it is not set. */
function bytesOf({ headers }: Response): number | undefined {
  const length = headers.get('content-length');
  return length === null ? undefined : Number(length);
}
