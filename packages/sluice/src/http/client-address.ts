/**
 * The client's address: the address of the socket or, behind trusted proxies, the address that they
 * report. Clients can forge forwarding headers. So these headers are read from the right, where the
 * nearest proxy appends its entry, and no further than to the first entry that no trusted proxy
 * has appended.
 */
import { expected, isInteger } from '../errors.ts';
import { emitWarning, type Warning, warnOnError } from '../warning.ts';
import { type Address, keyOf, readAddress, withoutNat64 } from './address-bits.ts';
import { addressesFromRight, type ForwardedHeader } from './address-headers.ts';
import { contains, trustedNetworks } from './address-networks.ts';
import { checkOptionNames } from './check-options.ts';

export type { ForwardedHeader };
export type AddressWarning = Warning;

export interface AddressOptions {
  /**
   * The proxies whose forwarding headers are trusted. Default: none; the client's address is that
   * of the socket.
   *
   * A number, 1 to 32, is the exact number of proxies in front of the server. With n proxies, the
   * client's address is the nth from the right in the forwarding header. If a request can reach the
   * server through fewer proxies, its client can forge the address.
   *
   * A list contains the networks of the proxies; `'loopback'` stands for all loopback networks,
   * `'private'` for all private ones. The client's address is the first address from the right that
   * is in none of the networks.
   *
   * @example trustProxy: 1
   * @example trustProxy: ['10.0.0.0/8', '::1']
   */
  readonly trustProxy?: number | readonly string[];
  /**
   * The header that the proxies set. Default `'x-forwarded-for'`; `'forwarded'` is RFC 7239.
   *
   * @example forwardedHeader: 'forwarded'
   */
  readonly forwardedHeader?: ForwardedHeader;
  /**
   * Number of leading bits of an IPv6 address that identify a client, 32 to 128. Default 64.
   *
   * @example ipv6Prefix: 56
   */
  readonly ipv6Prefix?: number;
  /**
   * Receives each kind of configuration warning once. Default: `process.emitWarning`.
   *
   * @example onWarning: ({ code, message }) => logger.warn({ code }, message)
   */
  readonly onWarning?: (warning: AddressWarning) => void;
}

/** Where a request comes from. */
export interface Origin {
  readonly socketAddress: string | undefined;
  /** Returns the value of a header by its lower-case name. */
  header(name: string): string | undefined;
  /** Whether the request has a forwarding header. Default: determined by calling `header`. */
  readonly isForwarded?: boolean;
}

/** Determines the keys and addresses of clients. */
export interface ClientKeys {
  /** Returns the client's key; `'unknown'` if its address cannot be determined. */
  of(origin: Origin): string;
  /** Returns the client's whole address, of which the key may contain only a prefix. */
  addressOf(origin: Origin): Address | undefined;
}

/** Returns the client's key from the socket's address and the headers, by lower-case name. */
export type AddressReader = (
  socketAddress: string | undefined,
  header: (name: string) => string | undefined,
) => string;

export const ADDRESS_FIELDS = [
  'trustProxy',
  'forwardedHeader',
  'ipv6Prefix',
  'onWarning',
] as const satisfies readonly (keyof AddressOptions)[];
const HEADERS: readonly ForwardedHeader[] = ['x-forwarded-for', 'forwarded'];
const DEFAULT_PREFIX = 64;
const MIN_PREFIX = 32;
const MAX_PROXIES = 32;

/** Whether `address`, which is `steps` hops from the socket, is a trusted proxy. */
type Trust = (address: Address, steps: number) => boolean;

/** The key of all clients whose address cannot be determined. */
export const UNKNOWN_CLIENT = 'unknown';

