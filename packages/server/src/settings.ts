/**
 * How the service runs. Each setting is named once, here: its flag, its variable and its key in the
 * file are made of its name. Flags go before the environment, and that before the file.
 */
import { readFileSync } from 'node:fs';
import type { FailureAction } from 'sluice';
import type { ForwardedHeader, HeaderForm } from 'sluice/http';
import { PROXY_NAMES, type ProxyName } from './proxy-profiles.ts';
import {
  duration,
  files,
  integer,
  isLoopback,
  type Listen,
  listenText,
  oneOf,
  proxies,
  readListen,
  share,
  store,
  storeHint,
  text,
  token,
  tokenHint,
} from './setting-values.ts';
import { DEFAULT_STORE, storeKind } from './stores/index.ts';

export { isLoopback, type Listen, listenText, PROXY_NAMES, readListen };

export interface Settings {
  readonly config: readonly string[];
  readonly listen: Listen;
  readonly grpc: Listen | undefined;
  readonly store: string;
  readonly prefix: string;
  readonly maxKeys: number;
  readonly deadlineMs: number;
  readonly onFailure: FailureAction;
  readonly localShare: number;
  readonly adminToken: string | undefined;
  readonly adminTokenFile: string | undefined;
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly proxy: ProxyName;
  readonly trustProxy: number | readonly string[] | undefined;
  readonly forwardedHeader: ForwardedHeader;
  readonly ipv6Prefix: number;
  readonly headers: HeaderForm;
  readonly workers: number;
  readonly overridesFile: string | undefined;
  readonly logLevel: LogLevel;
  readonly logDenials: number;
  readonly drainMs: number;
}

export type LogLevel = 'silent' | 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace';

export interface Setting<T> {
  /** For `--help` and the reference: a sentence, with unit and default. */
  readonly help: string;
  /** What a value is called in help: `--listen <address>`. */
  readonly value: string;
  readonly fallback: T;
  /** What is right, for messages: "Expected `listen` to be ...". */
  readonly expected: string;
  /** From text (flags and variables) or a plain value (the file); undefined if it is not right. */
  read(given: unknown): T | undefined;
  /** For what is never shown: what may be told of a value that is not right. */
  readonly secret?: (given: unknown) => string;
  /** Not in the file, because it says which file. */
  readonly notInFile?: true;
}

const ADDRESS = 'an address such as 127.0.0.1:8080, [::1]:8080 or :8080';
const TOKEN = 'at least 16 visible characters';
const STORES =
  "'memory' or an address that begins with redis://, rediss://, redis+sentinel:// or " +
  'redis+cluster://';
const MAX_WORKERS = 64;

