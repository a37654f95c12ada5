/** `/v1/blocks`: blocks a key of a policy with the `block` option, or ends its block. */
import { checkDuration, keyText } from 'sluice/engine';
import type { AppContext } from '../app-context.ts';
import type { LimitRequest } from '../decision-service.ts';
import { asHttpError, type RequestContext } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { checkPolicy } from './keys.ts';
import { policyAndKeyOf } from './policy-and-key.ts';
import { BlockRequest } from './schemas.ts';

/** Blocks a key for `forMs`. 0 ends the block of the key. */
async function changeBlock(
  { decisionService, log }: AppContext,
  context: RequestContext,
  policy: string,
  given: LimitRequest['key'],
  forMs: number,
): Promise<void> {
  const key = keyText(given);
  checkCharacters(key);
  /**
   * Resolves to the end of the running block; undefined if there is none. Ignores errors, because
   * the end is only reported.
   */
  const readEnd = async () =>
    (await decisionService.inspect(policy, key).catch(() => undefined))?.blockedUntilMs;
  const before = await readEnd();
  await decisionService.block(policy, key, forMs);
  const blockedUntilMs = forMs === 0 ? undefined : await readEnd();
  const action = forMs === 0 ? 'unblock' : 'block';
  const after = forMs === 0 ? null : { forMs };
  const blockBefore = before === undefined ? null : { blockedUntilMs: before };
  audit(log, context, { action, policy, key, before: blockBefore, after });
  const blocked = forMs > 0;
  context.send(200, { policy, key, blocked, ...(blockedUntilMs && { blockedUntilMs }) });
}

export function blockHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const { policy, key, duration } = await readBody(context, BlockRequest);
    await changeBlock(app, context, policy, key, durationMs(duration));
  };
}

function durationMs(duration: number | string): number {
  try {
    return checkDuration('ERR_INVALID_BLOCK', '`duration`', duration);
  } catch (error) {
    throw asHttpError(error, '/duration');
  }
}

export function unblockHandler(app: AppContext): Handler {
  return async (context) => {
    const { policy, key } = policyAndKeyOf(context);
    checkPolicy(app, policy);
    await changeBlock(app, context, policy, key, 0);
  };
}
