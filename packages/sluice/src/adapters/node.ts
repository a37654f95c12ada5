/**
 * `sluice/node`: for servers made with node:http.
 *
 *     const limited = rateLimit({ limit: 100, window: '1m' });
 *     createServer(limited((request, response) => response.end('hello')));
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ExpressRateLimitOptions } from '../http/compat/express-rate-limit.ts';
import { setDecision } from '../http/decision-of.ts';
import { statusOf } from '../http/http-error.ts';
import { NodeRequestInfo, sendRejection, setHeaders, settleOnEnd } from '../http/node-server.ts';
import type { RequestOptions } from '../http/options.ts';
import type { RequestDecision } from '../http/request-decision.ts';
import { RequestLimiter } from '../http/request-limiter.ts';
import { resolveOptions } from '../http/resolve-options.ts';

export { decisionOf } from '../http/decision-of.ts';

export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface NodeOptions
  extends RequestOptions<IncomingMessage>,
    ExpressRateLimitOptions<IncomingMessage> {
  /**
   * Responds to denied requests. The status and the rate-limit headers are already set. Default:
   * problem details.
   *
   * @example handler: (request, response) => response.end('Too many requests')
   */
  readonly handler?: (
    request: IncomingMessage,
    response: ServerResponse,
    decision: RequestDecision<IncomingMessage>,
  ) => unknown;
  /**
   * Responds if the limiter or the handler throws. Default: 503 if the store is unavailable, 413 if
   * the cost is above the limit, otherwise 500, without a body.
   *
   * @example onError: (error, request, response) => response.writeHead(500).end('Sorry')
   */
  readonly onError?: (
    error: unknown,
    request: IncomingMessage,
    response: ServerResponse,
  ) => unknown;
}

/** Returns a function that wraps a handler: the limit is checked before the handler runs. */
export function rateLimit(options: NodeOptions): (handler: NodeHandler) => NodeHandler {
  const limiter = new RequestLimiter(resolveOptions(options, ['handler', 'onError']));
  const onError = async (
    error: unknown,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> => {
    try {
      await (options.onError ?? respondWithError)(error, request, response);
    } catch (next) {
      // A rejected promise would end the process.
      respondWithError(next, request, response);
    }
  };
  return (handler) => async (request, response) => {
    try {
      const decision = await limiter.decide(new NodeRequestInfo(request, request));
      setDecision(request, decision.decision);
      setHeaders(response, decision);
      if (decision.passes) {
        if (decision.settle !== undefined) settleOnEnd(request, response, decision.settle);
        await handler(request, response);
      } else if (options.handler === undefined) {
        sendRejection(response, decision.rejection!);
      } else {
        response.statusCode = decision.rejection!.status;
        await options.handler(request, response, decision);
      }
    } catch (error) {
      await onError(error, request, response);
    }
  };
}

/** Responds with the status of the error, without details. */
function respondWithError(
  error: unknown,
  _request: IncomingMessage,
  response: ServerResponse,
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  // Removes the headers that the handler has set, because they describe another body.
  for (const name of response.getHeaderNames()) {
    if (!/^(?:x-)?ratelimit/.test(name)) response.removeHeader(name);
  }
  response.statusCode = statusOf(error) ?? 500;
  response.setHeader('Content-Length', 0).end();
}
