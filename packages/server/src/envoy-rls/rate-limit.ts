/** Envoy's rate limit service itself, whichever way it is asked. */
import type { Parts } from '../parts.ts';
import { decide } from './decide.ts';
import type { RateLimitRequest, RateLimitResponse } from './messages.ts';
import { planOf } from './plan.ts';
import { responseOf } from './response.ts';

export type RateLimitParts = Pick<Parts, 'desk' | 'configuration' | 'settings'>;

/**
 * Answers at once if the store is in this process. Throws `InvalidRequest` for what Envoy did
 * wrong, and a `SluiceError` if the store is away and a policy wants that to be known.
 */
export function rateLimit(
  { desk, configuration, settings }: RateLimitParts,
  request: RateLimitRequest,
): RateLimitResponse | Promise<RateLimitResponse> {
  const plan = planOf(desk, configuration.descriptors, request);
  const outcome = decide(desk, plan);
  return outcome instanceof Promise
    ? outcome.then((later) => responseOf(plan, later, settings.headers))
    : responseOf(plan, outcome, settings.headers);
}
