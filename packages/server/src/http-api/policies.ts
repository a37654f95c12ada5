/** `GET /v1/policies`: what is served, as it counts now. */
import type { Handler } from '../http/router.ts';
import type { Parts } from '../parts.ts';
import type { ServedPolicy } from '../policies.ts';
import { checkPolicy } from './keys.ts';

function definitionOf({ config, policy }: ServedPolicy, overrides: number) {
  const { name, windowMs, bucketMs, algorithm, onFailure } = policy;
  const { limit, burst } = config.options;
  const buckets = algorithm === 'sliding-buckets' ? Math.ceil(windowMs / bucketMs) : undefined;
  return {
    name,
    limit,
    windowMs,
    algorithm,
    ...(burst !== undefined && { burst }),
    ...(buckets !== undefined && { buckets }),
    costs: Object.fromEntries(policy.costs),
    shadow: config.shadow,
    ...(onFailure !== undefined && { onFailure }),
    overrides,
  };
}

function overrideCounts({ desk }: Parts): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { policy } of desk.overrides.list()) counts.set(policy, (counts.get(policy) ?? 0) + 1);
  return counts;
}

export function policiesHandler(parts: Parts): Handler {
  return (exchange) => {
    exchange.checkQuery();
    const counts = overrideCounts(parts);
    const policies = parts.desk.policies
      .list()
      .map((served) => definitionOf(served, counts.get(served.policy.name) ?? 0));
    exchange.send(200, { policies }, { 'cache-control': 'no-store' });
  };
}

export function policyHandler(parts: Parts): Handler {
  return (exchange) => {
    exchange.checkQuery();
    const { policy } = exchange.params;
    checkPolicy(parts, policy);
    const count = overrideCounts(parts).get(policy) ?? 0;
    const definition = definitionOf(parts.desk.policies.get(policy)!, count);
    exchange.send(200, definition, { 'cache-control': 'no-store' });
  };
}
