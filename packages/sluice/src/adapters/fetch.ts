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
import type { ServerResponse } from 'node:http';
import { nodeAnswer, type Reading, requestInfoOf, type ServerEnv } from '../http/fetch-server.ts';
import { joinedAnew } from '../http/headers.ts';
import { whenOver } from '../http/node-server.ts';
import {
  type ExpressRateLimitOptions,
  type RequestOptions,
  type ResponseOutcome,
  resolveOptions,
} from '../http/options.ts';
import { type Field, type RequestDecision, RequestLimiter } from '../http/request-limiter.ts';
import { sendFields } from '../http/send-fields.ts';

export type FetchHandler<More extends unknown[]> = (
  request: Request,
  ...more: More
) => Response | Promise<Response>;

export interface FetchOptions<More extends unknown[] = unknown[]>
  extends RequestOptions<Request>,
    ExpressRateLimitOptions<Request> {
  /** The address at the other end, where the server does not tell it in a known way. */
  readonly address?: (request: Request, ...more: More) => string | undefined;
  /** Makes the answer to a refusal instead; the fields are added to it. */
  readonly handler?: (
    request: Request,
    decision: RequestDecision<Request>,
  ) => Response | Promise<Response>;
}

/** Adds fields to an answer, also to one whose fields cannot be changed. */
export function withFields(response: Response, fields: readonly Field[]): Response {
  if (fields.length === 0) return response;
  try {
    return setOn(response, fields);
  } catch {
    // One that can be neither changed nor copied, such as that to a WebSocket, stays as it is.
    return isCopyable(response) ? setOn(new Response(response.body, response), fields) : response;
  }
}

function setOn(response: Response, fields: readonly Field[]): Response {
  const { headers } = response;
  for (const [name, value] of fields) {
    const own = headers.get(name);
    headers.set(name, own === null ? value : joinedAnew(value, own));
  }
  return response;
}

function isCopyable({ status, bodyUsed }: Response): boolean {
  return status >= 200 && status <= 599 && !bodyUsed;
}

/** The answer to a request that does not pass: somebody's own, or one with its fields. */
export function refusal(
  method: string,
  { rejection }: RequestDecision<never>,
  fields: readonly Field[],
  own: (() => Response | Promise<Response>) | undefined,
): Response | Promise<Response> {
  if (own !== undefined) return later(own()).then((answer) => withFields(answer, fields));
  const { status, contentType, body } = rejection!;
  // With its fields from the start: that is faster.
  const headers: Record<string, string> = { 'Content-Type': contentType };
  for (const [name, value] of fields) headers[name] = value;
  return new Response(method === 'HEAD' ? null : body, { status, headers });
}

/** Puts a limit in front of a handler. */
export function rateLimit<More extends unknown[] = unknown[]>(
  options: FetchOptions<More>,
): <M extends More>(handler: FetchHandler<M>) => FetchHandler<M> {
  const limiter = new RequestLimiter<Request>(resolveOptions(options, ['address', 'handler']));
  const { address, trustProxy } = options;
  const refused = options.handler;
  const reading: Reading<Request> = {
    header: (request, name) => request.headers.get(name) ?? undefined,
    plain: (request) => request,
    address: undefined,
    trustProxy,
  };

  const act = <M extends More>(
    decision: RequestDecision<Request>,
    handler: FetchHandler<M>,
    request: Request,
    more: M,
    answer: ServerResponse | undefined,
  ): Response | Promise<Response> => {
    if (answer !== undefined) sendFields(answer, decision);
    const fields = answer === undefined ? decision.fields : NO_FIELDS;
    if (!decision.passes) {
      const own = refused && (() => refused(request, decision));
      return refusal(request.method, decision, fields, own);
    }
    if (answer === undefined) {
      const answering = ended(request, request, decision.over, () => handler(request, ...more));
      return answering.then((response) => withFields(response, fields));
    }
    if (decision.over !== undefined) whenOver(request, answer, decision.over);
    return call(handler, request, more);
  };
  return (handler) =>
    (request, ...more) => {
      try {
        const env = envOf(more[0]);
        const node = nodeAnswer(env, request);
        const known = address === undefined ? limiter.decideBy(env.incoming?.socket) : undefined;
        const own = address && { ...reading, address: () => address(request, ...more) };
        const decision = known ?? limiter.decide(requestInfoOf(request, env, own ?? reading));
        if (decision instanceof Promise) {
          return decision.then((decided) => act(decided, handler, request, more, node));
        }
        const answer = act(decision, handler, request, more, node);
        // @hono/node-server has a fast way for what need not be waited for.
        return node === undefined ? later(answer) : answer;
      } catch (error) {
        return Promise.reject(error);
      }
    };
}

const NO_FIELDS: readonly Field[] = [];

const later = <T>(value: T | Promise<T>): Promise<T> => Promise.resolve(value);

/** What the server tells beside the request, if it tells anything. */
function envOf(env: unknown): ServerEnv {
  return typeof env === 'object' && env !== null ? env : {};
}

/** Most servers tell one thing beside the request, and to pass on a list takes longer. */
function call<M extends unknown[]>(handler: FetchHandler<M>, request: Request, more: M) {
  return more.length === 1
    ? (handler as unknown as FetchHandler<[unknown]>)(request, more[0])
    : handler(request, ...more);
}

/** Lets a request be answered, and tells how it ended; one that throws is over as well. */
export async function ended<R>(
  request: R,
  plain: Request,
  over: RequestDecision<R>['over'],
  answer: () => Response | Promise<Response>,
): Promise<Response> {
  // Deno tells only a signal that has been asked for before the client has gone.
  if (over !== undefined) void plain.signal;
  try {
    const response = await answer();
    over?.({ request, ...endOf(plain, response) });
    return response;
  } catch (error) {
    over?.({ request, status: 500, finished: false, bytes: undefined });
    throw error;
  }
}

/** How a request ended, as its answer tells. */
function endOf(request: Request, response: Response): Omit<ResponseOutcome<never>, 'request'> {
  const length = response.headers.get('content-length');
  const bytes = length === null ? undefined : Number(length);
  return { status: response.status, finished: !request.signal.aborted, bytes };
}
