/** Networks in CIDR notation, for `trustProxy`, `allow` and `deny`. */
import { expected, SluiceError } from '../errors.ts';
import { type Address, firstBits, MAPPED_BITS, readAddress, sharesPrefix } from './address-bits.ts';

export interface Network {
  readonly start: Address;
  /** Length of the prefix in bits. */
  readonly bits: number;
}

const NAMED: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/** The networks of all public unicast addresses: IPv4, IPv4 behind NAT64, and IPv6. */
const PUBLIC_ADDRESSES = [
  ['0.0.0.0/1', '128.0.0.0/2', '192.0.0.0/3'],
  ['64:ff9b::/97', '64:ff9b::8000:0/98', '64:ff9b::c000:0/99'],
  ['2000::/3'],
];

const LENGTH = /^(?:0|[1-9][0-9]{0,2})$/;

/** Parses a network such as `10.0.0.0/8`. An address alone is a network of one address. */
function readNetwork(text: unknown, option: string): Network {
  const what = `${option} to have networks such as '10.0.0.0/8', '::1', 'loopback' or 'private'`;
  const [words, length, ...more] = typeof text === 'string' ? text.split('/') : [''];
  const start = words.includes('%') ? undefined : readAddress(words);
  const isQuad = !words.includes(':');
  const most = isQuad ? 32 : 128;
  const written = length === undefined ? most : Number(length);
  const isLength = length === undefined || (LENGTH.test(length) && written <= most);
  if (!start || !isLength || more.length > 0) throw expected('ERR_INVALID_OPTION', what, text);
  const bits = isQuad ? written + MAPPED_BITS : written;
  // Text such as `10.1.2.3/8` may mean one address or the whole network, so it is rejected.
  if (!sharesPrefix(start, firstBits(start, bits), 128)) {
    throw expected(
      'ERR_INVALID_OPTION',
      `${option} to have networks written with their first address, as 10.0.0.0/8`,
      text,
    );
  }
  return { start, bits };
}

/**
 * Whether an address is in one of the networks. Compares bits without translating NAT64, so that
 * the NAT64 address of 10.0.0.1 is not trusted as 10.0.0.1.
 */
export function contains(networks: readonly Network[], address: Address): boolean {
  return networks.some(({ start, bits }) => sharesPrefix(start, address, bits));
}

/** Returns the start of the second half of a network. */
const middle = (start: Address, bits: number): Address =>
  start.map((group, index) => (index === bits >> 4 ? group | (0x8000 >> (bits & 15)) : group));

/** Whether the networks together contain every address of another network. */
function containsNetwork(networks: readonly Network[], { start, bits }: Network): boolean {
  const holds = (each: Network) => each.bits <= bits && sharesPrefix(each.start, start, each.bits);
  if (networks.some(holds)) return true;
  const inside = networks.filter((each) => sharesPrefix(each.start, start, bits));
  if (inside.length === 0) return false;
  const halves = [start, middle(start, bits)].map((half) => ({ start: half, bits: bits + 1 }));
  return halves.every((half) => containsNetwork(inside, half));
}

/** Parses a list of networks and of the names in `NAMED`. */
export function readNetworks(texts: readonly unknown[], option = 'networks'): readonly Network[] {
  return texts.flatMap((text) => {
    const named = typeof text === 'string' && Object.hasOwn(NAMED, text) ? NAMED[text] : [text];
    return named.map((each) => readNetwork(each, option));
  });
}

/**
 * Parses the networks of trusted proxies. Rejects lists that contain every public IPv4, NAT64 or
 * IPv6 address.
 */
export function trustedNetworks(texts: readonly unknown[]): readonly Network[] {
  const networks = readNetworks(texts, 'trustProxy');
  for (const addresses of PUBLIC_ADDRESSES) {
    const parts = readNetworks(addresses, 'trustProxy');
    if (!parts.every((part) => containsNetwork(networks, part))) continue;
    throw new SluiceError(
      'ERR_INVALID_OPTION',
      `Expected trustProxy to have the networks of your proxies, got ${texts.join(', ')}, which ` +
        'contains every public IPv4 or IPv6 address, so that any client could forge its address. ' +
        'If the networks are unknown, set the number of proxies, such as trustProxy: 1.',
    );
  }
  return networks;
}
