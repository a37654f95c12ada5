/**
 * Who asks. Addresses are of the networks for private use and for documentation, so that none is
 * anybody's; ordinary clients and special ones never share one.
 */
import type { Random } from './random.ts';

/** As many as there are addresses in 10.0.0.0/9; the other half is for special clients. */
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

/** An odd factor reaches every number below a power of two once, and scatters neighbours. */
const scattered = (number: number): number =>
  (Math.imul(number, 0x2c1b3c6d) ^ 0x155a4e) & (MAX_CLIENTS - 1);

const quad = (number: number): string =>
  `10.${number >>> 16}.${(number >>> 8) & 255}.${number & 255}`;

/** Ordinary client number n, always the same. */
export const ordinaryQuad = (number: number): string => quad(scattered(number));

/** Special client number n; after eight million they come again. */
export const specialQuad = (number: number): string =>
  quad(MAX_CLIENTS + scattered(number % MAX_CLIENTS));

const hex = (number: number): string => number.toString(16);

/** Ordinary client number n in a /64 of its own. */
export function ordinarySix(number: number): string {
  const place = scattered(number);
  return `2001:db8:${hex(place >>> 16)}:${hex(place & 0xffff)}:${hex(1 + (place & 0xff))}:1:2:3`;
}

/** Any address of network n, a /64, of the 256 of one special client. */
export function rotatedSix(network: number, random: Random): string {
  const groups = Array.from({ length: 4 }, () => hex(random.below(0x10000)));
  return `2001:db8:ffff:${hex(0xa100 + network)}:${groups.join(':')}`;
}

/** One in four has signed in. */
export function personOf(number: number, client: string): Person {
  const place = scattered(number);
  const user = place % 4 === 0 ? `user${number}` : '';
  return { client, user, agent: AGENTS[place % AGENTS.length] };
}

/** Of all clients the busiest hundredth has a tenth of the requests, and so on by square roots. */
export function popular(clients: number, random: Random): number {
  const fraction = random.fraction();
  return Math.floor(clients * fraction * fraction);
}
