/**
 * Who may do what. Checks are for everybody who can reach the port; the rest takes the admin token,
 * or a session that was opened with it, unless only this machine can come. A page of another site
 * that makes somebody's browser ask is turned away in any case: on loopback there is no token that
 * it would lack.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { isLoopback, type Settings } from '../settings.ts';
import { type Caller, HttpError, type RequestContext } from './request-context.ts';
import type { Access } from './router.ts';
import { Sessions, sessionCookies } from './sessions.ts';

const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();

const hostName = (host: string): string =>
  host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[|\]$/g, '');

/** Limits guesses at the token. */
export interface AttemptLimiter {
  /** Counts a bearer token. Rejects with a 429 if the address has sent too many wrong ones. */
  bearer(context: RequestContext, isRight: boolean): Promise<void>;
}

const BY_TOKEN: Caller = { as: 'token' };
const ON_LOOPBACK: Caller = { as: 'loopback' };

export class AccessControl {
  readonly #token: Buffer | undefined;
  readonly #isLoopback: boolean;
  readonly #attempts: AttemptLimiter;
  /** Undefined where there is no token to sign in with. */
  readonly sessions: Sessions | undefined;

  constructor(
    { adminToken, listen }: Pick<Settings, 'adminToken' | 'listen'>,
    attempts: AttemptLimiter,
  ) {
    this.#attempts = attempts;
    this.#token = adminToken === undefined ? undefined : digest(Buffer.from(adminToken));
    this.sessions = adminToken === undefined ? undefined : new Sessions(adminToken);
    this.#isLoopback = isLoopback(listen.host);
  }

  /**
   * Throws a 401 or 403 if this is not for them. With a bearer token it returns a promise, which
   * rejects instead, also with a 429.
   */
  admit(context: RequestContext, access: Access): undefined | Promise<void> {
    // What a proxy reports of a browser is about the page that it guards, not about this service.
    if (access === 'proxied') return undefined;
    const { headers } = context.request;
    if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) {
      if (access !== 'page' || !isVisit(context)) refuseOtherSites(context);
    }
    if (access === 'open' || access === 'page') return undefined;
    const caller = this.callerOf(context);
    if (caller instanceof Promise) return caller.then((later) => this.#admit(context, later));
    this.#admit(context, caller);
    return undefined;
  }

  #admit(context: RequestContext, caller: Caller | undefined): void {
    context.caller = caller;
    if (caller !== undefined) return;
    if (!this.#isForMachine) throw unauthorized('Expected `Authorization: Bearer` with the token');
    throw new HttpError(403, 'ERR_CROSS_SITE', 'Expected the Host to be a name of this machine');
  }

  /** As whom somebody may do what admins may; undefined if they may not. */
  callerOf(context: RequestContext): Caller | undefined | Promise<Caller | undefined> {
    const { authorization } = context.request.headers;
    const [, token] = /^Bearer +(.+)$/i.exec(authorization ?? '') ?? [];
    if (token === undefined || this.#token === undefined) return this.#callerWithoutToken(context);
    return this.#callerByToken(context, token);
  }

  async #callerByToken(context: RequestContext, token: string): Promise<Caller | undefined> {
    // Headers are read as Latin-1, so these are the bytes that came.
    const isRight = this.#isTokenIn(Buffer.from(token, 'latin1'));
    await this.#attempts.bearer(context, isRight);
    return isRight ? BY_TOKEN : this.#callerWithoutToken(context);
  }

  #callerWithoutToken(context: RequestContext): Caller | undefined {
    const { cookie, host } = context.request.headers;
    if (this.#isForMachine) {
      // A name that leads here, but is not this machine's own, is another site's (DNS rebinding).
      return isLoopback(hostName(host ?? '')) ? ON_LOOPBACK : undefined;
    }
    if (cookie === undefined || !isOfOwnSite(context)) return undefined;
    const [text, second] = sessionCookies(cookie);
    // Of two nobody knows which one is the browser's own.
    if (text === undefined || second !== undefined) return undefined;
    const session = this.sessions?.read(text);
    return session && { as: 'session', session };
  }

  /** Whether who was let in still would be: a session ends, or is ended, during a long answer. */
  stillAdmits({ caller }: RequestContext): boolean {
    return caller?.session === undefined || this.sessions?.isGood(caller.session) === true;
  }

  /** Whether an admin asks, or somebody on this machine if that is all it takes. */
  async isAdmin(context: RequestContext): Promise<boolean> {
    try {
      return (await this.callerOf(context)) !== undefined;
    } catch {
      // After too many wrong tokens the right one does not count either.
      return false;
    }
  }

  isToken(text: string): boolean {
    return this.#isTokenIn(Buffer.from(text));
  }

  /** Whether being on this machine is all it takes. */
  get #isForMachine(): boolean {
    return this.#isLoopback && this.#token === undefined;
  }

  /** Digests are compared: that takes equally long whatever is wrong, and hides the length. */
  #isTokenIn(bytes: Buffer): boolean {
    return this.#token !== undefined && timingSafeEqual(this.#token, digest(bytes));
  }
}

/** Browsers ask for no password at this scheme; they leave it to the page. */
export const unauthorized = (message: string): HttpError =>
  new HttpError(401, 'ERR_UNAUTHORIZED', message, undefined, {
    'www-authenticate': 'Bearer realm="sluice"',
  });

/** Browsers say where a request comes from, and pages cannot change that. */
function refuseOtherSites({ request: { headers } }: RequestContext): void {
  const site = headers['sec-fetch-site'];
  const isOther = site === 'cross-site' || site === 'same-site';
  const { origin } = headers;
  const isForeign = origin !== undefined && origin.replace(/^https?:\/\//, '') !== headers.host;
  if (!isOther && !isForeign) return;
  throw new HttpError(403, 'ERR_CROSS_SITE', 'Expected no request from a page of another site');
}

/** Whether somebody followed a link, or typed one: to a page in its own right, in no frame. */
const isVisit = ({ request: { headers } }: RequestContext): boolean =>
  headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';

/**
 * Whether a cookie counts: a browser adds it to whatever is asked for, so it has to say that one of
 * our own pages asks, or somebody by hand. Over plain HTTP browsers say so only where something
 * could be changed; to look at things there, the cookie alone has to do.
 */
function isOfOwnSite({ request }: RequestContext): boolean {
  const { headers, method } = request;
  const { origin, host } = headers;
  const isSafe = method === 'GET' || method === 'HEAD';
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') return isSafe && site === 'none';
  if (origin === undefined) return isSafe || site !== undefined;
  if (origin === `https://${host}`) return true;
  // Without TLS here there may be a proxy that has it; with TLS this is a page that anybody could
  // have put there.
  return !isEncrypted(request) && origin === `http://${host}`;
}

export const isEncrypted = ({ socket }: IncomingMessage): boolean =>
  (socket as Partial<TLSSocket>).encrypted === true;
