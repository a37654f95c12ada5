/**
 * Schemas of setting values. They parse text (from flags and environment variables) and values of
 * the configuration file.
 */
import { DURATION, durationMs } from 'sluice/engine';
import { clientAddress } from 'sluice/http';
import { z } from 'zod';
import { expectationOf, expecting, withParser } from './expectation.ts';
import { invalidStoreReason, STORE_PATTERN, STORE_SCHEMES } from './stores/index.ts';

/** An address to listen on. */
export interface Listen {
  readonly host: string;
  readonly port: number;
}

export const text = z.string().min(1);
export const path = expecting('the path of a file', z.string().min(1));

export function integer(min: number, max: number) {
  const number = z.int().min(min).max(max);
  const digits = z.string().regex(/^\d{1,15}$/);
  const { expected } = expectationOf(number);
  return expecting(expected, z.union([number, digits.transform(Number).pipe(number)]));
}

const DURATION_OR_DIGITS = new RegExp(`${DURATION.source}|^\\d{1,15}$`);
const millisecondsOf = (written: string): number =>
  /\d$/.test(written) ? Number(written) : durationMs(written);
const milliseconds = z.int().min(1).max(3_600_000);

/** Milliseconds, from `15`, `15ms`, `10s` or `1m`. */
export const duration = expecting(
  'a duration from 1ms to 60m, such as 15ms or 10s',
  z.union([
    milliseconds,
    z.string().regex(DURATION_OR_DIGITS).transform(millisecondsOf).pipe(milliseconds),
  ]),
);

const LISTEN = /^(?:(\[[\da-fA-F:.]+\]|[\w.-]*):)?(\d{1,5})$/;
const port = z.int().min(0).max(65_535);

/** `127.0.0.1:8080`, `[::1]:8080`, `:8080` for all addresses, or `8080` for 127.0.0.1. */
export const listen = expecting(
  'an address such as 127.0.0.1:8080, [::1]:8080 or :8080',
  withParser(z.union([port, z.string().regex(LISTEN)]), (given): Listen | undefined => {
    const [written, host, digits] = LISTEN.exec(String(given))!;
    if (Number(digits) > 65_535) return undefined;
    const name = host?.replace(/^\[|\]$/g, '');
    return { host: written.includes(':') ? name || '::' : '127.0.0.1', port: Number(digits) };
  }),
);

/** Returns an address to listen on, or undefined if it is not valid. */
export const readListen = (given: unknown): Listen | undefined => listen.safeParse(given).data;

export const listenText = ({ host, port }: Listen): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;

/** Whether only clients on this machine can connect. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);

/** A URL for a link, with `http:` or `https:`. A `javascript:` URL would run code in the page. */
export const webUrl = expecting(
  'an address such as https://grafana.example/d/sluice',
  z
    .string()
    .max(2048)
    .regex(/^https?:\/\/[^\s\p{Cc}]+$/u)
    .refine((url) => URL.canParse(url)),
);

const fraction = z.number().gt(0).max(1);
export const share = expecting(
  'a number above 0 and at most 1',
  z.union([fraction, text.transform(Number).pipe(fraction)]),
);

const texts = z.array(text).min(1);
const split = (list: string): string[] => list.split(',').map((each) => each.trim());

/** A list of paths, or paths separated by commas. */
export const paths = expecting(
  'paths of files or folders',
  z.union([texts, text.transform(split).pipe(texts)]),
);

const proxyCount = integer(1, 32);

/** A number of proxies, or the networks of the proxies as a list or separated by commas. */
export const proxies = expecting(
  'a number of proxies from 1 to 32, or networks such as 10.0.0.0/8, but not the whole internet',
  z.union([z.int().min(1).max(32), withParser(text, proxiesOf), withParser(texts, networksOf)]),
);

function proxiesOf(written: string): number | readonly string[] | undefined {
  return proxyCount.safeParse(written).data ?? networksOf(split(written));
}

/**
 * Returns the networks; undefined if the library rejects one, because it is invalid or the whole
 * internet.
 */
function networksOf(networks: readonly string[]): readonly string[] | undefined {
  try {
    clientAddress({ trustProxy: networks });
    return networks;
  } catch {
    return undefined;
  }
}

const [EMBEDDED, ...URLS] = STORE_SCHEMES;
export const storeUrl = expecting(
  `'${EMBEDDED}' or an address that begins with ${URLS.slice(0, -1).join(', ')} or ${URLS.at(-1)}`,
  z
    .string()
    .regex(STORE_PATTERN)
    .refine((url) => invalidStoreReason(url) === undefined),
);

/**
 * Returns the part after "got " of the message about an invalid store URL. Contains no part of the
 * URL that may be a password.
 */
export const storeHint = (given: unknown): string =>
  typeof given === 'string' ? (invalidStoreReason(given) ?? 'a store') : 'something else';

const MIN_TOKEN_LENGTH = 16;

/**
 * The admin token. It has no control characters, because a header cannot contain them. It has no
 * spaces at either end, because parsers of headers and files remove them.
 */
export const token = expecting(
  `at least ${MIN_TOKEN_LENGTH} visible characters`,
  z
    .string()
    .min(MIN_TOKEN_LENGTH)
    .regex(/^[^\s\p{Cc}](?:\P{Cc}*[^\s\p{Cc}])?$/u),
);

/**
 * Returns the part after "got " of the message about an invalid token. Shows only the length of the
 * token.
 */
export function tokenHint(given: unknown): string {
  if (typeof given !== 'string') return 'something else';
  if (given.length >= MIN_TOKEN_LENGTH) return `${given.length}, not all of them visible`;
  return given.length === 1 ? '1 character' : `${given.length} characters`;
}
