/** `/v1/policies`: what is served, as it counts now, and putting it in shadow or out of it. */
import type { Desk } from '../desk.ts';
import type { Handler } from '../http/router.ts';
import type { Parts } from '../parts.ts';
import type { ServedPolicy } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { checkPolicy } from './keys.ts';
import { isKept } from './overrides.ts';
import { PolicyChange } from './schemas.ts';

/** What counts for a policy, and who said so; undefined if nobody says anything of it. */
function shadowOf({ shadowWords, policies }: Desk, name: string) {
  const word = shadowWords.get(name);
  if (word !== undefined) return { shadow: word, shadowBy: 'api' };
  const served = policies.get(name);
  return served && { shadow: served.config.shadow, shadowBy: 'file' };
}

function definitionOf({ desk }: Parts, { config, policy }: ServedPolicy, overrides: number) {
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
    ...shadowOf(desk, name),
    ...(desk.shadowWords.get(name) !== undefined && { shadowInFile: config.shadow }),
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
      .map((served) => definitionOf(parts, served, counts.get(served.policy.name) ?? 0));
    exchange.send(200, { policies }, { 'cache-control': 'no-store' });
  };
}

export function policyHandler(parts: Parts): Handler {
  return (exchange) => {
    exchange.checkQuery();
    const { policy } = exchange.params;
    checkPolicy(parts, policy);
    exchange.send(200, namedDefinition(parts, policy), { 'cache-control': 'no-store' });
  };
}

function namedDefinition(parts: Parts, name: string) {
  const served = parts.desk.policies.get(name);
  return served && definitionOf(parts, served, overrideCounts(parts).get(name) ?? 0);
}

const IN_FILES = 'a policy is changed in the files';
/** Where all else of a policy is changed. */
const ELSEWHERE = {
  limit: 'limits are changed in the files, or for a key by an override',
  ...{ window: IN_FILES, windowMs: IN_FILES, algorithm: IN_FILES, burst: IN_FILES },
  ...{ buckets: IN_FILES, costs: IN_FILES, onFailure: IN_FILES },
};

/** What was said of a policy that is not served any more can be taken back, and nothing else. */
export function changePolicyHandler(parts: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const { desk, log } = parts;
    const { policy } = exchange.params;
    const { shadow } = await readBody(exchange, PolicyChange, ELSEWHERE);
    const before = shadowOf(desk, policy);
    if (before === undefined || shadow !== null) checkPolicy(parts, policy);
    desk.shadowWords.set({ policy, shadow });
    const after = shadowOf(desk, policy) ?? null;
    audit(log, exchange, { action: 'policy.shadow', policy, before, after });
    const definition = namedDefinition(parts, policy);
    const persisted = await isKept(parts);
    exchange.send(200, { ...(definition && { policy: definition }), before, persisted });
  };
}
