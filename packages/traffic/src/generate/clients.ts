/**
 * Clients of generated traffic: ordinary clients, and special clients such as an abuser. Addresses
 * are from private and documentation networks. Ordinary and special clients share no address.
 */
import type { Random } from './random.ts';

/** Number of addresses in 10.0.0.0/9. The other half of 10.0.0.0/8 is for special clients. */
export const MAX_CLIENTS = 2 ** 23;

const AGENTS = [
  'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/138.0 Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148',
  'okhttp/4.12.0',
];

export interface Person {
  readonly client: string;
  readonly user: string;
  readonly agent: string;
}

/** Permutes the numbers below 2^23: multiplying by an odd factor is invertible modulo 2^23. */
const scattered = (number: number): number =>
  (Math.imul(number, 0x2c1b3c6d) ^ 0x155a4e) & (MAX_CLIENTS - 1);

const quad = (number: number): string =>
  `10.${number >>> 16}.${(number >>> 8) & 255}.${number & 255}`;

/** Returns the IPv4 address of the ordinary client with this number. */
export const ordinaryQuad = (number: number): string => quad(scattered(number));

/** Returns the IPv4 address of the special client with this number. Repeats after 2^23. */
export const specialQuad = (number: number): string =>
  quad(MAX_CLIENTS + scattered(number % MAX_CLIENTS));

const hex = (number: number): string => number.toString(16);

/** Returns the IPv6 address of the ordinary client with this number, each in its own /64. */
export function ordinarySix(number: number): string {
  const place = scattered(number);
  return `2001:db8:${hex(place >>> 16)}:${hex(place & 0xffff)}:${hex(1 + (place & 0xff))}:1:2:3`;
}

/** Returns a random IPv6 address in one of the special client's /64 networks. */
export function rotatedSix(network: number, random: Random): string {
  const groups = Array.from({ length: 4 }, () => hex(random.below(0x10000)));
  return `2001:db8:ffff:${hex(0xa100 + network)}:${groups.join(':')}`;
}

/** Returns the client's user agent and, for one in four clients, a user name. */
export function personOf(number: number, client: string): Person {
  const place = scattered(number);
  const user = place % 4 === 0 ? `user${number}` : '';
  return { client, user, agent: AGENTS[place % AGENTS.length] };
}

/** Returns a random client number. The busiest share s of the clients gets sqrt(s) of the calls. */
export function popular(clients: number, random: Random): number {
  const fraction = random.fraction();
  return Math.floor(clients * fraction * fraction);
}
