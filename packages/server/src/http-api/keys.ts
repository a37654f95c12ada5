/** What is held about a key, and making it new: `/v1/keys` and `POST /v1/reset`. */
import { keyText } from 'sluice/engine';
import type { KeyView, LimitRequest } from '../desk.ts';
import { type Exchange, HttpError } from '../http/exchange.ts';
import type { Handler } from '../http/router.ts';
import type { Parts } from '../parts.ts';
import { checkCharacters } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { namesOf } from './names.ts';
import { ResetRequest } from './schemas.ts';

/** The newest entries of a log that are listed. The store lists at most as many. */
const MOST_ENTRIES = 1000;

/** What is asked for is the policy's, so without it there is nothing here. */
export function checkPolicy({ desk }: Parts, name: string): void {
  if (desk.policies.get(name) !== undefined) return;
  throw new HttpError(404, 'ERR_UNKNOWN_POLICY', 'Expected the path to name a policy');
}

function reportOf({ desk }: Parts, name: string, key: string, { state, atMs, nextMs }: KeyView) {
  const policy = desk.policies.policy(name);
  const { capacity } = policy.termsFor(key);
  const { windowMs, algorithm } = policy;
  const override = desk.overrides.overrideFor(name, key);
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
    entries: entries.slice(-MOST_ENTRIES),
    entryCount: state?.entryCount ?? 0,
    atMs,
    nextMs,
    ...(override !== undefined && { override }),
  };
}

/** Answers 200 also if nothing is held: that such a key is as good as new is worth knowing. */
export function inspectHandler(parts: Parts): Handler {
  return async (exchange) => {
    const { policy, key } = namesOf(exchange);
    checkPolicy(parts, policy);
    const view = await parts.desk.view(policy, key);
    exchange.send(200, reportOf(parts, policy, key, view), { 'cache-control': 'no-store' });
  };
}

async function reset(
  parts: Parts,
  exchange: Exchange,
  policy: string,
  asked: LimitRequest['key'],
): Promise<void> {
  const { desk, log } = parts;
  desk.policies.policy(policy);
  const key = keyText(asked);
  checkCharacters(key);
  // For the log alone, so that a store which cannot tell is no reason not to reset.
  const held = await desk.inspect(policy, key).catch(() => undefined);
  await desk.reset(policy, key);
  const before = held === undefined ? null : { used: held.used, remaining: held.remaining };
  audit(log, exchange, { action: 'reset', policy, key, before, after: null });
  exchange.send(200, { policy, key, reset: true });
}

export function resetHandler(parts: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const { policy, key } = await readBody(exchange, ResetRequest);
    await reset(parts, exchange, policy, key);
  };
}

export function resetByPathHandler(parts: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const { policy, key } = exchange.params;
    checkPolicy(parts, policy);
    await reset(parts, exchange, policy, key);
  };
}
