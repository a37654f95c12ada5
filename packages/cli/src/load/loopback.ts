/** Load is for services of one's own, on this machine: any other address is refused. */
import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { Failure, visible } from '../output.ts';

const LOCAL_NAME = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
const LOCAL_ADDRESS = /^(?:127\.|::1$)/;

/** A URL of this machine; throws a `Failure` for all others. */
export function loopbackUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:') {
    throw new Failure(
      `Expected --against to be a URL such as http://127.0.0.1:8080/, got \`${visible(text)}\``,
    );
  }
  // Other spellings of an address, as one number for example, have become the usual one by now.
  if (LOCAL_NAME.test(url.hostname)) return url;
  throw new Failure(
    `Expected --against to be an address of this machine, 127.0.0.1, [::1] or localhost, got ` +
      `\`${visible(url.hostname)}\`. Load is sent to nobody else.`,
  );
}

type Found = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/** `localhost` is a name like any other, and may have been given another address. */
export function loopbackLookup(hostname: string, options: LookupOptions, found: Found): void {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const local = (addresses ?? []).filter(({ address }) => LOCAL_ADDRESS.test(address));
    if (error || local.length === 0) {
      return found(error ?? new Error(`${hostname} is not this machine`), []);
    }
    if (options.all) found(null, local);
    else found(null, local[0].address, local[0].family);
  });
}
