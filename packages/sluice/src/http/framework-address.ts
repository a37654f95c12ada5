/**
 * The client's address as Express or Fastify determined it. An application that configured trusted
 * proxies in the framework does not need `trustProxy`.
 */
import { keyOf } from './address-bits.ts';
import { addressesFromRight } from './address-headers.ts';
import type { AddressOptions } from './client-address.ts';
import { trustWarning } from './node-server.ts';

const ADDRESS_BITS = 128;

interface FrameworkRequest {
  /**
   * The addresses of the client and the proxies. In Express, the client is first, and the peer of
   * the socket is missing. In Fastify, the peer is first, and the client is last.
   */
  readonly ips?: readonly string[];
  readonly socket?: { readonly remoteAddress?: string };
}

interface ExpressRequest extends FrameworkRequest {
  readonly app?: { get?(name: string): unknown };
}

/**
 * Returns the client's address without a port. If a proxy wrote an invalid address, returns the
 * address of the peer.
 */
function withoutPort(client: string, { socket }: FrameworkRequest): string | undefined {
  const [address] = addressesFromRight(client, 'x-forwarded-for');
  return address ? keyOf(address, ADDRESS_BITS).replace(/\/.*/, '') : socket?.remoteAddress;
}

/**
 * Returns a function that returns the client's address as Express determined it, or undefined if
 * Express does not trust the peer of the socket.
 */
export function expressAddress(onWarning: AddressOptions['onWarning']) {
  const advice = 'the number of proxies, such as 1, or their networks';
  const warn = trustWarning("Express's `trust proxy`", advice, onWarning);
  return (request: object): string | undefined => {
    const trusted = (request as ExpressRequest).app?.get?.('trust proxy');
    if (!trusted) return undefined;
    if (trusted === true) warn();
    const { ips = [] } = request as ExpressRequest;
    return ips.length === 0 ? undefined : withoutPort(ips[0], request as ExpressRequest);
  };
}

/**
 * Returns a function that returns the client's address as Fastify determined it, or undefined if
 * Fastify does not trust the peer of the socket.
 */
export function fastifyAddress(onWarning: AddressOptions['onWarning']) {
  // Do not advise a number: recent versions of Fastify then trust no proxy.
  const advice = "the networks of the proxies, such as ['10.0.0.0/8']";
  const warn = trustWarning("Fastify's `trustProxy`", advice, onWarning);
  let isProbed = false;
  return (request: object): string | undefined => {
    const { ips } = request as FrameworkRequest;
    if (ips === undefined || ips.length < 2) return undefined;
    if (!isProbed && trustsEveryProxy(request)) warn();
    isProbed = true;
    return withoutPort(ips.at(-1)!, request as FrameworkRequest);
  };
}

/** A chain of proxies longer than any real one, with addresses reserved for documentation. */
const PROBE = Array.from({ length: 64 }, (_, hop) => `203.0.113.${hop}`);

/**
 * Whether Fastify's `trustProxy` is true. Plugins cannot read the setting, so this evaluates the
 * public `ips` for a chain of made-up proxies: only `true` accepts the whole chain.
 */
function trustsEveryProxy(request: object): boolean {
  const socket = { remoteAddress: '203.0.113.255' };
  const raw = { socket, connection: socket, headers: { 'x-forwarded-for': PROBE.join(', ') } };
  const probe: FrameworkRequest = Object.create(request, { raw: { value: raw } });
  return probe.ips?.length === PROBE.length + 1;
}
