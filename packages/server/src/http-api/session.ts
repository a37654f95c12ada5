/** `/v1/session`: browsers sign in with the admin token, and sign out. */

import type { AppContext } from '../app-context.ts';
import { isEncrypted, unauthorized } from '../http/access.ts';
import { type Caller, HttpError, type RequestContext } from '../http/request-context.ts';
import type { Handler, Router } from '../http/router.ts';
import {
  type EndedSessions,
  SESSION_MS,
  type Session,
  type Sessions,
  sessionCookies,
  sessionName,
  setCookie,
} from '../http/sessions.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { SignInRequest } from './schemas.ts';

const SIGN_OUT = 'sign-out';
const SIGNED_OUT = 'signed-out';

/** Whether the browser uses TLS, to this process or to a proxy in front of it. */
const isSecure = ({ request }: RequestContext): boolean =>
  isEncrypted(request) || request.headers.origin?.startsWith('https://') === true;

function sendSession(
  { access }: AppContext,
  context: RequestContext,
  caller: Caller | undefined,
  cookie?: string,
): void {
  const expiresAtMs = caller?.session?.expiresAtMs;
  const body = {
    required: access.sessions !== undefined,
    signedIn: caller !== undefined,
    ...(expiresAtMs !== undefined && { expiresAtMs }),
  };
  const fields = { 'cache-control': 'no-store', ...(cookie && { 'set-cookie': cookie }) };
  context.send(200, body, fields);
}

function sessionHandler(app: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    sendSession(app, context, await app.access.callerOf(context));
  };
}

function signInHandler(app: AppContext): Handler {
  const { access, attempts, log } = app;
  return async (context) => {
    context.checkQuery();
    const { token } = await readBody(context, SignInRequest);
    const { sessions } = access;
    if (sessions === undefined) {
      await access.admit(context, 'admin');
      return sendSession(app, context, context.caller);
    }
    const isRight = access.isToken(token);
    await attempts.signIn(context, isRight);
    if (!isRight) throw unauthorized('Expected `token` to be the admin token');
    const session = sessions.open();
    context.caller = { as: 'token' };
    const change = { action: 'sign-in', ok: true, session: sessionName(session) } as const;
    audit(log, context, change, 'signed in');
    const cookie = setCookie(sessions.textOf(session), SESSION_MS, isSecure(context));
    sendSession(app, context, { as: 'session', session }, cookie);
  };
}

/**
 * Returns a handler for sign-out. Unlike other operations with the session cookie, it accepts
 * requests without `Origin`, because ending a session grants no access.
 */
function signOutHandler(app: AppContext): Handler {
  const { access, log } = app;
  return async (context) => {
    context.checkQuery();
    const { sessions } = access;
    if (sessions === undefined) return sendSession(app, context, await access.callerOf(context));
    const cookie = setCookie('', 0, isSecure(context));
    for (const text of sessionCookies(context.request.headers.cookie)) {
      const session = sessions.read(text);
      if (session === undefined) continue;
      context.caller = { as: 'session', session };
      sessions.end(session);
      audit(log, context, { action: 'sign-out' }, 'signed out');
      await notifyGroup(app, session, cookie);
    }
    sendSession(app, context, undefined, cookie);
  };
}

async function notifyGroup({ group }: AppContext, session: Session, cookie: string): Promise<void> {
  try {
    await group.gather(SIGN_OUT, session);
  } catch (error) {
    const why = `Signed out in this process only: ${(error as Error).message}`;
    const fields = { 'set-cookie': cookie };
    throw new HttpError(503, 'ERR_STORE_UNAVAILABLE', why, undefined, fields);
  }
}

/** Registers the handlers by which other processes end sessions, and read the ended sessions. */
function handleSessionQueries({ group }: AppContext, sessions: Sessions): void {
  group.handle(SIGN_OUT, (session) => {
    sessions.end(session as Session);
    return true;
  });
  group.handle(SIGNED_OUT, () => sessions.ended);
}

/** Fetches the ended sessions of the other processes. Called before this process serves. */
export async function fetchEndedSessions({ access, group }: AppContext): Promise<void> {
  const { sessions } = access;
  if (sessions === undefined) return;
  for (const ended of await group.gather(SIGNED_OUT)) sessions.addEnded(ended as EndedSessions);
}

export function sessionRoutes(router: Router, app: AppContext): void {
  const { sessions } = app.access;
  if (sessions !== undefined) handleSessionQueries(app, sessions);
  router.add('GET', '/v1/session', 'open', sessionHandler(app));
  router.add('POST', '/v1/session', 'open', signInHandler(app));
  router.add('DELETE', '/v1/session', 'open', signOutHandler(app));
}
