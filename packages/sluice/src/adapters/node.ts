/**
 * `sluice/node`: for servers made with node:http.
 *
 *     const limited = rateLimit({ limit: 100, window: '1m' });
 *     createServer(limited((request, response) => response.end('hello')));
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NodeRequestInfo, refuse, setFields, whenOver } from '../http/node-server.ts';
import {
  type ExpressRateLimitOptions,
  type RequestOptions,
  resolveOptions,
} from '../http/options.ts';
import { type RequestDecision, RequestLimiter, statusOf } from '../http/request-limiter.ts';

export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface NodeOptions
  extends RequestOptions<IncomingMessage>,
    ExpressRateLimitOptions<IncomingMessage> {
  /** Answers a refusal instead; the status and the fields are set. */
  readonly handler?: (
    request: IncomingMessage,
    response: ServerResponse,
    decision: RequestDecision<IncomingMessage>,
  ) => unknown;
  /** Answers when something was thrown. Default: 503 if the store was away, else 500. */
  readonly onError?: (
    error: unknown,
    request: IncomingMessage,
    response: ServerResponse,
  ) => unknown;
}

/** Puts a limit in front of a handler. */
export function rateLimit(options: NodeOptions): (handler: NodeHandler) => NodeHandler {
  const limiter = new RequestLimiter(resolveOptions(options, ['handler', 'onError']));
  const fail = options.onError ?? answerError;
  return (handler) => async (request, response) => {
    try {
      const decision = await limiter.decide(new NodeRequestInfo(request, request));
      setFields(response, decision);
      if (decision.passes) {
        if (decision.over !== undefined) whenOver(request, response, decision.over);
      } else if (options.handler === undefined) {
        refuse(response, decision.rejection!);
        return;
      } else {
        response.statusCode = decision.rejection!.status;
        await options.handler(request, response, decision);
        return;
      }
      await handler(request, response);
    } catch (error) {
      await fail(error, request, response);
    }
  };
}

/** Says nothing of what went wrong but whether it was the store. */
function answerError(error: unknown, _request: IncomingMessage, response: ServerResponse): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  // What the handler has said of its answer is not true of this one.
  for (const name of response.getHeaderNames()) {
    if (!/^(?:x-)?ratelimit/.test(name)) response.removeHeader(name);
  }
  response.statusCode = statusOf(error) ?? 500;
  response.setHeader('Content-Length', 0).end();
}
