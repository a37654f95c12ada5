/**
 * Returns the name that identifies a client, as in the service: addresses are normalized, and all
 * addresses of an IPv6 network are one client. Other text, such as a host name, is not changed.
 */
import { addressKey } from 'sluice/http';
import { owned } from '../formats/text.ts';

/** The cache of normalized addresses is cleared at this size. */
const MAX_CACHED = 8192;
/** Requests without a client share this name. */
const NO_CLIENT = '-';
const DOT = 46;
const ZERO = 48;

/**
 * Returns a function from addresses to client names. `ipv6Prefix` is the length in bits of the
 * prefix that identifies an IPv6 network.
 */
export function clientNames(ipv6Prefix?: number): (client: string) => string {
  const names = new Map<string, string>();
  return (client) => {
    if (isPlainQuad(client)) return client;
    const known = names.get(client);
    if (known !== undefined) return known;
    const name = addressKey(client, ipv6Prefix) ?? (owned(client) || NO_CLIENT);
    if (names.size >= MAX_CACHED) names.clear();
    names.set(owned(client), name);
    return name;
  };
}

/** Fast path: returns true for a normalized IPv4 address, which is its own name. */
function isPlainQuad(text: string): boolean {
  let dots = 0;
  let digits = 0;
  let number = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === DOT) {
      if (digits === 0 || number > 255) return false;
      dots++;
      digits = 0;
      number = 0;
      continue;
    }
    const digit = code - ZERO;
    if (digit < 0 || digit > 9 || (digits > 0 && number === 0)) return false;
    number = 10 * number + digit;
    digits++;
  }
  return dots === 3 && digits > 0 && number <= 255;
}
