/**
 * Access control. Checks are open to every client that can reach the port. The admin API requires
 * the admin token, or a session opened with the token. It is open to local clients if the service
 * listens on loopback and has no token. Cross-site requests of browsers are always rejected: on
 * loopback without a token, they would have admin access.
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

/** Limits guesses at the admin token. */
export interface AttemptLimiter {
  /**
   * Counts an attempt with a bearer token. Rejects with an error of status 429 if the address has
   * sent too many wrong tokens.
   */
  bearer(context: RequestContext, isRight: boolean): Promise<void>;
}

const BY_TOKEN: Caller = { as: 'token' };
const ON_LOOPBACK: Caller = { as: 'loopback' };

export class AccessControl {
  readonly #token: Buffer | undefined;
  readonly #isLoopback: boolean;
  readonly #attempts: AttemptLimiter;
  /** Undefined without an admin token. */
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
   * Throws an error with status 401 or 403 if the caller has no access. If the request has a bearer
   * token, returns a promise instead. The promise may reject with an error of status 401 or 429.
   */
  admit(context: RequestContext, access: Access): undefined | Promise<void> {
    // A proxy forwards the browser's headers. Their `Origin` refers to the page behind the proxy.
    if (access === 'proxied') return undefined;
    const { headers } = context.request;
    if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) {
      if (access !== 'page' || !isNavigation(context)) rejectCrossSite(context);
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
    if (!this.#isLocalOnly) throw unauthorized('Expected `Authorization: Bearer` with the token');
    throw new HttpError(403, 'ERR_CROSS_SITE', 'Expected the Host to be a loopback name');
  }

  /** Returns how the caller is authenticated as an admin; undefined if the caller is not. */
  callerOf(context: RequestContext): Caller | undefined | Promise<Caller | undefined> {
    const { authorization } = context.request.headers;
    const [, token] = /^Bearer +(.+)$/i.exec(authorization ?? '') ?? [];
    if (token === undefined || this.#token === undefined) return this.#callerWithoutToken(context);
    return this.#callerByToken(context, token);
  }

  async #callerByToken(context: RequestContext, token: string): Promise<Caller | undefined> {
    // Node decodes headers as Latin-1, so this restores the received bytes.
    const isRight = this.#isTokenIn(Buffer.from(token, 'latin1'));
    await this.#attempts.bearer(context, isRight);
    return isRight ? BY_TOKEN : this.#callerWithoutToken(context);
  }

  #callerWithoutToken(context: RequestContext): Caller | undefined {
    const { cookie, host } = context.request.headers;
    if (this.#isLocalOnly) {
      // Another host name that resolves to loopback may be a DNS rebinding attack.
      return isLoopback(hostName(host ?? '')) ? ON_LOOPBACK : undefined;
    }
    if (cookie === undefined || !isOfOwnSite(context)) return undefined;
    const [text, second] = sessionCookies(cookie);
    // If there are two session cookies, another site may have set one of them.
    if (text === undefined || second !== undefined) return undefined;
    const session = this.sessions?.read(text);
    return session && { as: 'session', session };
  }

  /** Returns false if the caller's session has expired or ended. Checked during event streams. */
  stillAdmits({ caller }: RequestContext): boolean {
    return caller?.session === undefined || this.sessions?.isActive(caller.session) === true;
  }

  /** Resolves to whether the caller has admin access. */
  async isAdmin(context: RequestContext): Promise<boolean> {
    try {
      return (await this.callerOf(context)) !== undefined;
    } catch {
      // After too many wrong tokens from an address, the right token is rejected as well.
      return false;
    }
  }

  isToken(text: string): boolean {
    return this.#isTokenIn(Buffer.from(text));
  }

  /** Whether every local caller has admin access. */
  get #isLocalOnly(): boolean {
    return this.#isLoopback && this.#token === undefined;
  }

  /** Compares digests, so that the duration depends neither on the token nor on its length. */
  #isTokenIn(bytes: Buffer): boolean {
    return this.#token !== undefined && timingSafeEqual(this.#token, digest(bytes));
  }
}

/**
 * Returns an error with status 401. With the scheme `Bearer`, browsers do not show a password
 * dialog.
 */
export const unauthorized = (message: string): HttpError =>
  new HttpError(401, 'ERR_UNAUTHORIZED', message, undefined, {
    'www-authenticate': 'Bearer realm="sluice"',
  });

/**
 * Throws an error with status 403 if the request comes from a page of another site, according to
 * `Sec-Fetch-Site` and `Origin`. Pages cannot set these headers.
 */
function rejectCrossSite({ request: { headers } }: RequestContext): void {
  const site = headers['sec-fetch-site'];
  const isOther = site === 'cross-site' || site === 'same-site';
  const { origin } = headers;
  const isForeign = origin !== undefined && origin.replace(/^https?:\/\//, '') !== headers.host;
  if (!isOther && !isForeign) return;
  throw new HttpError(403, 'ERR_CROSS_SITE', 'Expected a same-site request, got a cross-site one');
}

/** Whether a user opened the page through a link or the address bar, and not in a frame. */
const isNavigation = ({ request: { headers } }: RequestContext): boolean =>
  headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';

/**
 * Whether the session cookie is accepted. Browsers attach cookies to cross-site requests too, so
 * the request must come from a page of this service or from the address bar. Over plain HTTP,
 * browsers send no `Sec-Fetch-Site`, and send `Origin` only with methods other than GET and HEAD.
 * So GET and HEAD are accepted without these headers.
 */
function isOfOwnSite({ request }: RequestContext): boolean {
  const { headers, method } = request;
  const { origin, host } = headers;
  const isSafe = method === 'GET' || method === 'HEAD';
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') return isSafe && site === 'none';
  if (origin === undefined) return isSafe || site !== undefined;
  if (origin === `https://${host}`) return true;
  // An http: page is accepted only if this connection has no TLS. With TLS, an attacker on the
  // network could have injected the http: page.
  return !isEncrypted(request) && origin === `http://${host}`;
}

export const isEncrypted = ({ socket }: IncomingMessage): boolean =>
  (socket as Partial<TLSSocket>).encrypted === true;
