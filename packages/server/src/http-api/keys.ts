/** `/v1/keys` and `POST /v1/reset`: returns the state of a key, and resets keys. */
import { keyText } from 'sluice/engine';
import type { AppContext } from '../app-context.ts';
import type { KeyInspection, LimitRequest } from '../decision-service.ts';
import { badRequest, HttpError, type RequestContext } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { policyAndKeyOf } from './policy-and-key.ts';
import { ResetRequest } from './schemas.ts';

/**
 * Maximum number of sliding-log entries in a response. If a key has more, only the newest are
 * listed.
 */
const MAX_ENTRIES = 1000;

/** Throws an error with status 404 if the policy does not exist. */
export function checkPolicy({ decisionService }: AppContext, name: string): void {
  if (decisionService.policies.get(name) !== undefined) return;
  throw new HttpError(404, 'ERR_UNKNOWN_POLICY', 'Expected the name of a policy in the path');
}

function reportOf(
  { decisionService }: AppContext,
  name: string,
  key: string,
  { state, atMs, nextMs, nextForCostMs }: KeyInspection,
) {
  const policy = decisionService.policies.policy(name);
  const { capacity } = policy.paramsFor(key);
  const { windowMs, algorithm } = policy;
  const override = decisionService.overrides.overrideFor(name, key);
  const entries = state?.entries ?? [];
  return {
    policy: name,
    key,
    held: state !== undefined,
    algorithm,
    limit: capacity,
    windowMs,
    used: state?.used ?? 0,
    remaining: state?.remaining ?? capacity,
    resetAfterMs: state?.resetAfterMs ?? 0,
    cells: state?.cells ?? [],
    entries: entries.slice(-MAX_ENTRIES),
    entryCount: state?.entryCount ?? 0,
    // Undefined fields are not in the JSON.
    holds: state?.holds,
    leases: state?.leases,
    blockedUntilMs: state?.blockedUntilMs,
    blocks: state?.blocks,
    atMs,
    nextMs,
    ...(nextForCostMs !== undefined && Number.isFinite(nextForCostMs) && { nextForCostMs }),
    ...(override !== undefined && { override }),
  };
}

function costOf({ query }: RequestContext): number | undefined {
  const text = query.get('cost');
  if (text === null) return undefined;
  const cost = /^\d{1,16}$/.test(text) ? Number(text) : 0;
  if (Number.isSafeInteger(cost) && cost >= 1) return cost;
  const what = 'Expected `cost` to be an integer, at least 1';
  throw badRequest('ERR_INVALID_COST', `${what}, got \`${text.slice(0, 60)}\``);
}

/** Returns a handler that responds with the state of a key, or `held: false` if it has no entry. */
export function inspectHandler(app: AppContext): Handler {
  return async (context) => {
    const { policy, key } = policyAndKeyOf(context, 'cost');
    checkPolicy(app, policy);
    const view = await app.decisionService.view(policy, key, costOf(context));
    context.send(200, reportOf(app, policy, key, view), { 'cache-control': 'no-store' });
  };
}

async function reset(
  app: AppContext,
  context: RequestContext,
  policy: string,
  given: LimitRequest['key'],
): Promise<void> {
  const { decisionService, log } = app;
  decisionService.policies.policy(policy);
  const key = keyText(given);
  checkCharacters(key);
  // The state before the reset is only logged, so the key is reset even if the state cannot be
  // read.
  const held = await decisionService.inspect(policy, key).catch(() => undefined);
  await decisionService.reset(policy, key);
  const before = held === undefined ? null : { used: held.used, remaining: held.remaining };
  audit(log, context, { action: 'reset', policy, key, before, after: null });
  context.send(200, { policy, key, reset: true });
}

export function resetHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const { policy, key } = await readBody(context, ResetRequest);
    await reset(app, context, policy, key);
  };
}

export function resetByPathHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const { policy, key } = context.params;
    checkPolicy(app, policy);
    await reset(app, context, policy, key);
  };
}
