/**
 * Who may do what. Checks are for everybody who can reach the port; the rest takes the admin token,
 * unless only this machine can come. A page of another site that makes somebody's browser ask is
 * turned away in any case: on loopback there is no token that it would lack.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isLoopback, type Settings } from '../settings.ts';
import { type Exchange, HttpError } from './exchange.ts';
import type { Access } from './router.ts';

const digest = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();

const hostName = (host: string): string =>
  host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[|\]$/g, '');

export class AccessControl {
  readonly #token: Buffer | undefined;
  readonly #isLoopback: boolean;

  constructor({ adminToken, listen }: Pick<Settings, 'adminToken' | 'listen'>) {
    this.#token = adminToken === undefined ? undefined : digest(Buffer.from(adminToken));
    this.#isLoopback = isLoopback(listen.host);
  }

  /** Throws a 401 or 403 if this is not for them. */
  admit(exchange: Exchange, access: Access): void {
    // What a proxy reports of a browser is about the page that it guards, not about this service.
    if (access === 'proxied') return;
    const { headers } = exchange.request;
    if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) {
      refuseOtherSites(exchange);
    }
    if (access === 'open') return;
    if (this.#hasToken(headers.authorization)) return;
    // A name that leads here, but is not this machine's own, is another site's (DNS rebinding).
    if (this.#isLoopback && this.#token === undefined) {
      if (isLoopback(hostName(headers.host ?? ''))) return;
      throw new HttpError(403, 'ERR_CROSS_SITE', 'Expected the Host to be a name of this machine');
    }
    throw new HttpError(
      401,
      'ERR_UNAUTHORIZED',
      'Expected `Authorization: Bearer` with the admin token',
      undefined,
      { 'www-authenticate': 'Bearer realm="sluice"' },
    );
  }

  /** Whether an admin asks, or somebody on this machine if that is all it takes. */
  isAdmin(exchange: Exchange): boolean {
    try {
      this.admit(exchange, 'admin');
      return true;
    } catch {
      return false;
    }
  }

  /** Digests are compared: that takes equally long whatever is wrong, and hides the length. */
  #hasToken(authorization: string | undefined): boolean {
    if (this.#token === undefined || authorization === undefined) return false;
    const [, given] = /^Bearer +(.+)$/i.exec(authorization) ?? [];
    if (given === undefined) return false;
    // Headers are read as Latin-1, so these are the bytes that came.
    return timingSafeEqual(this.#token, digest(Buffer.from(given, 'latin1')));
  }
}

/** Browsers say where a request comes from, and pages cannot change that. */
function refuseOtherSites({ request: { headers } }: Exchange): void {
  const site = headers['sec-fetch-site'];
  const isOther = site === 'cross-site' || site === 'same-site';
  const { origin } = headers;
  const isForeign = origin !== undefined && origin.replace(/^https?:\/\//, '') !== headers.host;
  if (!isOther && !isForeign) return;
  throw new HttpError(403, 'ERR_CROSS_SITE', 'Expected no request from a page of another site');
}
