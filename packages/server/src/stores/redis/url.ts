/**
 * Parses Redis URLs. A URL that could be read in two ways is rejected.
 *
 *     redis://[[user]:password@]host[:6379][/database]           rediss:// for TLS
 *     redis+sentinel://[[user]:password@]host[:26379],.../[master[/database]]
 *     redis+cluster://[[user]:password@]host[:6379],...
 *
 * Errors never repeat a part of the URL, because any part may belong to a mistyped password.
 */
import { isIPv6 } from 'node:net';
import { StoreUrlError } from '../store-kind.ts';

export interface Login {
  readonly username?: string;
  readonly password: string;
}

export interface RedisAddress {
  readonly kind: 'redis' | 'redis+sentinel' | 'redis+cluster';
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly login?: Login;
  /** Login of the sentinels themselves. */
  readonly sentinelLogin?: Login;
  /** Name of the master, with Sentinel. */
  readonly master?: string;
  readonly database: number;
  readonly isTls: boolean;
  /** Path of the PEM file with the certificate authority. */
  readonly ca?: string;
}

const DEFAULT_PORT = 6379;
const SENTINEL_PORT = 26_379;
const DEFAULT_MASTER = 'mymaster';
/**
 * A bound for database numbers, higher than in any server. The server itself rejects numbers above
 * its own maximum.
 */
const MAX_DATABASES = 2 ** 31;

