/**
 * The settings of the service. Each setting is declared once, in `SETTINGS`. Its flag, its
 * environment variable and its key in the file are derived from its name. JSON Schema, `--help` and
 * the table in docs/configuration.md are derived from its declaration. Flags override environment
 * variables, which override the file.
 */
import { readFileSync } from 'node:fs';
import { FAILURE_ACTIONS } from 'sluice/engine';
import type { ForwardedHeader, HeaderForm } from 'sluice/http';
import { z } from 'zod';
import { expectationOf } from './expectation.ts';
import { PROXY_NAMES } from './proxy-profiles.ts';
import {
  duration,
  integer,
  isLoopback,
  type Listen,
  listen,
  listenText,
  path,
  paths,
  proxies,
  readListen,
  share,
  storeHint,
  storeUrl,
  text,
  token,
  tokenHint,
  webUrl,
} from './setting-values.ts';
import { DEFAULT_STORE, STORE_SCHEMES, storeKind } from './stores/index.ts';

export { isLoopback, type Listen, listenText, readListen };

interface Declaration<S extends z.ZodType> {
  readonly schema: S;
  /** Placeholder of the value in help: `address` in `--listen <address>`. */
  readonly value: string;
  /** An imperative or noun phrase. The function `setting` appends the choices and the default. */
  readonly help: string;
  readonly secret?: Secret;
  /**
   * Set for the setting that names the configuration files, because it cannot be in these files.
   */
  readonly notInFile?: true;
}

/** Describes a secret value in messages and listings, which never contain the value itself. */
interface Secret {
  /** Returns the text that is shown instead of an invalid value. */
  hint(given: unknown): string;
  /** Returns the text that is shown instead of a valid value. */
  redact(value: string): string;
}

export interface Setting<T> extends Declaration<z.ZodType<T>> {
  /** The value that applies if the setting is not set. */
  readonly fallback: T;
  /** Parses text (flags and variables) or a value from the file; undefined if it is not valid. */
  read(given: unknown): T | undefined;
}

/** Creates a setting. `default` has the form in which a user writes the value, such as `15ms`. */
function setting<S extends z.ZodType>(
  declared: Declaration<S> & { readonly default: z.input<S> },
): Setting<z.output<S>>;
function setting<S extends z.ZodType>(declared: Declaration<S>): Setting<z.output<S> | undefined>;
function setting({
  default: written,
  ...declared
}: Declaration<z.ZodType> & { readonly default?: unknown }): Setting<unknown> {
  const { schema, help } = declared;
  const choices = schema instanceof z.ZodEnum ? `: ${schema.options.join(', ')}` : '';
  return {
    ...declared,
    help: `${help}${choices}${written === undefined ? '' : ` (default: ${written})`}`,
    fallback: written === undefined ? undefined : schema.parse(written),
    read: (given) => schema.safeParse(given).data,
  };
}

const HEADER_FORMS = [
  ...(['draft', 'draft-7', 'draft-6', 'legacy', 'none'] as const),
] satisfies readonly HeaderForm[];
const FORWARDED_HEADERS = [
  ...(['x-forwarded-for', 'forwarded'] as const),
] satisfies readonly ForwardedHeader[];

export const SETTINGS = {
  config: setting({
    schema: paths,
    value: 'path...',
    help: 'Configuration files of Sluice or envoyproxy/ratelimit, or folders of them',
    notInFile: true,
  }),
  listen: setting({
    schema: listen,
    default: '127.0.0.1:8080',
    value: 'address',
    help: 'Address to serve HTTP on',
  }),
  grpc: setting({
    schema: listen,
    value: 'address',
    help: "Address to serve Envoy's rate limit service on, over gRPC (default: off)",
  }),
  store: setting({
    schema: storeUrl,
    default: DEFAULT_STORE,
    value: 'url',
    help: `Store for counters: ${STORE_SCHEMES.join(', ')}`,
    secret: { hint: storeHint, redact: (url) => storeKind(url).redact(url) },
  }),
  prefix: setting({
    schema: text,
    default: 's:',
    value: 'text',
    help: 'Prefix of all keys in Redis',
  }),
  maxKeys: setting({
    schema: integer(1, 2 ** 29),
    default: 1_000_000,
    value: 'number',
    help: 'Maximum number of keys in the memory store, over all policies',
  }),
  deadlineMs: setting({
    schema: duration,
    default: '15ms',
    value: 'duration',
    help: 'Timeout of store calls; keep it below the 20 ms that Envoy waits',
  }),
  onFailure: setting({
    schema: z.enum(FAILURE_ACTIONS),
    default: 'local',
    value: 'action',
    help: 'Action when the store is unavailable',
  }),
  localShare: setting({
    schema: share,
    default: 1,
    value: 'share',
    help: 'Fraction of each limit that one instance admits when the store is unavailable',
  }),
  leaseMs: setting({
    schema: duration,
    value: 'duration',
    help: 'Longest lease of units of a limit with `lease`; Redis only (default: no leases)',
  }),
  adminToken: setting({
    schema: token,
    value: 'token',
    help: 'Bearer token for the admin API; required unless listening on loopback',
    secret: { hint: tokenHint, redact: () => '***' },
  }),
  adminTokenFile: setting({
    schema: path,
    value: 'file',
    help: 'File with the admin token; unlike a flag, not visible in the process list',
  }),
  tlsCert: setting({ schema: path, value: 'file', help: 'TLS certificate, as a PEM file' }),
  tlsKey: setting({ schema: path, value: 'file', help: 'TLS private key, as a PEM file' }),
  proxy: setting({
    schema: z.enum(PROXY_NAMES),
    default: 'generic',
    value: 'name',
    help: 'Proxy that calls /v1/forward-auth',
  }),
  trustProxy: setting({
    schema: proxies,
    value: 'proxies',
    help: 'Trusted proxies, as a number of hops or a list of networks (default: none)',
  }),
  forwardedHeader: setting({
    schema: z.enum(FORWARDED_HEADERS),
    default: 'x-forwarded-for',
    value: 'name',
    help: 'Header in which trusted proxies send the client address',
  }),
  ipv6Prefix: setting({
    schema: integer(32, 128),
    default: 64,
    value: 'bits',
    help: 'Prefix length that identifies an IPv6 client',
  }),
  headers: setting({
    schema: z.enum(HEADER_FORMS),
    default: 'draft',
    value: 'form',
    help: 'Rate limit headers to send',
  }),
  workers: setting({
    schema: integer(1, 64),
    default: 1,
    value: 'number',
    help: 'Number of worker processes; they share the same limits',
  }),
  overridesFile: setting({
    schema: path,
    value: 'file',
    help: 'File for overrides and shadow mode set through the API (default: memory only)',
  }),
  logLevel: setting({
    schema: z.enum(['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace']),
    default: 'info',
    value: 'level',
    help: 'Minimum level to log (audit lines are always logged)',
  }),
  logDenials: setting({
    schema: integer(0, 10_000),
    default: 5,
    value: 'number',
    help: 'Denials to log per second; further ones are counted',
  }),
  grafanaUrl: setting({
    schema: webUrl,
    value: 'url',
    help: 'Address of the Grafana dashboard, for a link in the dashboard (default: no link)',
  }),
  drainMs: setting({
    schema: duration,
    default: '10s',
    value: 'duration',
    help: 'Time that requests in flight have to complete at shutdown',
  }),
};

