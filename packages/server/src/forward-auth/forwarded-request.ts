/**
 * The request that a proxy forwards, read only from the headers that the profile of the proxy
 * names. A request that two programs could read differently is rejected with 400.
 */
import type { IncomingMessage } from 'node:http';
import { AmbiguousRequest } from '../ambiguous-request.ts';
import { badRequest } from '../http/problems.ts';
import type { ProxyProfile } from '../proxy-profiles.ts';
import type { RequestAttributes } from '../rules/request-attributes.ts';
import { ruleHeader, singleHeader } from './single-header.ts';

/** Returns the client address of a forwarded request, as a key. */
export type AddressOf = (incoming: IncomingMessage) => string;

/**
 * A forwarded request. The method and the path are validated at once, other properties when a rule
 * reads them.
 */
export class ForwardedRequest implements RequestAttributes {
  readonly path: string;
  readonly #query: number;

  constructor(
    readonly incoming: IncomingMessage,
    readonly addressOf: AddressOf,
    readonly profile: ProxyProfile,
    readonly method: string,
    /** The path and the query. */
    readonly target: string,
  ) {
    if (!TARGET.test(target)) throw invalid('the path', 'begin with / and have visible characters');
    if (!METHOD.test(method)) throw invalid('the method', 'be a token');
    this.#query = target.indexOf('?');
    this.path = this.#query < 0 ? target : target.slice(0, this.#query);
  }

  get search(): string {
    return this.#query < 0 ? '' : this.target.slice(this.#query + 1);
  }

  get host(): string {
    const host = requiredHeader(this.incoming, this.profile.host);
    if (host.length > MAX_HOST_LENGTH || !HOST.test(host))
      throw invalid('the host', 'be a name or an address');
    return host;
  }

  header(name: string): string | undefined {
    return ruleHeader(this.incoming, name, this.profile.joinsLines);
  }

  address(): string {
    return this.addressOf(this.incoming);
  }
}

/** A name of 255 characters, a colon and a port of 5 digits. */
const MAX_HOST_LENGTH = 261;

/** `#` is rejected: correct clients never send it, and applications parse it differently. */
const TARGET = /^(?:\/[!"$-~\x80-\xff]*|\*)$/;
const METHOD = /^[\w!#$%&'*+.^`|~-]+$/;
const HOST = /^(?:[\w.!$&'()*+;=~-]+|\[[\da-fA-F:.]+\])(?::\d*)?$/;

/** Returns the request that the proxy describes in the headers of its profile. */
export function describedRequest(
  incoming: IncomingMessage,
  addressOf: AddressOf,
  profile: ProxyProfile,
): ForwardedRequest {
  const { described } = profile;
  if (described === undefined) throw new TypeError('The profile describes no request');
  const method = requiredHeader(incoming, described.method);
  const target = requiredHeader(incoming, described.url);
  return new ForwardedRequest(incoming, addressOf, profile, method, target);
}

/** Returns the received request itself, without the prefix that Envoy adds to the path. */
export function prefixedRequest(
  incoming: IncomingMessage,
  addressOf: AddressOf,
  profile: ProxyProfile,
  prefix: string,
): ForwardedRequest {
  const { url = '/', method = 'GET' } = incoming;
  return new ForwardedRequest(incoming, addressOf, profile, method, url.slice(prefix.length));
}

function requiredHeader(incoming: IncomingMessage, name: string): string {
  const value = singleHeader(incoming, name);
  if (value) return value;
  const message = `Expected the proxy to send \`${name}\`, got no such header; check --proxy`;
  throw badRequest('ERR_MISSING_HEADER', message);
}

const invalid = (what: string, expected: string): AmbiguousRequest =>
  new AmbiguousRequest(`Expected ${what} of the forwarded request to ${expected}`);