/** Messages of warnings: `name` is a header, `key` the client or proxy that sent the request. */
const MESSAGES = {
  WARN_NO_CLIENT_ADDRESS: (): string =>
    'A request has no client address, as on a Unix socket, in a worker, in a unit test or after ' +
    `the client disconnected: all such requests share the key '${UNKNOWN_CLIENT}'. Set ` +
    'trustProxy to the number of proxies in front, or key to a function of the request; ' +
    'sluice/hono and sluice/fetch also accept address.',
  WARN_FORWARDED_IGNORED: (name: string, key: string): string =>
    `A request from ${key} has the header ${name}, which is ignored because no proxy is trusted ` +
    'there. If it is your proxy, all clients behind it share one key: set trustProxy of the ' +
    'limiter to the number of proxies or to their networks. Otherwise the client forged the ' +
    'header.',
  WARN_FORWARDED_MISSING: (name: string, key: string): string =>
    `A request from the trusted proxy ${key} has no header ${name}: all clients behind it share ` +
    'one key. Configure the proxy to set it, or set forwardedHeader to the header that it sets.',
  WARN_FORWARDED_SHORT: (name: string): string =>
    `A request has fewer addresses in ${name} than trustProxy counts proxies: clients can forge ` +
    'their address. Set trustProxy to the number of proxies that append to the header.',
  WARN_FORWARDED_UNREADABLE: (name: string, key: string): string =>
    `The trusted proxy ${key} wrote an invalid address into ${name}: such clients share the ` +
    "proxy's key. Configure the proxy to write the address of its client.",
};

/** Rejects short prefixes, which would make a whole provider one client. */
function checkPrefix(ipv6Prefix: unknown): void {
  if (isInteger(ipv6Prefix, MIN_PREFIX) && ipv6Prefix <= 128) return;
  const what = `ipv6Prefix to be an integer from ${MIN_PREFIX} to 128`;
  throw expected('ERR_INVALID_OPTION', what, ipv6Prefix);
}

function trustOf(trustProxy: unknown): Trust | undefined {
  if (trustProxy === undefined) return undefined;
  if (Array.isArray(trustProxy) && trustProxy.length > 0) {
    const networks = trustedNetworks(trustProxy);
    return (address) => contains(networks, address);
  }
  if (isInteger(trustProxy, 1) && trustProxy <= MAX_PROXIES) {
    return (_, steps) => steps < trustProxy;
  }
  const what =
    `trustProxy to be the number of proxies in front (1 to ${MAX_PROXIES}) or a list of their ` +
    "networks, such as ['10.0.0.0/8'] (omit it to trust none)";
  throw expected('ERR_INVALID_OPTION', what, trustProxy);
}

/** Returns the key of an address (`1.2.3.4`, `2001:db8:0:1::/64`), or undefined if invalid. */
export function addressKey(text: string, ipv6Prefix: number = DEFAULT_PREFIX): string | undefined {
  checkPrefix(ipv6Prefix);
  const address = readAddress(text);
  return address && keyOf(address, ipv6Prefix);
}

function checkOptions(options: AddressOptions): void {
  checkOptionNames(options, ADDRESS_FIELDS);
  const { forwardedHeader, ipv6Prefix, onWarning } = options;
  if (ipv6Prefix !== undefined) checkPrefix(ipv6Prefix);
  if (forwardedHeader !== undefined && !HEADERS.includes(forwardedHeader)) {
    const what = `forwardedHeader to be ${HEADERS.join(' or ')}`;
    throw expected('ERR_INVALID_OPTION', what, forwardedHeader);
  }
  if (onWarning !== undefined && typeof onWarning !== 'function') {
    throw expected('ERR_INVALID_OPTION', 'onWarning to be a function', onWarning);
  }
}

