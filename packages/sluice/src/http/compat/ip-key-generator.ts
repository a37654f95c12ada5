import { addressKey } from '../client-address.ts';

const WHOLE_ADDRESS = 128;
const DEFAULT_SUBNET = 64;

/**
 * Returns the key of an address, for use in `keyGenerator`. The key of an IPv6 address is its
 * network. `ipv6Subnet` is the length of the network's prefix, or `false` for the whole address. It
 * has the same default as `ipv6Prefix`, so that a client has the same key everywhere.
 */
export function ipKeyGenerator(
  address: string,
  ipv6Subnet: number | false = DEFAULT_SUBNET,
): string {
  const whole = addressKey(address, WHOLE_ADDRESS);
  // The subnet is irrelevant for an IPv4 address, and for text that is no address.
  if (whole === undefined || !whole.includes(':')) return whole ?? address;
  return ipv6Subnet === false ? whole : addressKey(address, ipv6Subnet)!;
}
