/** A decision of the service, in a line for people. */
import { durationText } from 'sluice-traffic/format';
import type { Answer } from './client.ts';
import { Failure, type Paint, visible } from './output.ts';

/** The part of the service's answer that is shown. */
export interface LimitAnswer {
  readonly allowed: boolean;
  readonly policy: string;
  readonly key: string;
  readonly limit: number;
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly resetAfterMs: number;
}

export interface DecisionAnswer extends Partial<LimitAnswer> {
  readonly allowed: boolean;
  readonly shadow?: readonly LimitAnswer[];
  readonly degraded?: { readonly reason: string; readonly action: string };
}

export function decisionOf({ status, body }: Answer): DecisionAnswer {
  const decision = body as Partial<DecisionAnswer> | null;
  if (typeof decision?.allowed === 'boolean') return decision as DecisionAnswer;
  throw new Failure(`Expected a decision from the service, got another answer ${status}`);
}

/** `allowed   99 of 100 left, as new in 60.0 s` */
function limitText(limit: LimitAnswer, paint: Paint): string {
  const { allowed, policy, remaining, retryAfterMs, resetAfterMs } = limit;
  if (!allowed) {
    const who = `(policy ${visible(policy)}, limit ${limit.limit})`;
    return `${paint('red', 'denied')}    try again in ${durationText(retryAfterMs)} ${who}`;
  }
  const reset = resetAfterMs === 0 ? 'as new' : `as new in ${durationText(resetAfterMs)}`;
  return `${paint('green', 'allowed')}   ${remaining} of ${limit.limit} left, ${reset}`;
}

/** What a decision says, a limit in shadow on a line of its own each. */
export function decisionLines(decision: DecisionAnswer, paint: Paint): readonly string[] {
  const { allowed, policy, shadow = [], degraded } = decision;
  const lines: string[] = [];
  if (degraded?.action === 'deny') {
    lines.push(`${paint('red', 'denied')}    the store is away`);
  } else if (policy !== undefined) lines.push(limitText(decision as LimitAnswer, paint));
  else lines.push(`${paint(allowed ? 'green' : 'red', allowed ? 'allowed' : 'denied')}`);
  if (degraded !== undefined) {
    const { reason, action } = degraded;
    lines.push(paint('yellow', `degraded  the store did not decide (${reason}): ${action}`));
  }
  for (const each of shadow) lines.push(`shadow    ${limitText(each, paint)}`);
  return lines;
}