/** Builds a function that returns the client's whole address; undefined if it is unknown. */
function wholeAddress(options: AddressOptions): (origin: Origin) => Address | undefined {
  checkOptions(options);
  const { trustProxy, forwardedHeader: name = 'x-forwarded-for' } = options;
  const { ipv6Prefix = DEFAULT_PREFIX } = options;
  const onWarning = warnOnError(options.onWarning ?? emitWarning);
  const isTrusted = trustOf(trustProxy);
  const reported = new Set<string>();

  /** Reports each code once, because every request would cause the same warning. */
  function warn(code: keyof typeof MESSAGES, header: string, by: Address | undefined): void {
    if (reported.has(code)) return;
    reported.add(code);
    const message = MESSAGES[code](header, by ? keyOf(by, ipv6Prefix) : UNKNOWN_CLIENT);
    void onWarning({ code, message });
  }

  /** Returns the first address from the right of the header that is not a trusted proxy. */
  function walk(socket: Address | undefined, list: string, trusts: Trust): Address | undefined {
    let client = socket;
    let steps = 0;
    for (const address of addressesFromRight(list, name)) {
      if (!address) {
        warn('WARN_FORWARDED_UNREADABLE', name, client);
        return client;
      }
      client = address;
      steps++;
      if (!trusts(client, steps)) return client;
    }
    // Each proxy appends one address. So the request passed fewer proxies than configured.
    if (typeof trustProxy === 'number') warn('WARN_FORWARDED_SHORT', name, client);
    return client;
  }

  /**
   * Whether the peer of the socket is a trusted proxy. A peer without an address, as on a Unix
   * socket, is trusted if `trustProxy` is a number.
   */
  const trustsPeer = (socket: Address | undefined): boolean =>
    socket ? isTrusted?.(socket, 0) === true : typeof trustProxy === 'number';

  return (origin) => {
    const socket = readAddress(origin.socketAddress);
    if (trustsPeer(socket)) {
      const list = origin.header(name);
      if (list) return walk(socket, list, isTrusted!);
      warn('WARN_FORWARDED_MISSING', name, socket);
    } else if (socket === undefined) {
      warn('WARN_NO_CLIENT_ADDRESS', name, socket);
    } else {
      const stray =
        origin.isForwarded === false ? undefined : HEADERS.find((each) => origin.header(each));
      if (stray) warn('WARN_FORWARDED_IGNORED', stray, socket);
    }
    return socket;
  };
}

/** Builds a function that returns the client's key from the socket's address and the headers. */
export function clientAddress(options: AddressOptions = {}): AddressReader {
  const keys = clientKeys(options);
  return (socketAddress, header) => keys.of({ socketAddress, header });
}

/** Returns functions that determine the client's key and address from an adapter's `Origin`. */
export function clientKeys(options: AddressOptions = {}): ClientKeys {
  const read = wholeAddress(options);
  const { ipv6Prefix = DEFAULT_PREFIX } = options;
  const addressOf = (origin: Origin): Address | undefined => {
    const address = read(origin);
    return address && withoutNat64(address);
  };
  const of = (origin: Origin): string => {
    const address = addressOf(origin);
    return address ? keyOf(address, ipv6Prefix) : UNKNOWN_CLIENT;
  };
  // Behind trusted proxies, the key depends on the headers and cannot be cached by socket.
  return options.trustProxy === undefined ? new CachedKeys({ of, addressOf }) : { of, addressOf };
}

const MAX_CACHED_KEYS = 4096;

/** Caches keys by socket address, which avoids parsing an address again. */
class CachedKeys implements ClientKeys {
  readonly addressOf: ClientKeys['addressOf'];
  readonly #keyFor: ClientKeys['of'];
  readonly #keys = new Map<string | undefined, string>();

  constructor({ of, addressOf }: ClientKeys) {
    this.#keyFor = of;
    this.addressOf = addressOf;
  }

  of(origin: Origin): string {
    const cached = this.#keys.get(origin.socketAddress);
    // If a forwarding header is present, `#keyFor` may have to emit a warning.
    if (cached !== undefined && !isForwarded(origin)) return cached;
    const key = this.#keyFor(origin);
    if (this.#keys.size >= MAX_CACHED_KEYS) this.#keys.clear();
    this.#keys.set(origin.socketAddress, key);
    return key;
  }
}

function isForwarded(origin: Origin): boolean {
  return origin.isForwarded ?? HEADERS.some((name) => origin.header(name));
}
