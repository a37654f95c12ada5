/** `/v1/overrides`: limits of individual keys, in effect from the next decision on. */
import { systemClock } from 'sluice';
import { expected, keyText } from 'sluice/engine';
import type { z } from 'zod';
import type { AppContext } from '../app-context.ts';
import type { OverrideConfig } from '../config/model.ts';
import { badRequest, HttpError, type RequestContext } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import type { Override } from '../overrides.ts';
import { checkCharacters } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { policyAndKeyOf } from './policy-and-key.ts';
import { OverrideFields, OverrideRequest } from './schemas.ts';

type Fields = z.output<typeof OverrideFields>;

/** Whether all changes are in the overrides file. With workers, the supervisor writes the file. */
const isSaved = ({ overridesFile, group }: AppContext): boolean =>
  (group.isSaved ?? overridesFile?.isSaved) === true;

const isPersisted = (app: AppContext, { source }: Override): boolean =>
  source === 'file' || isSaved(app);

/**
 * Waits until a change is in effect in all processes. Resolves to whether the change is saved in
 * the overrides file.
 */
export async function waitUntilApplied(app: AppContext): Promise<boolean> {
  await Promise.all([app.overridesFile?.saved(), app.group.synced()]);
  return isSaved(app);
}

export function overridesHandler(app: AppContext): Handler {
  return (context) => {
    context.checkQuery('policy');
    const policy = context.query.get('policy');
    const overrides = app.decisionService.overrides
      .list()
      .filter((each) => policy === null || each.policy === policy)
      .map((each) => ({ ...each, persisted: isPersisted(app, each) }));
    context.send(200, { overrides }, { 'cache-control': 'no-store' });
  };
}

function expiryOf({ expiresAt, expiresInMs }: Fields): number | undefined {
  if (expiresAt !== undefined && expiresInMs !== undefined) {
    const what = 'Expected `expiresAt` or `expiresInMs`, not both';
    throw badRequest('ERR_INVALID_OPTION', what, '/expiresAt');
  }
  if (expiresInMs !== undefined) return systemClock.now() + expiresInMs;
  const atMs = typeof expiresAt === 'string' ? Date.parse(expiresAt) : expiresAt;
  if (atMs === undefined || atMs > systemClock.now()) return atMs;
  throw badRequest('ERR_INVALID_OPTION', 'Expected `expiresAt` in the future', '/expiresAt');
}

/** Throws if limit x window exceeds the largest safe integer. */
function checkProduct({ decisionService }: AppContext, { policy, limit }: OverrideConfig): void {
  const { windowMs } = decisionService.policies.policy(policy);
  if (limit * windowMs <= Number.MAX_SAFE_INTEGER) return;
  const what = `limit x window of policy \`${policy}\` to be at most 2^53 - 1`;
  throw expected('ERR_LIMIT_TOO_LARGE', what, `${limit} x ${windowMs} ms`);
}

async function setOverride(
  app: AppContext,
  context: RequestContext,
  policy: string,
  key: string,
  fields: Fields,
): Promise<void> {
  const { decisionService, log } = app;
  checkCharacters(keyText(key));
  const { limit, reason } = fields;
  const expiresAtMs = expiryOf(fields);
  const override: OverrideConfig = {
    ...{ policy, key, limit },
    ...(expiresAtMs !== undefined && { expiresAtMs }),
    ...(reason !== undefined && { reason }),
  };
  checkProduct(app, override);
  const before = decisionService.overrides.get(policy, key);
  decisionService.overrides.set(override);
  audit(log, context, {
    ...{ action: 'override.set', policy, key },
    ...{ before: before ?? null, after: override },
  });
  const persisted = await waitUntilApplied(app);
  context.send(200, {
    override: { ...override, source: 'api' },
    ...(before !== undefined && { before }),
    persisted,
  });
}

export function setOverrideHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const { policy, key, ...fields } = await readBody(context, OverrideRequest);
    await setOverride(app, context, policy, key, fields);
  };
}

export function setOverrideByPathHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const { policy, key } = context.params;
    await setOverride(app, context, policy, key, await readBody(context, OverrideFields));
  };
}

/**
 * Returns a handler that deletes an override. The policy may be one that is no longer configured.
 */
export function deleteOverrideHandler(app: AppContext): Handler {
  return async (context) => {
    const { decisionService, log } = app;
    const { policy, key } = policyAndKeyOf(context);
    const deleted = decisionService.overrides.delete(policy, key);
    const now = decisionService.overrides.get(policy, key);
    if (deleted === undefined) {
      if (now === undefined) throw new HttpError(404, 'ERR_NOT_FOUND', 'No such override');
      const what = 'The configuration files define this override; change it there';
      throw new HttpError(409, 'ERR_CONFLICT', what);
    }
    audit(log, context, {
      ...{ action: 'override.delete', policy, key },
      ...{ before: deleted, after: now ?? null },
    });
    const persisted = await waitUntilApplied(app);
    context.send(200, { deleted, ...(now !== undefined && { now }), persisted });
  };
}
