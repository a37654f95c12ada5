/** Formats a decision of the service. */
import { countText, durationText } from 'sluice-traffic/format';
import type { ServiceResponse } from './client.ts';
import { Failure, type Paint, visible } from './output.ts';

export interface LimitBody {
  readonly allowed: boolean;
  readonly policy: string;
  readonly key: string;
  readonly limit: number;
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly resetAfterMs: number;
  readonly blockedUntilMs?: number;
}

export interface DecisionBody extends Partial<LimitBody> {
  readonly allowed: boolean;
  readonly shadow?: readonly LimitBody[];
  readonly degraded?: { readonly reason: string; readonly action: string };
}

export function decisionOf({ status, body }: ServiceResponse): DecisionBody {
  const decision = body as Partial<DecisionBody> | null;
  if (typeof decision?.allowed === 'boolean') return decision as DecisionBody;
  throw new Failure(`Expected a decision from the service, got another response (${status})`);
}

/** Returns a text such as `allowed 99 of 100 remaining, resets in 60 s`. */
function limitText(limit: LimitBody, paint: Paint): string {
  const { allowed, policy, remaining, retryAfterMs, resetAfterMs, blockedUntilMs } = limit;
  if (!allowed) {
    const who = `(policy ${visible(policy)}, limit ${countText(limit.limit)})`;
    const block = blockedUntilMs === undefined ? '' : 'blocked, ';
    return `${paint('red', 'denied')}    ${block}retry in ${durationText(retryAfterMs)} ${who}`;
  }
  const reset = resetAfterMs === 0 ? '' : `, resets in ${durationText(resetAfterMs)}`;
  const left = `${countText(remaining)} of ${countText(limit.limit)} remaining`;
  return `${paint('green', 'allowed')}   ${left}${reset}`;
}

/**
 * Returns a line with the decision, a line with the reason if the decision is degraded, and a line
 * for each shadow limit.
 */
export function decisionLines(decision: DecisionBody, paint: Paint): readonly string[] {
  const { allowed, policy, shadow = [], degraded } = decision;
  const lines: string[] = [];
  if (degraded?.action === 'deny') {
    lines.push(`${paint('red', 'denied')}    store unavailable`);
  } else if (policy !== undefined) lines.push(limitText(decision as LimitBody, paint));
  else lines.push(`${paint(allowed ? 'green' : 'red', allowed ? 'allowed' : 'denied')}`);
  if (degraded !== undefined) {
    const { reason, action } = degraded;
    lines.push(paint('yellow', `degraded  store unavailable (${reason}), action: ${action}`));
  }
  for (const each of shadow) lines.push(`shadow    ${limitText(each, paint)}`);
  return lines;
}
