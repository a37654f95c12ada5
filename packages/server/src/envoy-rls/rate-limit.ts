/** Envoy's rate limit service itself, whichever way it is asked. */
import type { AppContext } from '../app-context.ts';
import { decide } from './decide.ts';
import type { RateLimitRequest, RateLimitResponse } from './messages.ts';
import { planOf } from './plan.ts';
import { responseOf } from './response.ts';

export type RateLimitParts = Pick<AppContext, 'decisionService' | 'configuration' | 'settings'>;

/**
 * Answers at once if the store is in this process. Throws `InvalidRequest` for what Envoy did
 * wrong, and a `SluiceError` if the store is away and a policy wants that to be known.
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
