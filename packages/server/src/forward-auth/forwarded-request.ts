/**
 * What a proxy reports of the request that it asks about. nginx, as most have it set up, tells the
 * method and the URI in `X-Original-*`; Caddy, Traefik and HAProxy in `X-Forwarded-*`; Envoy asks
 * with the method and the path of the request itself.
 *
 * A proxy passes on what else a client sends, so a client can write the headers that its proxy does
 * not. Where the two families say different things, one of them is made up, and nothing is decided.
 */
import type { IncomingMessage } from 'node:http';
import { badRequest } from '../http/exchange.ts';
import type { RequestFacts } from '../rules/request-facts.ts';

/** The client of a request that came through a proxy, as a key. */
export type AddressOf = (incoming: IncomingMessage) => string;

/** Made for every request, so what few rules look at is made out when they do. */
export class ForwardedRequest implements RequestFacts {
  readonly path: string;
  readonly #query: number;

  constructor(
    readonly incoming: IncomingMessage,
    readonly addressOf: AddressOf,
    readonly method: string,
    /** The path and the query. */
    readonly target: string,
    readonly hostOf: (incoming: IncomingMessage) => string | undefined,
  ) {
    this.#query = target.indexOf('?');
    this.path = this.#query < 0 ? target : target.slice(0, this.#query);
  }

  get search(): string {
    return this.#query < 0 ? '' : this.target.slice(this.#query + 1);
  }

  get host(): string {
    return this.hostOf(this.incoming) ?? '';
  }

  header(name: string): string | undefined {
    return headerOf(this.incoming, name);
  }

  address(): string {
    return this.addressOf(this.incoming);
  }
}

export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value: unknown = headers[name];
  if (typeof value === 'string') return value;
  // Names such as `constructor` lead to what is no header.
  return Array.isArray(value) ? value.join(', ') : undefined;
}

const ownHost = ({ headers }: IncomingMessage): string | undefined => headers.host;

/** Of a list, what the nearest proxy wrote. */
function forwardedHost(incoming: IncomingMessage): string | undefined {
  const list = headerOf(incoming, 'x-forwarded-host');
  return list === undefined ? ownHost(incoming) : list.slice(list.lastIndexOf(',') + 1).trim();
}

/** From the headers in which a proxy tells of a request. */
export function fromHeaders(incoming: IncomingMessage, addressOf: AddressOf): ForwardedRequest {
  const { headers } = incoming;
  const forwarded = headers['x-forwarded-uri'];
  const original = headers['x-original-uri'] ?? headers['x-original-url'];
  const target = agreed(forwarded, original, 'URI') ?? '/';
  const method =
    agreed(headers['x-forwarded-method'], headers['x-original-method'], 'method') ??
    incoming.method!;
  if (!target.startsWith('/')) {
    const [, host, rest] = ABSOLUTE.exec(target) ?? [];
    if (rest !== undefined) {
      return new ForwardedRequest(incoming, addressOf, method, rest, () => host);
    }
  }
  // Who tells the URI in the other family of headers may leave this one to the client.
  const hostOf = forwarded ? forwardedHost : ownHost;
  return new ForwardedRequest(incoming, addressOf, method, target, hostOf);
}

/** Behind the prefix that Envoy was told to put before the path. */
export function fromPath(
  incoming: IncomingMessage,
  addressOf: AddressOf,
  prefix: string,
): ForwardedRequest {
  const { url = '/', method = 'GET' } = incoming;
  return new ForwardedRequest(incoming, addressOf, method, url.slice(prefix.length), ownHost);
}

const ABSOLUTE = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)(.*)$/i;

type Value = string | readonly string[] | undefined;

/** The one thing that is said. Nothing that is right has a space: that is two headers in one. */
function agreed(forwarded: Value, original: Value, what: string): string | undefined {
  const said = (forwarded || original) as string | undefined;
  if (!said) return undefined;
  const isOne = !original || original === said;
  if (isOne && !said.includes(' ')) return said;
  const where = 'in X-Forwarded-* or X-Original-*';
  throw badRequest('ERR_CONFLICTING_HEADERS', `Expected one ${what} ${where}, got two`);
}
