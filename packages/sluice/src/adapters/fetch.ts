/**
 * `sluice/fetch`: for handlers from a `Request` to a `Response`, as Next.js, Bun, Deno and workers
 * have them.
 *
 *     const limited = rateLimit({ limit: 100, window: '1m', key: (request) => userOf(request) });
 *     export const GET = limited((request) => new Response('hello'));
 *
 * A `Request` does not say who sent it. Deno and Bun tell the handler in its second argument, which
 * is understood; elsewhere a key function says it, or `address`, or a proxy with `trustProxy`.
 */
import {
  type FamiliarOptions,
  type Outcome,
  type RequestOptions,
  readyOptions,
} from '../http/options.ts';
import { type Facts, type Field, RequestLimiter, type Verdict } from '../http/request-limiter.ts';

export type FetchHandler<More extends unknown[]> = (
  request: Request,
  ...more: More
) => Response | Promise<Response>;

export interface FetchOptions<More extends unknown[] = unknown[]>
  extends RequestOptions<Request>,
    FamiliarOptions<Request> {
  /** The address at the other end of the connection, if neither Deno nor Bun tells it. */
  readonly address?: (request: Request, ...more: More) => string | undefined;
  /** Makes the answer to a refusal instead; the fields are added to it. */
  readonly handler?: (request: Request, verdict: Verdict<Request>) => Response | Promise<Response>;
}

/** The address that Deno (`info.remoteAddr`) or Bun (`server.requestIP`) tells. */
function addressFrom(request: Request, [info]: readonly unknown[]): string | undefined {
  const shape = (info ?? {}) as {
    remoteAddr?: { hostname?: string };
    requestIP?: (request: Request) => { address?: string } | null;
  };
  if (typeof shape.requestIP === 'function') return shape.requestIP(request)?.address;
  return shape.remoteAddr?.hostname;
}

/** Where proxies are counted, it does not matter which address the nearest one has. */
export function unknownProxy(trustProxy: unknown): string | undefined {
  return typeof trustProxy === 'number' ? '127.0.0.1' : undefined;
}

/** Adds fields to an answer, also to one whose fields cannot be changed. */
export function withFields(response: Response, fields: readonly Field[]): Response {
  if (fields.length === 0) return response;
  try {
    for (const [name, value] of fields) response.headers.set(name, value);
    return response;
  } catch {
    const copy = new Response(response.body, response);
    for (const [name, value] of fields) copy.headers.set(name, value);
    return copy;
  }
}

/** The answer to a request that does not pass, with its fields from the start: that is faster. */
export function refusal(
  method: string,
  { rejection }: Verdict<never>,
  fields: readonly Field[],
): Response {
  const { status, contentType, body } = rejection!;
  const headers: Record<string, string> = { 'Content-Type': contentType };
  for (const [name, value] of fields) headers[name] = value;
  return new Response(method === 'HEAD' ? null : body, { status, headers });
}

/** Puts a limit in front of a handler. */
export function rateLimit<More extends unknown[] = unknown[]>(
  options: FetchOptions<More>,
): <M extends More>(handler: FetchHandler<M>) => FetchHandler<M> {
  const limiter = new RequestLimiter<Request>(readyOptions(options, ['address', 'handler']));
  const addressOf = options.address;
  return (handler) =>
    async (request, ...more) => {
      const facts: Facts<Request> = {
        request,
        socketAddress:
          (addressOf ? addressOf(request, ...more) : addressFrom(request, more)) ??
          unknownProxy(options.trustProxy),
        header: (name) => request.headers.get(name) ?? undefined,
      };
      const verdict = await limiter.decide(facts);
      if (!verdict.passes) {
        const { fields } = verdict;
        if (options.handler === undefined) return refusal(request.method, verdict, fields);
        return withFields(await options.handler(request, verdict), fields);
      }
      return finish(await answered(handler, request, more, verdict), verdict, request);
    };
}

/** Runs the handler; one that throws is over as well. */
async function answered<M extends unknown[]>(
  handler: FetchHandler<M>,
  request: Request,
  more: M,
  { over }: Verdict<Request>,
): Promise<Response> {
  try {
    return await handler(request, ...more);
  } catch (error) {
    over?.({ request, status: 500, finished: false, bytes: undefined });
    throw error;
  }
}

function finish(response: Response, { fields, over }: Verdict<Request>, request: Request) {
  over?.({ request, ...endOf(request, response) });
  return withFields(response, fields);
}

/** How a request ended, as its answer tells. */
export function endOf(request: Request, response: Response): Omit<Outcome<never>, 'request'> {
  const length = response.headers.get('content-length');
  const bytes = length === null ? undefined : Number(length);
  return { status: response.status, finished: !request.signal.aborted, bytes };
}
