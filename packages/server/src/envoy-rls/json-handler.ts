/** `POST /json`: the rate limit service without gRPC, as in envoyproxy/ratelimit. */
import { badRequest } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { jsonOfResponse, requestOfJson } from './json.ts';
import { CODE } from './messages.ts';
import { InvalidRequest } from './plan.ts';
import { type RateLimitParts, rateLimit } from './rate-limit.ts';

/** Returns a handler that responds with 200, or with 429 if the request exceeds a limit. */
export function jsonHandler(parts: RateLimitParts): Handler {
  return async (context) => {
    const request = requestOfJson(await context.readJson());
    try {
      const response = await rateLimit(parts, request);
      const status = response.overallCode === CODE.OVER_LIMIT ? 429 : 200;
      context.sendText(status, JSON.stringify(jsonOfResponse(response)));
    } catch (error) {
      if (!(error instanceof InvalidRequest)) throw error;
      throw badRequest('ERR_INVALID_CHECK', error.message);
    }
  };
}
