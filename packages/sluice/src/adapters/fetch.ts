/**
 * `sluice/fetch`: for handlers from a `Request` to a `Response`, as Next.js, Bun, Deno and workers
 * have them.
 *
 *     const limited = rateLimit({ limit: 100, window: '1m', key: (request) => userOf(request) });
 *     export const GET = limited((request) => new Response('hello'));
 *
 * A `Request` does not say who sent it. Deno, Bun and, on Node, @hono/node-server tell the handler
 * in its second argument, which is understood; elsewhere a key function says it, or `address`, or a
 * proxy with `trustProxy`.
 */
import { factsOf, fieldsLeft, type Reading, type ServerEnv } from '../http/fetch-server.ts';
import {
  type FamiliarOptions,
  type Outcome,
  type RequestOptions,
  readyOptions,
} from '../http/options.ts';
import { type Field, RequestLimiter, type Verdict } from '../http/request-limiter.ts';

export type FetchHandler<More extends unknown[]> = (
  request: Request,
  ...more: More
) => Response | Promise<Response>;

export interface FetchOptions<More extends unknown[] = unknown[]>
  extends RequestOptions<Request>,
    FamiliarOptions<Request> {
  /** The address at the other end, where the server does not tell it in a known way. */
  readonly address?: (request: Request, ...more: More) => string | undefined;
  /** Makes the answer to a refusal instead; the fields are added to it. */
  readonly handler?: (request: Request, verdict: Verdict<Request>) => Response | Promise<Response>;
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
  const { address, trustProxy } = options;
  const refused = options.handler;
  const reading: Reading<Request> = {
    header: (request, name) => request.headers.get(name) ?? undefined,
    plain: (request) => request,
    address: undefined,
    trustProxy,
  };

  const act = <M extends More>(
    verdict: Verdict<Request>,
    handler: FetchHandler<M>,
    request: Request,
    more: M,
  ): Response | Promise<Response> => {
    const fields = fieldsLeft(envOf(more), verdict);
    if (verdict.passes) return answered(handler, request, more, verdict, fields);
    if (refused === undefined) return refusal(request.method, verdict, fields);
    return Promise.resolve(refused(request, verdict)).then((answer) => withFields(answer, fields));
  };
  return (handler) =>
    // No async function: where nothing is waited for, promises are most of the cost.
    (request, ...more) => {
      try {
        const own = address && { ...reading, address: () => address(request, ...more) };
        const verdict = limiter.decide(factsOf(request, envOf(more), own ?? reading));
        if (!(verdict instanceof Promise)) return act(verdict, handler, request, more);
        return verdict.then((later) => act(later, handler, request, more));
      } catch (error) {
        return Promise.reject(error);
      }
    };
}

/** Also one that is not Node's own. */
function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | undefined)?.then === 'function';
}

/** What the server tells beside the request, if it tells anything. */
function envOf([env]: readonly unknown[]): ServerEnv {
  return typeof env === 'object' && env !== null ? env : {};
}

/** Runs the handler; one that throws is over as well. */
function answered<M extends unknown[]>(
  handler: FetchHandler<M>,
  request: Request,
  more: M,
  { over }: Verdict<Request>,
  fields: readonly Field[],
): Response | Promise<Response> {
  if (over === undefined && fields.length === 0) return handler(request, ...more);
  const finish = (response: Response): Response => {
    over?.({ request, ...endOf(request, response) });
    return withFields(response, fields);
  };
  const fail = (error: unknown): never => {
    over?.({ request, status: 500, finished: false, bytes: undefined });
    throw error;
  };
  let answer: Response | Promise<Response>;
  try {
    answer = handler(request, ...more);
  } catch (error) {
    return fail(error);
  }
  return isPromise(answer) ? answer.then(finish, fail) : finish(answer);
}

/** How a request ended, as its answer tells. */
export function endOf(request: Request, response: Response): Omit<Outcome<never>, 'request'> {
  const length = response.headers.get('content-length');
  const bytes = length === null ? undefined : Number(length);
  return { status: response.status, finished: !request.signal.aborted, bytes };
}