export type Settings = {
  readonly [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name]['fallback'];
};

export type LogLevel = Settings['logLevel'];
export type SettingName = keyof Settings;
export const SETTING_NAMES = Object.keys(SETTINGS) as readonly SettingName[];

const kebab = (name: string): string => name.replace(/[A-Z]/g, (each) => `-${each.toLowerCase()}`);

/** The setting `deadlineMs` is `--deadline`, `SLUICE_DEADLINE` and, in the file, `deadline`. */
const withoutUnit = (name: SettingName): string => name.replace(/Ms$/, '');
export const flagOf = (name: SettingName): string => `--${kebab(withoutUnit(name))}`;
export const variableOf = (name: SettingName): string =>
  `SLUICE_${kebab(withoutUnit(name)).replaceAll('-', '_').toUpperCase()}`;
export const fileKeyOf = withoutUnit;

export type Source = 'flag' | 'environment' | 'file' | 'default';

export interface ReadSettings {
  readonly settings: Settings;
  readonly sources: Readonly<Record<SettingName, Source>>;
}

/** Thrown with all problems of flags and environment variables. */
export class SettingsError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'SettingsError';
  }
}

/** Returns the message about an invalid value. The message contains no secret. */
export function settingProblem(label: string, name: SettingName, given: unknown): string {
  const { schema, secret }: Setting<unknown> = SETTINGS[name];
  const shown = secret?.hint(given) ?? `\`${JSON.stringify(given) ?? given}\``;
  return `Expected ${label} to be ${expectationOf(schema).expected}, got ${shown}`;
}

/**
 * Returns the settings and the source of each. Throws a `SettingsError` if a value is invalid.
 * Values from `file` are already validated. If the file could not be read, `file` is undefined, and
 * settings that depend on each other are not checked.
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
      // An empty variable counts as unset: deployment templates often define empty variables.
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

/** Sources of settings, lowest precedence first. */
const PRECEDENCE: readonly Source[] = ['default', 'file', 'environment', 'flag'];

/**
 * Returns the settings with the token of the token file. This token has the precedence of the
 * source that names the token file: flag, environment or file.
 */
function withTokenOfFile(read: ReadSettings, problems: string[]): ReadSettings {
  const { settings, sources } = read;
  const { adminTokenFile: path } = settings;
  const { adminToken: ownSource, adminTokenFile: source } = sources;
  if (path === undefined || PRECEDENCE.indexOf(source) < PRECEDENCE.indexOf(ownSource)) return read;
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
    const content = readFileSync(path, 'utf8').trim();
    const value = SETTINGS.adminToken.read(content);
    if (value === undefined) {
      const { expected } = expectationOf(token);
      problems.push(`Expected ${path} to contain ${expected}, got ${tokenHint(content)}`);
    }
    return value;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    problems.push(`Expected \`${path}\` to be a readable file, got ${code}`);
    return undefined;
  }
}

/** Checks settings that depend on each other. */
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

/** Returns the effective settings and their sources, with secrets hidden. */
export function shownSettings({ settings, sources }: ReadSettings): Record<string, unknown> {
  return Object.fromEntries(
    SETTING_NAMES.map((name) => {
      const { secret }: Setting<unknown> = SETTINGS[name];
      const value = settings[name];
      const isListen = typeof value === 'object' && 'port' in value;
      const shown = isListen ? listenText(value) : value;
      const safe = secret && value !== undefined ? secret.redact(String(value)) : shown;
      return [fileKeyOf(name), { value: safe ?? null, from: sources[name] }];
    }),
  );
}
