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
  readonly ip?: string;
  readonly socket?: { readonly remoteAddress?: string };
}

interface ExpressRequest extends FrameworkRequest {
  readonly app?: { get?(name: string): unknown };
}

interface FastifyRequest extends FrameworkRequest {
  /** Undefined if Fastify trusts no proxy. */
  readonly ips?: readonly string[];
}

/**
 * Returns the framework's address without a port. If a proxy wrote an invalid address, returns the
 * address of that proxy.
 */
function withoutPort({ ip, socket }: FrameworkRequest): string | undefined {
  const [address] = addressesFromRight(ip ?? '', 'x-forwarded-for');
  return address ? keyOf(address, ADDRESS_BITS).replace(/\/.*/, '') : socket?.remoteAddress;
}

export function expressAddress(onWarning: AddressOptions['onWarning']) {
  const warn = trustWarning("Express's `trust proxy`", onWarning);
  return (request: object): string | undefined => {
    const trusted = (request as ExpressRequest).app?.get?.('trust proxy');
    if (!trusted) return undefined;
    if (trusted === true) warn();
    return withoutPort(request as ExpressRequest);
  };
}

export function fastifyAddress(onWarning: AddressOptions['onWarning']) {
  const warn = trustWarning("Fastify's `trustProxy`", onWarning);
  let isProbed = false;
  return (request: object): string | undefined => {
    if ((request as FastifyRequest).ips === undefined) return undefined;
    if (!isProbed && trustsEveryProxy(request)) warn();
    isProbed = true;
    return withoutPort(request as FastifyRequest);
  };
}

/** More hops than any deployment has, from addresses reserved for documentation. */
const PROBE = Array.from({ length: 64 }, (_, hop) => `203.0.113.${hop}`);

/**
 * Whether Fastify's `trustProxy` is true. Plugins cannot read the setting, so this evaluates the
 * public `ips` for a chain of made-up proxies: only `true` accepts the whole chain.
 */
function trustsEveryProxy(request: object): boolean {
  const socket = { remoteAddress: '203.0.113.255' };
  const raw = { socket, connection: socket, headers: { 'x-forwarded-for': PROBE.join(', ') } };
  const probe: FastifyRequest = Object.create(request, { raw: { value: raw } });
  return probe.ips?.length === PROBE.length + 1;
}
