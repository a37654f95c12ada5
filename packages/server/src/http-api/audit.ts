/** What was done by hand: who, what, and what it was before. */
import type { RequestContext } from '../http/request-context.ts';
import { sessionName } from '../http/sessions.ts';
import type { Logger } from '../observe/log.ts';

type Changing = 'reset' | 'override.set' | 'override.delete' | 'policy.shadow' | 'reload';

export interface Change {
  readonly action: Changing | 'sign-in' | 'sign-out' | 'token';
  /** Whether somebody who tried got in, and the name of the session that is theirs then. */
  readonly ok?: boolean;
  readonly session?: string;
  readonly policy?: string;
  readonly key?: string;
  /** What it was; null if there was nothing. */
  readonly before?: unknown;
  readonly after?: unknown;
}

/**
 * `by` is the address at the other end of the connection, whatever headers claim, `as` how they
 * were let in, and `session` the name of the session, if that was it.
 */
export function auditLine({ request, caller }: RequestContext, change: Change): object {
  const { remoteAddress = 'unknown' } = request.socket;
  const who = {
    by: remoteAddress,
    ...(caller !== undefined && { as: caller.as }),
    ...(caller?.session !== undefined && { session: sessionName(caller.session) }),
  };
  return { audit: { ...change, ...who } };
}

/** The log for audit lines, which are written at every log level, also `silent`. */
export const auditLog = (log: Logger): Logger => log.child({}, { level: 'info' });

export function audit(
  log: Logger,
  context: RequestContext,
  change: Change,
  message = 'changed by hand',
): void {
  auditLog(log).info(auditLine(context, change), message);
}
