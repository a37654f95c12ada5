/**
 * Who a request of a log comes from, as the service would count it: an address by its bits, so that
 * its spellings are one client and the addresses of an IPv6 network are, too. Where a log has
 * something else in its place, such as a host's name, that is the client.
 */
import { addressKey } from 'sluice/http';
import { owned } from '../formats/text.ts';

/** So many addresses are remembered that are not plain; then it begins anew. */
const MAX_CACHED = 8192;
/** Those of whom a log says nothing are one. */
const NOBODY = '-';
const DOT = 46;
const ZERO = 48;

/** Builds a reader of clients' names. `ipv6Prefix` is how many bits of an IPv6 address count. */
export function clientNames(ipv6Prefix?: number): (client: string) => string {
  const names = new Map<string, string>();
  return (client) => {
    if (isPlainQuad(client)) return client;
    const known = names.get(client);
    if (known !== undefined) return known;
    const name = addressKey(client, ipv6Prefix) ?? (owned(client) || NOBODY);
    if (names.size >= MAX_CACHED) names.clear();
    names.set(owned(client), name);
    return name;
  };
}

/** Whether it is four numbers as everybody writes them, which most are: then it is its own key. */
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
