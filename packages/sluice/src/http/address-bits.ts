/**
 * IP addresses as bits. An address can be written in many ways. If addresses were compared as text,
 * one client could count as several.
 */

/**
 * 128 bits as eight groups of 16. An IPv4 address is stored as its IPv4-mapped IPv6 address,
 * `::ffff:1.2.3.4`, so that both forms are the same client.
 */
export type Address = readonly number[];

const GROUPS = 8;
const GROUP_BITS = 16;

/** The prefix of IPv4-mapped addresses. */
const MAPPED: Address = [0, 0, 0, 0, 0, 0xffff, 0, 0];
export const MAPPED_BITS = 96;
/** The well-known prefix of NAT64 (RFC 6052). */
const NAT64: Address = [0x64, 0xff9b, 0, 0, 0, 0, 0, 0];
const NAT64_BITS = 96;
/** The prefix of 6to4, where each IPv4 address has a /48 (RFC 3056). */
const SIX_TO_FOUR: Address = [0x2002, 0, 0, 0, 0, 0, 0, 0];
const SIX_TO_FOUR_BITS = 16;
const SIX_TO_FOUR_CLIENT_BITS = 48;

const OCTET = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
/** A dotted quad. Leading zeros are not allowed, because some parsers read them as octal. */
const QUAD = new RegExp(`^${OCTET}\\.${OCTET}\\.${OCTET}\\.${OCTET}$`);
const GROUP = /^[0-9a-f]{1,4}$/i;
const ZONE = /^[0-9a-z._:~-]+$/i;

/** The longest text that is parsed. No valid address, with or without a zone, is longer. */
const MAX_CHARACTERS = 128;

/** Returns the last two groups of the mapped address of a dotted quad. */
function quadGroups(text: string): [number, number] | undefined {
  const octets = QUAD.exec(text)?.map(Number);
  return octets && [octets[1] * 256 + octets[2], octets[3] * 256 + octets[4]];
}

/** Returns the groups on one side of `::`, or undefined if the text is invalid. */
function groupsOf(text: string, isLast: boolean): number[] | undefined {
  if (text === '') return [];
  const groups: number[] = [];
  const words = text.split(':');
  for (const [index, word] of words.entries()) {
    const quad = isLast && index === words.length - 1 ? quadGroups(word) : undefined;
    if (quad) groups.push(...quad);
    else if (GROUP.test(word)) groups.push(Number.parseInt(word, 16));
    else return undefined;
  }
  return groups;
}

/** Parses the forms of RFC 4291. Removes a zone, which has a meaning on the local host only. */
function readIpv6(text: string): Address | undefined {
  const zone = text.indexOf('%');
  if (zone >= 0 && !ZONE.test(text.slice(zone + 1))) return undefined;
  const sides = (zone < 0 ? text : text.slice(0, zone)).split('::');
  if (sides.length > 2) return undefined;
  const left = groupsOf(sides[0], sides.length === 1);
  const right = sides.length === 1 ? [] : groupsOf(sides[1], true);
  if (!left || !right) return undefined;
  const zeros = GROUPS - left.length - right.length;
  // `::` stands for at least one group.
  if (sides.length === 1 ? zeros !== 0 : zeros < 1) return undefined;
  return [...left, ...new Array<number>(zeros).fill(0), ...right];
}

/** Parses an address without brackets and port. Returns undefined if it is invalid. */
export function readAddress(text: string | undefined): Address | undefined {
  if (typeof text !== 'string' || text.length > MAX_CHARACTERS) return undefined;
  if (text.includes(':')) return readIpv6(text);
  const quad = quadGroups(text);
  return quad && [...MAPPED.slice(0, 6), ...quad];
}

/** Whether the first `bits` bits of two addresses are equal. */
export function sharesPrefix(one: Address, other: Address, bits: number): boolean {
  const whole = Math.floor(bits / GROUP_BITS);
  for (let index = 0; index < whole; index++) if (one[index] !== other[index]) return false;
  const rest = bits % GROUP_BITS;
  return rest === 0 || (one[whole] ^ other[whole]) >> (GROUP_BITS - rest) === 0;
}

/** Returns the address with all bits after the first `bits` set to zero. */
export function firstBits(address: Address, bits: number): Address {
  return address.map((group, index) => {
    const kept = Math.min(Math.max(bits - index * GROUP_BITS, 0), GROUP_BITS);
    return group & (0xffff << (GROUP_BITS - kept));
  });
}

/** Formats an IPv6 address as in RFC 5952: the first of the longest runs of zeros is `::`. */
function ipv6Text(address: Address): string {
  let [from, length] = [0, 1];
  for (let start = 0; start < GROUPS; start++) {
    let end = start;
    while (end < GROUPS && address[end] === 0) end++;
    if (end - start > length) [from, length] = [start, end - start];
  }
  const hex = address.map((group) => group.toString(16));
  if (length === 1) return hex.join(':');
  return `${hex.slice(0, from).join(':')}::${hex.slice(from + length).join(':')}`;
}

const ipv4Text = ([, , , , , , high, low]: Address): string =>
  `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;

/** Returns the IPv4 address that a NAT64 address stands for. Returns other addresses unchanged. */
export function withoutNat64(address: Address): Address {
  if (!sharesPrefix(address, NAT64, NAT64_BITS)) return address;
  return [...MAPPED.slice(0, 6), address[6], address[7]];
}

/**
 * Returns the key of the client with an address.
 *
 * An IPv4 address is one client, also if it is IPv4-mapped or behind NAT64. IPv6 clients usually
 * have a whole network, so the key is the first `ipv6Prefix` bits. In 6to4 (2002::/16), each IPv4
 * address has a /48, so at most 48 bits are used. All other addresses, including `::1.2.3.4`, are
 * plain IPv6.
 */
export function keyOf(raw: Address, ipv6Prefix: number): string {
  const address = withoutNat64(raw);
  if (sharesPrefix(address, MAPPED, MAPPED_BITS)) return ipv4Text(address);
  const isSixToFour = sharesPrefix(address, SIX_TO_FOUR, SIX_TO_FOUR_BITS);
  const bits = isSixToFour ? Math.min(ipv6Prefix, SIX_TO_FOUR_CLIENT_BITS) : ipv6Prefix;
  return `${ipv6Text(firstBits(address, bits))}/${bits}`;
}
