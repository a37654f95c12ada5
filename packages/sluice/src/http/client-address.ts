/**
 * Who a request comes from: the socket's address or, where proxies are trusted, the address that
 * they report. A client can write what it likes into the forwarding headers, so they are read from
 * the right, where the nearest proxy writes, and only as far as the trust reaches.
 */
import { checkFields, expected, isInteger } from '../errors.ts';
import { contained, emitWarning, type Warning } from '../warning.ts';
import { type Address, keyOf, readAddress, withoutNat64 } from './address-bits.ts';
import { addressesFromRight, type ForwardedHeader } from './address-headers.ts';
import { contains, trustedNetworks } from './address-networks.ts';

export type { ForwardedHeader };
export type AddressWarning = Warning;

export interface AddressOptions {
  /**
   * Whose forwarding headers are believed. Default: nobody's; then the address is the socket's.
   *
   * A number is how many proxies stand in front, 1 to 32: the client is the address so many places
   * left of the socket's. It has to be exact, and no way may lead around the proxies: with fewer of
   * them than that, the address is what the client wrote into the header itself.
   *
   * A list has the networks of the proxies, such as `['10.0.0.0/8', '::1']`, where `'loopback'` and
   * `'private'` stand for the networks of that kind. The client is the first address from the right
   * that is in none of them.
   */
  readonly trustProxy?: number | readonly string[];
  /** Which header the proxies set. Default `'x-forwarded-for'`; `'forwarded'` is RFC 7239. */
  readonly forwardedHeader?: ForwardedHeader;
  /** How many bits of an IPv6 address are one client, 32 to 128. Default 64. */
  readonly ipv6Prefix?: number;
  /** Told, once each, what is dangerous about the setup. Default: `process.emitWarning`. */
  readonly onWarning?: (warning: AddressWarning) => void;
}

/** Where a request comes from, as far as it can be seen. */
export interface Origin {
  readonly socketAddress: string | undefined;
  /** The value of a header, by lower-case name. */
  header(name: string): string | undefined;
  /** Whether a header tells of proxies. If it is left out, the headers are looked through. */
  readonly isForwarded?: boolean;
  /** What the request came by, where all that comes by it has this address. */
  readonly connection?: object | undefined;
}

/** Tells clients apart. */
export interface ClientKeys {
  of(origin: Origin): string;
  /** The key of a connection, if that is known and nothing else has to be looked at. */
  known(connection: object): string | undefined;
}

/** From the socket's address and the headers, by lower-case name, to the client. */
export type AddressReader = (
  socketAddress: string | undefined,
  header: (name: string) => string | undefined,
) => string;

const OPTIONS = ['trustProxy', 'forwardedHeader', 'ipv6Prefix', 'onWarning'];
const HEADERS: readonly ForwardedHeader[] = ['x-forwarded-for', 'forwarded'];
const DEFAULT_PREFIX = 64;
const MIN_PREFIX = 32;
const MAX_PROXIES = 32;

/** Whether the address after so many steps from the socket is a proxy's whose word counts. */
type Trust = (address: Address, steps: number) => boolean;

/** What to tell about the header `name` on a request that came, or was passed on, by `key`. */
const MESSAGES = {
  WARN_FORWARDED_IGNORED: (name: string, key: string): string =>
    `A request from ${key} has the header ${name}, but nobody there is trusted to set it. If ` +
    'that is a proxy of yours, all clients behind it share one key. Set trustProxy to the number ' +
    'of proxies in front, or to their networks. If not, the client made it up, and it does not ' +
    'count.',
  WARN_FORWARDED_MISSING: (name: string, key: string): string =>
    `A request came from the trusted proxy ${key} without the header ${name}: all clients behind ` +
    'it share one key. Have the proxy set it, or set forwardedHeader to the header that it sets.',
  WARN_FORWARDED_SHORT: (name: string): string =>
    `A request has fewer addresses in ${name} than trustProxy says there are proxies: clients ` +
    'can choose their address. Set trustProxy to the number of proxies that add to the header.',
  WARN_FORWARDED_UNREADABLE: (name: string, key: string): string =>
    `The trusted proxy ${key} wrote something else than an address into ${name}: all such ` +
    'clients share the key of the proxy. Have the proxy write the address of its client.',
};

/** A shorter prefix would make half the world one client. */
function checkPrefix(ipv6Prefix: unknown): void {
  if (isInteger(ipv6Prefix, MIN_PREFIX) && ipv6Prefix <= 128) return;
  throw expected('ERR_INVALID_OPTION', `ipv6Prefix as ${MIN_PREFIX} to 128 bits`, ipv6Prefix);
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
    `trustProxy as the number of proxies in front (1 to ${MAX_PROXIES}) or a list of their ` +
    "networks, such as ['10.0.0.0/8'], and no trustProxy at all to trust nobody";
  throw expected('ERR_INVALID_OPTION', what, trustProxy);
}

/** The canonical key of an address (`1.2.3.4`, `2001:db8:0:1::/64`), or undefined if it is none. */
export function addressKey(text: string, ipv6Prefix: number = DEFAULT_PREFIX): string | undefined {
  checkPrefix(ipv6Prefix);
  const address = readAddress(text);
  return address && keyOf(address, ipv6Prefix);
}

