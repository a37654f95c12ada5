/**
 * Clients of generated traffic: ordinary clients, and special clients such as an abuser. All
 * addresses are in private or documentation networks. No special client has the address of an
 * ordinary client.
 */
import type { Random } from './random.ts';

/**
 * Number of addresses in 10.0.0.0/9, for ordinary clients. Special clients have addresses in
 * 10.128.0.0/9.
 */
export const MAX_CLIENTS = 2 ** 23;

const AGENTS = [
  'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/138.0 Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148',
  'okhttp/4.12.0',
];

export interface Client {
  readonly client: string;
  readonly user: string;
  readonly agent: string;
}

/** Permutes the numbers below 2^23: multiplying by an odd factor is invertible modulo 2^23. */
const scatter = (number: number): number =>
  (Math.imul(number, 0x2c1b3c6d) ^ 0x155a4e) & (MAX_CLIENTS - 1);

const ipv4 = (number: number): string =>
  `10.${number >>> 16}.${(number >>> 8) & 255}.${number & 255}`;

/** Returns the IPv4 address of the ordinary client with this number. */
export const ordinaryIpv4 = (number: number): string => ipv4(scatter(number));

/** Returns the IPv4 address of the special client with this number. Addresses repeat after 2^23. */
export const specialIpv4 = (number: number): string =>
  ipv4(MAX_CLIENTS + scatter(number % MAX_CLIENTS));

const hex = (number: number): string => number.toString(16);

/**
 * Returns the IPv6 address of the ordinary client with this number. Each client has its own /64.
 */
export function ordinaryIpv6(number: number): string {
  const place = scatter(number);
  return `2001:db8:${hex(place >>> 16)}:${hex(place & 0xffff)}:${hex(1 + (place & 0xff))}:1:2:3`;
}

/**
 * Returns a random IPv6 address in the /64 with this number. These networks belong to a single
 * special client.
 */
export function randomIpv6(network: number, random: Random): string {
  const groups = Array.from({ length: 4 }, () => hex(random.below(0x10000)));
  return `2001:db8:ffff:${hex(0xa100 + network)}:${groups.join(':')}`;
}

/** Returns a client with its user agent. One in four clients has a user name. */
export function clientOf(number: number, client: string): Client {
  const place = scatter(number);
  const user = place % 4 === 0 ? `user${number}` : '';
  return { client, user, agent: AGENTS[place % AGENTS.length] };
}

/**
 * Returns a random client number from 0 to `clients` - 1. Low numbers are more frequent: 1 % of the
 * clients send 10 % of the requests, and 25 % of the clients send half of them.
 */
export function randomClientNumber(clients: number, random: Random): number {
  const fraction = random.fraction();
  return Math.floor(clients * fraction * fraction);
}
