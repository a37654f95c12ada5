/**
 * `sluice/node`: for servers made with node:http.
 *
 *     const limited = rateLimit({ limit: 100, window: '1m' });
 *     createServer(limited((request, response) => response.end('hello')));
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NodeFacts, refuse, setFields, whenOver } from '../http/node-server.ts';
import { type FamiliarOptions, type RequestOptions, readyOptions } from '../http/options.ts';
import { RequestLimiter, statusOf, type Verdict } from '../http/request-limiter.ts';

export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface NodeOptions
  extends RequestOptions<IncomingMessage>,
    FamiliarOptions<IncomingMessage> {
  /** Answers a refusal instead; the status and the fields are set. */
  readonly handler?: (
    request: IncomingMessage,
    response: ServerResponse,
    verdict: Verdict<IncomingMessage>,
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
  const limiter = new RequestLimiter(readyOptions(options, ['handler', 'onError']));
  const fail = options.onError ?? answerError;
  return (handler) => async (request, response) => {
    try {
      const verdict = await limiter.decide(new NodeFacts(request, request));
      setFields(response, verdict);
      if (verdict.passes) {
        if (verdict.over !== undefined) whenOver(request, response, verdict.over);
      } else if (options.handler === undefined) {
        refuse(response, verdict.rejection!);
        return;
      } else {
        response.statusCode = verdict.rejection!.status;
        await options.handler(request, response, verdict);
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
