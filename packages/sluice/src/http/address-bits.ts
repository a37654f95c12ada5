/**
 * Internet addresses by their bits. One address has many spellings, and whoever could choose among
 * them would be as many clients, so text is read once and nothing is ever decided by it.
 */

/**
 * The 128 bits as eight groups of 16. An IPv4 address is the IPv6 address that maps it,
 * `::ffff:1.2.3.4`, so that the two can be no different clients.
 */
export type Address = readonly number[];

const GROUPS = 8;
const GROUP_BITS = 16;

/** The bits in front of an IPv4 address, and how many they are. */
const MAPPED: Address = [0, 0, 0, 0, 0, 0xffff, 0, 0];
export const MAPPED_BITS = 96;
/** Where translators put IPv4 addresses by default (RFC 6052). */
const NAT64: Address = [0x64, 0xff9b, 0, 0, 0, 0, 0, 0];
const NAT64_BITS = 96;
/** Where everyone with an IPv4 address has a network of 80 bits (RFC 3056). */
const SIX_TO_FOUR: Address = [0x2002, 0, 0, 0, 0, 0, 0, 0];
const SIX_TO_FOUR_BITS = 16;
const SIX_TO_FOUR_CLIENT_BITS = 48;

const OCTET = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
/** Four decimal numbers: 010 is 8 to some readers and 10 to others, so it is no address. */
const QUAD = new RegExp(`^${OCTET}\\.${OCTET}\\.${OCTET}\\.${OCTET}$`);
const GROUP = /^[0-9a-f]{1,4}$/i;
const ZONE = /^[0-9a-z._:~-]+$/i;

/** No address is longer, be it with a zone: what is need not be looked at. */
const MAX_CHARACTERS = 128;

/** The last two groups of a dotted quad. */
function quadGroups(text: string): [number, number] | undefined {
  const octets = QUAD.exec(text)?.map(Number);
  return octets && [octets[1] * 256 + octets[2], octets[3] * 256 + octets[4]];
}

/** The groups of one side of `::`; of nothing there are none. */
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

/** Reads the text forms of RFC 4291, and an IPv6 zone, which is cut off: it is the reader's own. */
function readIpv6(text: string): Address | undefined {
  const zone = text.indexOf('%');
  if (zone >= 0 && !ZONE.test(text.slice(zone + 1))) return undefined;
  const sides = (zone < 0 ? text : text.slice(0, zone)).split('::');
  if (sides.length > 2) return undefined;
  const left = groupsOf(sides[0], sides.length === 1);
  const right = sides.length === 1 ? [] : groupsOf(sides[1], true);
  if (!left || !right) return undefined;
  const zeros = GROUPS - left.length - right.length;
  // A `::` stands for at least one group, and without it there is none to stand for.
  if (sides.length === 1 ? zeros !== 0 : zeros < 1) return undefined;
  return [...left, ...new Array<number>(zeros).fill(0), ...right];
}

/** Reads an address without brackets and port, or gives undefined if it is none. */
export function readAddress(text: string | undefined): Address | undefined {
  if (typeof text !== 'string' || text.length > MAX_CHARACTERS) return undefined;
  if (text.includes(':')) return readIpv6(text);
  const quad = quadGroups(text);
  return quad && [...MAPPED.slice(0, 6), ...quad];
}

/** Whether two addresses begin with the same bits. */
export function sharesPrefix(one: Address, other: Address, bits: number): boolean {
  const whole = Math.floor(bits / GROUP_BITS);
  for (let index = 0; index < whole; index++) if (one[index] !== other[index]) return false;
  const rest = bits % GROUP_BITS;
  return rest === 0 || (one[whole] ^ other[whole]) >> (GROUP_BITS - rest) === 0;
}

/** The address with all bits behind the first `bits` made zero. */
export function firstBits(address: Address, bits: number): Address {
  return address.map((group, index) => {
    const kept = Math.min(Math.max(bits - index * GROUP_BITS, 0), GROUP_BITS);
    return group & (0xffff << (GROUP_BITS - kept));
  });
}

/** Writes an IPv6 address as RFC 5952 has it: the first of the longest runs of zeros is `::`. */
function written(address: Address): string {
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

const writtenQuad = ([, , , , , , high, low]: Address): string =>
  `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;

/** The IPv4 address that an address behind the well-known prefix of a NAT64 stands for. */
export function withoutNat64(address: Address): Address {
  if (!sharesPrefix(address, NAT64, NAT64_BITS)) return address;
  return [...MAPPED.slice(0, 6), address[6], address[7]];
}

/**
 * The key of the client that an address belongs to.
 *
 * An IPv4 address is one client, mapped into IPv6 or behind the well-known prefix of a NAT64, too.
 * Of an IPv6 address the first `ipv6Prefix` bits are, because whoever has one has its network. With
 * 6to4 (2002::/16) everyone with an IPv4 address has a /48, so no more than that counts. All else
 * is plain IPv6, `::1.2.3.4` too.
 */
export function keyOf(raw: Address, ipv6Prefix: number): string {
  const address = withoutNat64(raw);
  if (sharesPrefix(address, MAPPED, MAPPED_BITS)) return writtenQuad(address);
  const isSixToFour = sharesPrefix(address, SIX_TO_FOUR, SIX_TO_FOUR_BITS);
  const bits = isSixToFour ? Math.min(ipv6Prefix, SIX_TO_FOUR_CLIENT_BITS) : ipv6Prefix;
  return `${written(firstBits(address, bits))}/${bits}`;
}
