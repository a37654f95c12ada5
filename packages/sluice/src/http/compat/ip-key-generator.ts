import { addressKey } from '../client-address.ts';

const WHOLE_ADDRESS = 128;
const DEFAULT_SUBNET = 64;

/**
 * Returns the key of an address for use in `keyGenerator`: IPv6 clients are keyed by network. The
 * default is that of `ipv6Prefix`, so that the key of a client is the same everywhere. `false` is
 * the whole address.
 */
export function ipKeyGenerator(
  address: string,
  ipv6Subnet: number | false = DEFAULT_SUBNET,
): string {
  const whole = addressKey(address, WHOLE_ADDRESS);
  // Not an address, or IPv4, for which the subnet is irrelevant.
  if (whole === undefined || !whole.includes(':')) return whole ?? address;
  return ipv6Subnet === false ? whole : addressKey(address, ipv6Subnet)!;
}