export const SETTINGS: { readonly [Name in keyof Settings]: Setting<Settings[Name]> } = {
  config: {
    help: 'Files with policies: of Sluice, of envoyproxy/ratelimit, or folders of those.',
    value: 'path...',
    fallback: [],
    expected: 'paths of files or folders',
    read: files,
    notInFile: true,
  },
  listen: {
    help: 'Where HTTP is served. Default 127.0.0.1:8080.',
    value: 'address',
    fallback: { host: '127.0.0.1', port: 8080 },
    expected: ADDRESS,
    read: readListen,
  },
  grpc: {
    help: "Where Envoy's rate limit service is served over gRPC. Default: not at all.",
    value: 'address',
    fallback: undefined,
    expected: ADDRESS,
    read: readListen,
  },
  store: {
    help: 'Where counters are: memory, redis://, rediss://, redis+sentinel://, redis+cluster://.',
    value: 'url',
    fallback: DEFAULT_STORE,
    expected: STORES,
    read: store,
    secret: storeHint,
  },
  prefix: {
    help: "What all keys in Redis begin with. Default 's:'.",
    value: 'text',
    fallback: 's:',
    expected: 'text',
    read: text,
  },
  maxKeys: {
    help: 'Keys that the embedded store holds, over all policies. Default 1000000.',
    value: 'number',
    fallback: 1_000_000,
    expected: `an integer from 1 to ${2 ** 29}`,
    read: integer(1, 2 ** 29),
  },
  deadlineMs: {
    help: 'How long a caller waits for the store. Default 15ms, below the 20 that Envoy waits.',
    value: 'duration',
    fallback: 15,
    expected: 'a duration such as 15 or 15ms',
    read: duration,
  },
  onFailure: {
    help: 'What to do when the store is away: allow, deny, local, throw. Default local.',
    value: 'action',
    fallback: 'local',
    expected: 'one of allow, deny, local, throw',
    read: oneOf('allow', 'deny', 'local', 'throw'),
  },
  localShare: {
    help: 'The part of each limit that is admitted here when the store is away. Default 1.',
    value: 'share',
    fallback: 1,
    expected: 'a number above 0 and at most 1',
    read: share,
  },
  adminToken: {
    help: 'Who has it may do more than check. Needed unless it listens on loopback.',
    value: 'token',
    fallback: undefined,
    expected: TOKEN,
    read: token,
    secret: tokenHint,
  },
  adminTokenFile: {
    help: 'A file with the admin token, since everybody on the machine can see flags.',
    value: 'file',
    fallback: undefined,
    expected: 'the path of a file',
    read: text,
  },
  tlsCert: {
    help: 'The certificate to serve TLS with, as a PEM file.',
    value: 'file',
    fallback: undefined,
    expected: 'the path of a file',
    read: text,
  },
  tlsKey: {
    help: 'The private key to serve TLS with, as a PEM file.',
    value: 'file',
    fallback: undefined,
    expected: 'the path of a file',
    read: text,
  },
  proxy: {
    help: `Which proxy asks at /v1/forward-auth: ${PROXY_NAMES.join(', ')}. Default generic.`,
    value: 'name',
    fallback: 'generic',
    expected: `one of ${PROXY_NAMES.join(', ')}`,
    read: oneOf(...PROXY_NAMES),
  },
  trustProxy: {
    help: "Whose forwarding headers count: how many proxies, or their networks. Default: nobody's.",
    value: 'proxies',
    fallback: undefined,
    expected:
      'a number of proxies from 1 to 32, or their networks such as 10.0.0.0/8, not all there are',
    read: proxies,
  },
  forwardedHeader: {
    help: 'Which header proxies set: x-forwarded-for or forwarded. Default x-forwarded-for.',
    value: 'name',
    fallback: 'x-forwarded-for',
    expected: 'one of x-forwarded-for, forwarded',
    read: oneOf('x-forwarded-for', 'forwarded'),
  },
  ipv6Prefix: {
    help: 'How many bits of an IPv6 address are one client. Default 64.',
    value: 'bits',
    fallback: 64,
    expected: 'an integer from 32 to 128',
    read: integer(32, 128),
  },
  headers: {
    help: 'Which rate-limit fields are sent: draft, draft-7, draft-6, legacy, none. Default draft.',
    value: 'form',
    fallback: 'draft',
    expected: 'one of draft, draft-7, draft-6, legacy, none',
    read: oneOf('draft', 'draft-7', 'draft-6', 'legacy', 'none'),
  },
  workers: {
    help: 'How many processes serve, with the same limits. Default 1.',
    value: 'number',
    fallback: 1,
    expected: `an integer from 1 to ${MAX_WORKERS}`,
    read: integer(1, MAX_WORKERS),
  },
  overridesFile: {
    help: 'Where overrides and shadow set through the API are kept. Default: in memory only.',
    value: 'file',
    fallback: undefined,
    expected: 'the path of a file',
    read: text,
  },
  logLevel: {
    help: 'Level: silent, fatal, error, warn, info (default), debug, trace. Audit lines: always.',
    value: 'level',
    fallback: 'info',
    expected: 'one of silent, fatal, error, warn, info, debug, trace',
    read: oneOf('silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace'),
  },
  logDenials: {
    help: 'How many denials are logged each second; the rest are counted. Default 5.',
    value: 'number',
    fallback: 5,
    expected: 'an integer from 0 to 10000',
    read: integer(0, 10_000),
  },
  drainMs: {
    help: 'How long requests in flight may take when it is told to stop. Default 10s.',
    value: 'duration',
    fallback: 10_000,
    expected: 'a duration such as 10000 or 10s',
    read: duration,
  },
};

export type SettingName = keyof Settings;
export const SETTING_NAMES = Object.keys(SETTINGS) as readonly SettingName[];

const kebab = (name: string): string => name.replace(/[A-Z]/g, (each) => `-${each.toLowerCase()}`);

/** `deadlineMs` is `--deadline`, `SLUICE_DEADLINE` and, in the file, `deadline`. */
const bare = (name: SettingName): string => name.replace(/Ms$/, '');
export const flagOf = (name: SettingName): string => `--${kebab(bare(name))}`;
export const variableOf = (name: SettingName): string =>
  `SLUICE_${kebab(bare(name)).replaceAll('-', '_').toUpperCase()}`;
export const fileKeyOf = bare;

export type Source = 'flag' | 'environment' | 'file' | 'default';

export interface ReadSettings {
  readonly settings: Settings;
  readonly sources: Readonly<Record<SettingName, Source>>;
}

