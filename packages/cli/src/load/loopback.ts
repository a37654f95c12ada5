/** Ensures that generated load is sent only to this machine. */
import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { Failure, visible } from '../output.ts';

const LOCAL_NAME = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
const LOCAL_ADDRESS = /^(?:127\.|::1$)/;

/** Parses a loopback URL. Throws a `Failure` for any other text. */
export function loopbackUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:') {
    throw new Failure(
      `Expected --against to be a URL such as http://127.0.0.1:8080/, got \`${visible(text)}\``,
    );
  }
  // `URL` has normalized other notations, such as `http://2130706433/` for 127.0.0.1.
  if (LOCAL_NAME.test(url.hostname)) return url;
  throw new Failure(
    `Expected --against to be a local address, 127.0.0.1, [::1] or localhost, got ` +
      `\`${visible(url.hostname)}\``,
  );
}

type LookupCallback = (
  error: Error | null,
  address: string | LookupAddress[],
  family?: number,
) => void;

/**
 * Resolves a host name like `lookup` of `node:dns`, but only to loopback addresses: the hosts file
 * may map `localhost` to another address.
 */
export function loopbackLookup(
  hostname: string,
  options: LookupOptions,
  callback: LookupCallback,
): void {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const local = (addresses ?? []).filter(({ address }) => LOCAL_ADDRESS.test(address));
    if (error || local.length === 0) {
      return callback(error ?? new Error(`${hostname} is not a loopback address`), []);
    }
    if (options.all) callback(null, local);
    else callback(null, local[0].address, local[0].family);
  });
}