/** The address of the socket, without which nothing in the headers means anything. */
function readSocket(text: string | undefined): Address {
  const address = readAddress(text);
  if (address) return address;
  const what =
    "the address of the client's socket (if there is none, as on a Unix socket or a worker, give " +
    'a key function that knows the client by something else, such as a user or an API key; ' +
    'sluice/hono and sluice/fetch also take `address`)';
  throw expected('ERR_NO_CLIENT_ADDRESS', what, text);
}

function checkOptions(options: AddressOptions): void {
  checkFields(options, OPTIONS);
  const { forwardedHeader, ipv6Prefix, onWarning } = options;
  if (ipv6Prefix !== undefined) checkPrefix(ipv6Prefix);
  if (forwardedHeader !== undefined && !HEADERS.includes(forwardedHeader)) {
    const what = `forwardedHeader as ${HEADERS.join(' or ')}`;
    throw expected('ERR_INVALID_OPTION', what, forwardedHeader);
  }
  if (onWarning !== undefined && typeof onWarning !== 'function') {
    throw expected('ERR_INVALID_OPTION', 'onWarning as a function', onWarning);
  }
}

/** Builds a reader of whole addresses, for lists of networks. */
export function wholeAddress(options: AddressOptions = {}): (origin: Origin) => Address {
  checkOptions(options);
  const { trustProxy, forwardedHeader: name = 'x-forwarded-for' } = options;
  const { ipv6Prefix = DEFAULT_PREFIX } = options;
  const onWarning = contained(options.onWarning ?? emitWarning);
  const isTrusted = trustOf(trustProxy);
  const told = new Set<string>();

  /** What is wrong with a setup is wrong with every request, so it is told once. */
  function warn(code: keyof typeof MESSAGES, header: string, by: Address): void {
    if (told.has(code)) return;
    told.add(code);
    onWarning({ code, message: MESSAGES[code](header, keyOf(by, ipv6Prefix)) });
  }

  /** Goes on from a trusted proxy to the next as long as they are trusted and report an address. */
  function walk(socket: Address, list: string, trusts: Trust): Address {
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
    // Every proxy adds an address, so there are fewer of them than the number says.
    if (typeof trustProxy === 'number') warn('WARN_FORWARDED_SHORT', name, client);
    return client;
  }

  return (origin) => {
    const socket = readSocket(origin.socketAddress);
    if (isTrusted?.(socket, 0)) {
      const list = origin.header(name);
      if (list) return withoutNat64(walk(socket, list, isTrusted));
      warn('WARN_FORWARDED_MISSING', name, socket);
    } else {
      const stray = HEADERS.find((each) => origin.header(each));
      if (stray) warn('WARN_FORWARDED_IGNORED', stray, socket);
    }
    return withoutNat64(socket);
  };
}

/** Builds a reader: from the socket's address and the headers to the client's key. */
export function clientAddress(options: AddressOptions = {}): AddressReader {
  const keys = clientKeys(options);
  return (socketAddress, header) => keys.of({ socketAddress, header });
}

/** The same, for those who have all of it in one place. */
export function clientKeys(options: AddressOptions = {}): ClientKeys {
  const read = wholeAddress(options);
  const { ipv6Prefix = DEFAULT_PREFIX } = options;
  const keyFor = (origin: Origin): string => keyOf(read(origin), ipv6Prefix);
  if (options.trustProxy === undefined) return new RememberedKeys(keyFor);
  return { of: keyFor, known: () => undefined };
}

const MAX_CACHED = 4096;

/** So many requests are looked through for headers that tell of proxies; of later ones 1 in 16. */
const LOOKED_THROUGH = 256;
const SELDOM = 16;

type Marked = Record<symbol, string | undefined>;

/** Clients come again and again, and the key of a socket's address is always the same. */
class RememberedKeys implements ClientKeys {
  readonly #keyFor: (origin: Origin) => string;
  readonly #keys = new Map<string, string>();
  /** Under which a connection has its key: one that was made here. */
  readonly #mark = Symbol('client');
  #looks = 0;
  /** The headers of so many requests are not looked at, from here on. */
  #left = 0;

  constructor(keyFor: (origin: Origin) => string) {
    this.#keyFor = keyFor;
  }

  known(connection: object): string | undefined {
    return --this.#left > 0 ? (connection as Marked)[this.#mark] : undefined;
  }

  of(origin: Origin): string {
    const known = this.#keys.get(origin.socketAddress!);
    // A header that is not believed is worth a warning, which the other way gives. A proxy sends it
    // with every request, so it is enough to look now and then: to read headers is slow.
    if (known !== undefined && (--this.#left > 0 || !this.#isForwarded(origin))) {
      return this.#marked(origin, known);
    }
    const key = this.#keyFor(origin);
    if (this.#keys.size >= MAX_CACHED) this.#keys.clear();
    this.#keys.set(origin.socketAddress!, key);
    return this.#marked(origin, key);
  }

  #isForwarded(origin: Origin): boolean {
    if (this.#looks < LOOKED_THROUGH) this.#looks++;
    else this.#left = SELDOM;
    return isForwarded(origin);
  }

  #marked(origin: Origin, key: string): string {
    const connection = origin.connection as Marked | undefined;
    if (connection !== undefined) connection[this.#mark] ??= key;
    return key;
  }
}

function isForwarded(origin: Origin): boolean {
  return origin.isForwarded ?? HEADERS.some((name) => origin.header(name));
}