/** Thrown with everything that is wrong about flags and variables. */
export class SettingsError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'SettingsError';
  }
}

/** What a wrong value is told: what was expected, and what came, unless that is a secret. */
export function settingProblem(label: string, name: SettingName, given: unknown): string {
  const { expected, secret } = SETTINGS[name];
  const came = secret?.(given) ?? `\`${JSON.stringify(given) ?? given}\``;
  return `Expected ${label} to be ${expected}, got ${came}`;
}

/**
 * `file` has been checked when it was read, with its line and column. If it could not be read it is
 * undefined, and then nothing is said about what belongs together.
 */
export function readSettings(
  flags: Readonly<Partial<Record<SettingName, unknown>>>,
  environment: Readonly<Record<string, string | undefined>>,
  file: Readonly<Record<string, unknown>> | undefined,
): ReadSettings {
  const problems: string[] = [];
  const settings: Record<string, unknown> = {};
  const sources: Record<string, Source> = {};
  for (const name of SETTING_NAMES) {
    const places: readonly [Source, string, unknown][] = [
      ['flag', flagOf(name), flags[name]],
      // A variable that is empty is one that somebody's template had nothing to fill in for.
      ['environment', variableOf(name), environment[variableOf(name)] || undefined],
      ['file', `\`${fileKeyOf(name)}\``, file?.[name]],
    ];
    const [source, label, given] = places.find(([, , value]) => value !== undefined) ?? ['default'];
    const { read, fallback } = SETTINGS[name];
    const value = source === 'default' ? fallback : read(given);
    if (source !== 'default' && value === undefined) {
      problems.push(settingProblem(label!, name, given));
    }
    settings[name] = value;
    sources[name] = source;
  }
  if (problems.length > 0) throw new SettingsError(problems);
  const read = { settings, sources } as unknown as ReadSettings;
  const result = withTokenOfFile(read, problems);
  if (file !== undefined) checkTogether(result.settings, problems);
  if (problems.length > 0) throw new SettingsError(problems);
  return result;
}

const RANKS: readonly Source[] = ['default', 'file', 'environment', 'flag'];

/** The token of a file counts as if it stood where the file is named. */
function withTokenOfFile(read: ReadSettings, problems: string[]): ReadSettings {
  const { settings, sources } = read;
  const { adminTokenFile: path } = settings;
  const { adminToken: ownSource, adminTokenFile: source } = sources;
  if (path === undefined || RANKS.indexOf(source) < RANKS.indexOf(ownSource)) return read;
  if (source === ownSource) {
    problems.push('Expected --admin-token or --admin-token-file, got both');
    return read;
  }
  const adminToken = tokenOfFile(path, problems);
  return {
    settings: { ...settings, adminToken },
    sources: { ...sources, adminToken: source },
  };
}

function tokenOfFile(path: string, problems: string[]): string | undefined {
  try {
    const held = readFileSync(path, 'utf8').trim();
    const value = token(held);
    if (value === undefined) {
      problems.push(`Expected ${path} to hold ${TOKEN}, got ${tokenHint(held)}`);
    }
    return value;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    problems.push(`Expected a file that can be read at \`${path}\`, got ${code}`);
    return undefined;
  }
}

/** What is right alone, but not together. */
function checkTogether(settings: Settings, problems: string[]): void {
  const { tlsCert, tlsKey, listen, adminToken, adminTokenFile } = settings;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    problems.push('Expected --tls-cert and --tls-key together, got one of them');
  }
  if (!isLoopback(listen.host) && adminToken === undefined && adminTokenFile === undefined) {
    problems.push(
      `Expected --admin-token-file (or SLUICE_ADMIN_TOKEN) because ${listenText(listen)} can be ` +
        'reached from other machines, got none',
    );
  }
}

/** The settings as they count, secrets hidden. */
export function shownSettings({ settings, sources }: ReadSettings): Record<string, unknown> {
  return Object.fromEntries(
    SETTING_NAMES.map((name) => {
      const value = settings[name];
      const isListen = typeof value === 'object' && value !== null && 'port' in value;
      const shown = isListen ? listenText(value as Listen) : hidden(name, value);
      return [fileKeyOf(name), { value: shown ?? null, from: sources[name] }];
    }),
  );
}

/** A store address keeps its hosts; its passwords are hidden. */
function hidden(name: SettingName, value: unknown): unknown {
  if (!SETTINGS[name].secret || value === undefined) return value;
  if (name !== 'store') return '***';
  return storeKind(String(value)).redact(String(value));
}
