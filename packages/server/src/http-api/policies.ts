/** `/v1/policies`: lists the current policies and changes their shadow mode. */

import type { AppContext } from '../app-context.ts';
import type { DecisionService } from '../decision-service.ts';
import type { Handler } from '../http/router.ts';
import { blockedLimits } from '../observe/policy-labels.ts';
import type { ServedPolicy } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { checkPolicy } from './keys.ts';
import { waitUntilApplied } from './overrides.ts';
import { PolicyChange } from './schemas.ts';

/** Returns the shadow mode of a policy and its source; undefined for an unknown policy. */
function shadowOf({ shadowOverrides, policies }: DecisionService, name: string) {
  const override = shadowOverrides.get(name);
  if (override !== undefined) return { shadow: override, shadowBy: 'api' };
  const served = policies.get(name);
  return served && { shadow: served.config.shadow, shadowBy: 'file' };
}

function definitionOf(
  { decisionService }: AppContext,
  { config, policy }: ServedPolicy,
  overrides: number,
) {
  const { name, windowMs, bucketMs, algorithm, onFailure, block, lease } = policy;
  const { limit = config.options.concurrency, burst } = config.options;
  const buckets = algorithm === 'sliding-buckets' ? Math.ceil(windowMs / bucketMs) : undefined;
  return {
    name,
    limit,
    windowMs,
    algorithm,
    ...(burst !== undefined && { burst }),
    ...(buckets !== undefined && { buckets }),
    ...(block !== undefined && { block }),
    ...(lease !== undefined && { leased: true }),
    costs: Object.fromEntries(policy.costs),
    ...shadowOf(decisionService, name),
    ...(decisionService.shadowOverrides.get(name) !== undefined && { shadowInFile: config.shadow }),
    ...(onFailure !== undefined && { onFailure }),
    overrides,
  };
}

/** Returns the definition of a blocked policy (limit 0), which has no counters or overrides. */
function blockedDefinition({ configuration, decisionService }: AppContext, name: string) {
  const limit = blockedLimits(configuration.config).get(name);
  if (limit === undefined) return undefined;
  const { windowMs, shadow } = limit;
  const { policy } = decisionService.inlineLimit(name, { limit: 1, window: windowMs }, name, 1);
  const { algorithm } = policy;
  const rest = { costs: {}, shadow, shadowBy: 'file', overrides: 0 };
  return { name, limit: 0, windowMs, algorithm, ...rest };
}

function overrideCounts({ decisionService }: AppContext): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { policy } of decisionService.overrides.list())
    counts.set(policy, (counts.get(policy) ?? 0) + 1);
  return counts;
}

export function policiesHandler(app: AppContext): Handler {
  return (context) => {
    context.checkQuery();
    const counts = overrideCounts(app);
    const policies = app.decisionService.policies
      .list()
      .map((served) => definitionOf(app, served, counts.get(served.policy.name) ?? 0));
    const blocked = [...blockedLimits(app.configuration.config).keys()].map((name) =>
      blockedDefinition(app, name),
    );
    const all = { policies: [...policies, ...blocked] };
    context.send(200, all, { 'cache-control': 'no-store' });
  };
}

export function policyHandler(app: AppContext): Handler {
  return (context) => {
    context.checkQuery();
    const { policy } = context.params;
    const blocked = blockedDefinition(app, policy);
    if (blocked === undefined) checkPolicy(app, policy);
    const definition = blocked ?? namedDefinition(app, policy);
    context.send(200, definition, { 'cache-control': 'no-store' });
  };
}

function namedDefinition(app: AppContext, name: string) {
  const served = app.decisionService.policies.get(name);
  return served && definitionOf(app, served, overrideCounts(app).get(name) ?? 0);
}

const IN_FILES = 'change it in the configuration files';
/** Advice for fields that PATCH does not accept. */
const FIELD_ADVICE = {
  limit: 'change it in the configuration files, or for a key by an override',
  ...{ window: IN_FILES, windowMs: IN_FILES, algorithm: IN_FILES, burst: IN_FILES },
  ...{ buckets: IN_FILES, costs: IN_FILES, onFailure: IN_FILES, block: IN_FILES, lease: IN_FILES },
  ...{ concurrency: IN_FILES, lease: IN_FILES },
};

/**
 * Returns a handler that sets the shadow mode of a policy. If the policy is no longer configured,
 * only `null` is accepted, which removes the shadow override.
 */
export function changePolicyHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const { decisionService, log } = app;
    const { policy } = context.params;
    const { shadow } = await readBody(context, PolicyChange, FIELD_ADVICE);
    const before = shadowOf(decisionService, policy);
    if (before === undefined || shadow !== null) checkPolicy(app, policy);
    decisionService.shadowOverrides.set({ policy, shadow });
    const after = shadowOf(decisionService, policy) ?? null;
    audit(log, context, { action: 'policy.shadow', policy, before, after });
    const definition = namedDefinition(app, policy);
    const persisted = await waitUntilApplied(app);
    context.send(200, { ...(definition && { policy: definition }), before, persisted });
  };
}
