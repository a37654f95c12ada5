/** Envoy's rate limit service, for gRPC and JSON. */
import type { AppContext } from '../app-context.ts';
import { decide } from './decide.ts';
import type { RateLimitRequest, RateLimitResponse } from './messages.ts';
import { planOf } from './plan.ts';
import { responseOf } from './response.ts';

export type RateLimitParts = Pick<AppContext, 'decisionService' | 'configuration' | 'settings'>;

/**
 * Returns the response, or a promise if the store is not in this process. Throws `InvalidRequest`,
 * or a `SluiceError` if the store is unavailable and `onFailure` is `throw`.
 */
export function rateLimit(
  { decisionService, configuration, settings }: RateLimitParts,
  request: RateLimitRequest,
): RateLimitResponse | Promise<RateLimitResponse> {
  const plan = planOf(decisionService, configuration.descriptors, request);
  const outcome = decide(decisionService, plan);
  return outcome instanceof Promise
    ? outcome.then((later) => responseOf(plan, later, settings.headers))
    : responseOf(plan, outcome, settings.headers);
}
