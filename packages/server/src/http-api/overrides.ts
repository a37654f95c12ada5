/** `/v1/overrides`: limits of their own for keys, from the very next decision on. */
import { systemClock } from 'sluice';
import { expected, keyText } from 'sluice/engine';
import type { z } from 'zod';
import type { OverrideConfig } from '../config/model.ts';
import { badRequest, type Exchange, HttpError } from '../http/exchange.ts';
import type { Handler } from '../http/router.ts';
import type { Override } from '../overrides.ts';
import type { Parts } from '../parts.ts';
import { checkCharacters } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { namesOf } from './names.ts';
import { OverrideFields, OverrideRequest } from './schemas.ts';

type Fields = z.output<typeof OverrideFields>;

/** Where several processes serve, another one keeps the file. */
const isSaved = ({ overridesFile, crew }: Parts): boolean =>
  (crew.isSaved ?? overridesFile?.isSaved) === true;

const isPersisted = (parts: Parts, { source }: Override): boolean =>
  source === 'file' || isSaved(parts);

/** Waits until all processes go by a change, and answers whether it is in the file. */
export async function isKept(parts: Parts): Promise<boolean> {
  await Promise.all([parts.overridesFile?.saved(), parts.crew.told()]);
  return isSaved(parts);
}

export function overridesHandler(parts: Parts): Handler {
  return (exchange) => {
    exchange.checkQuery('policy');
    const policy = exchange.query.get('policy');
    const overrides = parts.desk.overrides
      .list()
      .filter((each) => policy === null || each.policy === policy)
      .map((each) => ({ ...each, persisted: isPersisted(parts, each) }));
    exchange.send(200, { overrides }, { 'cache-control': 'no-store' });
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
  throw badRequest('ERR_INVALID_OPTION', 'Expected `expiresAt` to lie ahead', '/expiresAt');
}

/** What fits a limit need not fit the arithmetic with the window of this policy. */
function checkProduct({ desk }: Parts, { policy, limit }: OverrideConfig): void {
  const { windowMs } = desk.policies.policy(policy);
  if (limit * windowMs <= Number.MAX_SAFE_INTEGER) return;
  const what = `limit x window of policy \`${policy}\` to be at most 2^53 - 1`;
  throw expected('ERR_LIMIT_TOO_LARGE', what, `${limit} x ${windowMs} ms`);
}

async function set(
  parts: Parts,
  exchange: Exchange,
  policy: string,
  key: string,
  fields: Fields,
): Promise<void> {
  const { desk, log } = parts;
  checkCharacters(keyText(key));
  const { limit, reason } = fields;
  const expiresAtMs = expiryOf(fields);
  const override: OverrideConfig = {
    ...{ policy, key, limit },
    ...(expiresAtMs !== undefined && { expiresAtMs }),
    ...(reason !== undefined && { reason }),
  };
  checkProduct(parts, override);
  const before = desk.overrides.get(policy, key);
  desk.overrides.set(override);
  audit(log, exchange, {
    ...{ action: 'override.set', policy, key },
    ...{ before: before ?? null, after: override },
  });
  const persisted = await isKept(parts);
  exchange.send(200, {
    override: { ...override, source: 'api' },
    ...(before !== undefined && { before }),
    persisted,
  });
}

export function setOverrideHandler(parts: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const { policy, key, ...fields } = await readBody(exchange, OverrideRequest);
    await set(parts, exchange, policy, key, fields);
  };
}

export function setOverrideByPathHandler(parts: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const { policy, key } = exchange.params;
    await set(parts, exchange, policy, key, await readBody(exchange, OverrideFields));
  };
}

/** Also for policies that are not served any more: what is set can be taken away. */
export function deleteOverrideHandler(parts: Parts): Handler {
  return async (exchange) => {
    const { desk, log } = parts;
    const { policy, key } = namesOf(exchange);
    const deleted = desk.overrides.delete(policy, key);
    const now = desk.overrides.get(policy, key);
    if (deleted === undefined) {
      if (now === undefined) throw new HttpError(404, 'ERR_NOT_FOUND', 'There is no such override');
      const what = 'Expected an override of the API; the files have this one, and keep it';
      throw new HttpError(409, 'ERR_CONFLICT', what);
    }
    audit(log, exchange, {
      ...{ action: 'override.delete', policy, key },
      ...{ before: deleted, after: now ?? null },
    });
    const persisted = await isKept(parts);
    exchange.send(200, { deleted, ...(now !== undefined && { now }), persisted });
  };
}