/** Query parameters by scheme. */
const PARAMETERS = {
  redis: [],
  rediss: ['ca'],
  'redis+sentinel': ['tls', 'ca', 'sentinelUsername', 'sentinelPassword'],
  'redis+cluster': ['tls', 'ca'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

type Scheme = keyof typeof PARAMETERS;
export const SCHEMES = Object.keys(PARAMETERS) as readonly Scheme[];

const HOST = /^(?:\[([^\]]+)\]|([\w.-]{1,253}))(?::(\d{1,5}))?$/;

const reject = (what: string): never => {
  throw new StoreUrlError(what);
};

/** Parses a URL with one of `SCHEMES`. Throws a `StoreUrlError` if it is invalid. */
export function parseRedisUrl(url: string): RedisAddress {
  const start = url.slice(0, url.indexOf('://') + 3);
  const scheme = start.slice(0, -3) as Scheme;
  if (/[\s\p{Cc}]/u.test(url)) return reject('a URL with a space or control character');
  if (url.includes('#')) return reject('a URL with `#`; write it as %23');
  const { login, rest } = splitLogin(url.slice(start.length));
  const [, hosts, path, search] = /^([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(rest)!;
  if (hosts === '') return reject(`\`${start}\` without a host`);
  const query = readQuery(scheme, search ?? '');
  return {
    kind: scheme === 'rediss' ? 'redis' : scheme,
    hosts: readHosts(scheme, hosts),
    ...(login !== undefined && { login }),
    ...readPath(scheme, path ?? ''),
    ...readTls(scheme, query),
    ...readSentinelLogin(query),
  };
}

/**
 * Splits off the login. The login ends at the last `@`, so no part of a password is read as a host.
 */
function splitLogin(text: string): { readonly login?: Login; readonly rest: string } {
  const at = text.lastIndexOf('@');
  if (at === -1) return { rest: text };
  const written = text.slice(0, at);
  if (/[@/?]/.test(written)) {
    return reject('a URL with `@`, `/` or `?` before its last `@`; write them as %40, %2F, %3F');
  }
  const colon = written.indexOf(':');
  if (colon === -1) return reject('a login without `:`; write user:password@ or :password@');
  const username = decode(written.slice(0, colon));
  const password = decode(written.slice(colon + 1));
  if (password === '') return reject('a login without a password');
  return {
    login: { ...(username !== '' && { username }), password },
    rest: text.slice(at + 1),
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return reject('a `%` that is not followed by two hexadecimal digits; write it as %25');
  }
}

function readHosts(scheme: Scheme, text: string): RedisAddress['hosts'] {
  const defaultPort = scheme === 'redis+sentinel' ? SENTINEL_PORT : DEFAULT_PORT;
  const hosts = text.split(',').map((each) => readHost(each, defaultPort));
  if (hosts.length > 1 && (scheme === 'redis' || scheme === 'rediss')) {
    return reject('several hosts; use redis+sentinel:// or redis+cluster://');
  }
  return hosts;
}

function readHost(text: string, defaultPort: number): RedisAddress['hosts'][number] {
  const [, v6, name, written] = HOST.exec(text) ?? [];
  const port = written === undefined ? defaultPort : Number(written);
  const isHost = v6 === undefined ? name !== undefined : isIPv6(v6);
  if (!isHost || port < 1 || port > 65_535) {
    return reject('a host that is not a name or address, with a port from 1 to 65535 or none');
  }
  return { host: v6 ?? name!, port };
}

function readPath(scheme: Scheme, path: string): Pick<RedisAddress, 'master' | 'database'> {
  const parts = path === '' ? [] : path.split('/').map(decode);
  if (scheme === 'redis+cluster') {
    return parts.length === 0 ? { database: 0 } : reject('a path; a Cluster has no databases');
  }
  if (scheme !== 'redis+sentinel') {
    const [database, ...more] = parts;
    return more.length > 0 ? reject('more than a database in the path') : readDatabase(database);
  }
  const [master = DEFAULT_MASTER, database, ...more] = parts;
  if (more.length > 0) return reject('more than a master and a database in the path');
  if (master === '') return reject('an empty name of the master');
  if (/^\d+$/.test(master)) {
    return reject(`a number as the name of the master; write /${DEFAULT_MASTER}/1 for a database`);
  }
  return { master, ...readDatabase(database) };
}

function readDatabase(text: string | undefined): { readonly database: number } {
  if (text === undefined) return { database: 0 };
  const database = /^(?:0|[1-9]\d{0,9})$/.test(text) ? Number(text) : MAX_DATABASES;
  if (database < MAX_DATABASES) return { database };
  return reject(`a database that is not an integer from 0 to ${MAX_DATABASES - 1}`);
}

function readQuery(scheme: Scheme, search: string): ReadonlyMap<string, string> {
  const known: readonly string[] = PARAMETERS[scheme];
  const query = new Map<string, string>();
  for (const part of search === '' ? [] : search.split('&')) {
    const [name, ...value] = part.split('=');
    if (name === 'tls' && (scheme === 'redis' || scheme === 'rediss')) {
      return reject('the query parameter `tls`; use rediss:// for TLS');
    }
    if (name === 'ca' && scheme === 'redis') {
      return reject('the query parameter `ca` without TLS; use rediss://');
    }
    if (!known.includes(name)) {
      const list = known.length === 0 ? 'it takes none' : `it takes ${known.join(', ')}`;
      return reject(`an unknown query parameter; ${list}`);
    }
    if (query.has(name)) return reject(`the query parameter \`${name}\` twice`);
    const text = decode(value.join('='));
    if (text === '') return reject(`the query parameter \`${name}\` without a value`);
    query.set(name, text);
  }
  return query;
}

function readTls(
  scheme: Scheme,
  query: ReadonlyMap<string, string>,
): Pick<RedisAddress, 'isTls' | 'ca'> {
  const tls = query.get('tls');
  const ca = query.get('ca');
  if (tls !== undefined && tls !== 'true' && tls !== 'false') {
    return reject('the query parameter `tls` with a value other than true or false');
  }
  if (tls === 'false' && ca !== undefined) return reject('the query parameter `ca` without TLS');
  const isTls = scheme === 'rediss' || tls === 'true' || ca !== undefined;
  return { isTls, ...(ca !== undefined && { ca }) };
}

function readSentinelLogin(
  query: ReadonlyMap<string, string>,
): Pick<RedisAddress, 'sentinelLogin'> {
  const username = query.get('sentinelUsername');
  const password = query.get('sentinelPassword');
  if (password !== undefined) {
    return { sentinelLogin: { ...(username !== undefined && { username }), password } };
  }
  return username === undefined ? {} : reject('`sentinelUsername` without `sentinelPassword`');
}

/** Returns a valid URL with user names and passwords hidden. */
export const redactRedisUrl = (url: string): string =>
  url.replace(/\/\/.*@/, '//***@').replace(/(sentinel(?:Username|Password)=)[^&]*/g, '$1***');
