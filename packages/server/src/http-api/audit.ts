/** Audit log of the admin API: caller, action, and the values before and after. */
import type { RequestContext } from '../http/request-context.ts';
import { sessionName } from '../http/sessions.ts';
import type { Logger } from '../observe/log.ts';

type KeyAction = 'reset' | 'block' | 'unblock' | 'override.set' | 'override.delete';
type ChangeAction = KeyAction | 'policy.shadow' | 'reload';

export interface Change {
  readonly action: ChangeAction | 'sign-in' | 'sign-out' | 'token';
  /** Whether a sign-in or a bearer token was accepted. */
  readonly ok?: boolean;
  /** The name of the session that a sign-in has opened. */
  readonly session?: string;
  readonly policy?: string;
  readonly key?: string;
  /** Null if there was no value. */
  readonly before?: unknown;
  readonly after?: unknown;
}

/**
 * Returns the fields of an audit line. `by` is the peer address of the connection, independent of
 * headers. `as` is the method of authentication. `session` is the name of the caller's session.
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

/**
 * Returns the log for audit lines. Audit lines are written at every log level, even at `silent`.
 */
export const auditLog = (log: Logger): Logger => log.child({}, { level: 'info' });

export function audit(
  log: Logger,
  context: RequestContext,
  change: Change,
  message = 'admin change',
): void {
  auditLog(log).info(auditLine(context, change), message);
}
