/**
 * The client's address as a framework has found it. Who has told Express or Fastify which proxies
 * to trust need not say so twice.
 */
import { keyOf } from './address-bits.ts';
import { addressesFromRight } from './address-headers.ts';
import type { AddressOptions } from './client-address.ts';
import { trustWarning } from './node-server.ts';

/** All bits of an address. */
const WHOLE = 128;

interface Connected {
  readonly ip?: string;
  readonly socket?: { readonly remoteAddress?: string };
}

/** The parts of a request of Express that tell its setting `trust proxy`. */
interface ExpressRequest extends Connected {
  readonly app?: { get?(name: string): unknown };
}

/** Fastify lists addresses only if it trusts somebody. */
interface FastifyRequest extends Connected {
  readonly ips?: readonly string[];
  readonly server?: object;
}

/**
 * What a framework has found in a header: perhaps with a port, or no address at all. Then it is
 * that of the proxy which wrote it.
 */
function readable({ ip, socket }: Connected): string | undefined {
  const [address] = addressesFromRight(ip ?? '', 'x-forwarded-for');
  return address ? keyOf(address, WHOLE).replace(/\/.*/, '') : socket?.remoteAddress;
}

export function expressAddress(onWarning: AddressOptions['onWarning']) {
  const warn = trustWarning("Express's `trust proxy`", onWarning);
  return (request: object): string | undefined => {
    const trusts = (request as ExpressRequest).app?.get?.('trust proxy');
    if (!trusts) return undefined;
    if (trusts === true) warn();
    return readable(request as ExpressRequest);
  };
}

export function fastifyAddress(onWarning: AddressOptions['onWarning']) {
  const warn = trustWarning("Fastify's `trustProxy`", onWarning);
  return (request: object): string | undefined => {
    const { ips, server } = request as FastifyRequest;
    if (ips === undefined) return undefined;
    if (settingsOf(server ?? null)?.trustProxy === true) warn();
    return readable(request as FastifyRequest);
  };
}

/** Whether an app of Fastify believes any proxy; where that cannot be told, it may. */
export function mayTrustProxies(app: object): boolean {
  const settings = settingsOf(app);
  return settings === undefined || Boolean(settings.trustProxy);
}

/** What Fastify was told when it was built; it keeps that under a symbol of its own. */
function settingsOf(app: object | null): { readonly trustProxy?: unknown } | undefined {
  for (let each = app; each !== null; each = Object.getPrototypeOf(each)) {
    const symbols = Object.getOwnPropertySymbols(each);
    const found = symbols.find(({ description }) => description === 'fastify.options');
    if (found !== undefined) return (each as Record<symbol, object>)[found];
  }
  return undefined;
}
