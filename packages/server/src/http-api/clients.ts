/**
 * Identifies clients by their address. If the memory for idempotency ids and used receipts runs
 * out, the store evicts records of the client that uses the most memory. So one client cannot evict
 * the records of others.
 */
import { createHash } from 'node:crypto';
import { clientAddress } from 'sluice/http';
import type { RequestContext } from '../http/request-context.ts';
import type { Settings } from '../settings.ts';

/** Returns a short text that identifies the client of a request. */
export type ClientOf = (context: RequestContext) => string;

const HASH_LENGTH = 8;
const MAX_CACHED = 4096;
/**
 * Identifies the client of requests whose address is unknown, for example if the connection is
 * already closed.
 */
const NO_ADDRESS = 'none';

type AddressSettings = Pick<Settings, 'trustProxy' | 'forwardedHeader' | 'ipv6Prefix'>;

export function clientsByAddress(settings: AddressSettings): ClientOf {
  const { trustProxy, forwardedHeader, ipv6Prefix } = settings;
  const addressOf = clientAddress({
    ...{ forwardedHeader, ipv6Prefix },
    ...(trustProxy !== undefined && { trustProxy }),
    // Warnings are ignored, because `TokenAttempts` and forward-auth log the same warnings.
    onWarning: () => {},
  });
  const hashes = new Map<string, string>();
  return (context) => {
    const { remoteAddress } = context.request.socket;
    if (remoteAddress === undefined) return NO_ADDRESS;
    const address = addressOf(remoteAddress, (name) => context.header(name));
    let hash = hashes.get(address);
    if (hash === undefined) {
      // Receipts contain the client, and must not reveal its address.
      hash = createHash('sha256').update(address).digest('base64url').slice(0, HASH_LENGTH);
      if (hashes.size >= MAX_CACHED) hashes.clear();
      hashes.set(address, hash);
    }
    return hash;
  };
}
