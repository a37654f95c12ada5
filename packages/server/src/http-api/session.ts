/** `/v1/session`: signing in with the admin token, for browsers, and out again. */
import { isEncrypted, unauthorized } from '../http/access.ts';
import { type Caller, type Exchange, HttpError } from '../http/exchange.ts';
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
import type { Parts } from '../parts.ts';
import { audit } from './audit.ts';
import { readBody } from './bodies.ts';
import { SignInRequest } from './schemas.ts';

const SIGN_OUT = 'sign-out';
const SIGNED_OUT = 'signed-out';

/** Whether the browser came by TLS: to this process, or to a proxy before it. */
const isSecure = ({ request }: Exchange): boolean =>
  isEncrypted(request) || request.headers.origin?.startsWith('https://') === true;

function answer(
  { access }: Parts,
  exchange: Exchange,
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
  exchange.send(200, body, fields);
}

function sessionHandler(parts: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    answer(parts, exchange, await parts.access.callerOf(exchange));
  };
}

function signInHandler(parts: Parts): Handler {
  const { access, attempts, log } = parts;
  return async (exchange) => {
    exchange.checkQuery();
    const { token } = await readBody(exchange, SignInRequest);
    const { sessions } = access;
    if (sessions === undefined) {
      await access.admit(exchange, 'admin');
      return answer(parts, exchange, exchange.caller);
    }
    const isRight = access.isToken(token);
    await attempts.signIn(exchange, isRight);
    if (!isRight) throw unauthorized('Expected `token` to be the admin token');
    const session = sessions.open();
    exchange.caller = { as: 'token' };
    const change = { action: 'sign-in', ok: true, session: sessionName(session) } as const;
    audit(log, exchange, change, 'signed in');
    const cookie = setCookie(sessions.textOf(session), SESSION_MS, isSecure(exchange));
    answer(parts, exchange, { as: 'session', session }, cookie);
  };
}

/** Whatever browsers say or do not say about where this comes from: nobody gets in by it. */
function signOutHandler(parts: Parts): Handler {
  const { access, log } = parts;
  return async (exchange) => {
    exchange.checkQuery();
    const { sessions } = access;
    if (sessions === undefined) return answer(parts, exchange, await access.callerOf(exchange));
    const cookie = setCookie('', 0, isSecure(exchange));
    for (const text of sessionCookies(exchange.request.headers.cookie)) {
      const session = sessions.read(text);
      if (session === undefined) continue;
      exchange.caller = { as: 'session', session };
      sessions.end(session);
      audit(log, exchange, { action: 'sign-out' }, 'signed out');
      await tellCrew(parts, session, cookie);
    }
    answer(parts, exchange, undefined, cookie);
  };
}

async function tellCrew({ crew }: Parts, session: Session, cookie: string): Promise<void> {
  try {
    await crew.gather(SIGN_OUT, session);
  } catch (error) {
    const why = `The other processes were not told: ${(error as Error).message}`;
    const fields = { 'set-cookie': cookie };
    throw new HttpError(503, 'ERR_STORE_UNAVAILABLE', why, undefined, fields);
  }
}

/** What any process of the crew ends is ended in all. */
function shareEnded({ crew }: Parts, sessions: Sessions): void {
  crew.answer(SIGN_OUT, (session) => {
    sessions.end(session as Session);
    return true;
  });
  crew.answer(SIGNED_OUT, () => sessions.ended);
}

/** A process that joins the others has to know what they have ended before it serves. */
export async function learnEnded({ access: { sessions }, crew }: Parts): Promise<void> {
  if (sessions === undefined) return;
  for (const ended of await crew.gather(SIGNED_OUT)) sessions.learn(ended as EndedSessions);
}

export function sessionRoutes(router: Router, parts: Parts): void {
  const { sessions } = parts.access;
  if (sessions !== undefined) shareEnded(parts, sessions);
  router.add('GET', '/v1/session', 'open', sessionHandler(parts));
  router.add('POST', '/v1/session', 'open', signInHandler(parts));
  router.add('DELETE', '/v1/session', 'open', signOutHandler(parts));
}
