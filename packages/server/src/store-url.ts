/** From `--store` to a store: the embedded one, or Redis in any of its arrangements. */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { Cluster, Redis } from 'ioredis';
import { memoryStore, type Store, systemClock } from 'sluice';
import { type RedisStoreOptions, redisStore } from 'sluice/redis';
import type { Settings } from './settings.ts';

/** A store, and what belongs to it. */
export interface OpenStore {
  readonly store: Store;
  readonly kind: 'memory' | 'redis';
  /** Resolves when there is a connection for the first time; undefined where there is none. */
  readonly connected?: Promise<void>;
  /** Reads a section of `INFO`; undefined where there is no server. */
  readonly info?: (section: string) => Promise<string>;
  /** Ends the connection. */
  close(): Promise<void>;
}

export interface StoreListeners {
  onWarning(warning: { readonly code: string; readonly message: string }): void;
  /** The connection is gone, or back. */
  onConnection(state: 'up' | 'down', error?: Error): void;
}

type StoreSettings = Pick<
  Settings,
  'store' | 'prefix' | 'maxKeys' | 'deadlineMs' | 'onFailure' | 'localShare'
>;

/** Retries forever, at most 500 ms apart. */
const retryStrategy = (attempt: number): number => Math.min(50 * attempt, 500);

/**
 * Commands fail at once while disconnected and are never sent twice. A connection whose server
 * stops responding is replaced. docs/redis.md lists these options with their reasons.
 */
const NODE_OPTIONS = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 1000,
  socketTimeout: 1000,
};

const SERVER_OPTIONS = { ...NODE_OPTIONS, enableOfflineQueue: false, retryStrategy };

/** Follows the new master as soon as a sentinel announces it, also if a sentinel is silent. */
const SENTINEL_OPTIONS = {
  ...SERVER_OPTIONS,
  failoverDetector: true,
  disconnectTimeout: 200,
  sentinelCommandTimeout: 500,
  sentinelReconnectStrategy: () => 10_000,
  sentinelRetryStrategy: retryStrategy,
};

/** Reads the slots once a second: a client that waits for MOVED never leaves a silent master. */
const CLUSTER_OPTIONS = {
  enableOfflineQueue: false,
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
  slotsRefreshInterval: 1000,
  slotsRefreshTimeout: 500,
  clusterRetryStrategy: retryStrategy,
};

const RECONNECT_MS = 100;
const DEFAULT_PORT = 6379;
const SENTINEL_PORT = 26_379;

interface StoreAddress {
  readonly kind: 'redis' | 'redis+sentinel' | 'redis+cluster';
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly username?: string;
  readonly password?: string;
  readonly path: readonly string[];
  readonly tls?: ConnectionOptions;
}

/** Scheme, login, hosts, path, query. */
const ADDRESS =
  /^(rediss?|redis\+(?:sentinel|cluster)):\/\/(?:([^@/?]*)@)?([^/?]+)(?:\/([^?]*))?(?:\?(.*))?$/;

/**
 * `redis://user:password@host:6379/0`, `rediss://...` for TLS, `redis+cluster://a:6379,b:6379`,
 * `redis+sentinel://a:26379,b:26379/mymaster/0`. `?tls=true` for TLS in the last two, `?ca=FILE`
 * for an authority of one's own. Several hosts are not a URL to `new URL`, so it is read by hand.
 */
export function parseStoreAddress(address: string): StoreAddress {
  const parts = ADDRESS.exec(address);
  if (parts === null)
    throw new Error('Expected `store` to be an address such as redis://host:6379');
  const [, scheme, login = '', hosts, path = '', search = ''] = parts;
  const query = new URLSearchParams(search);
  const [username = '', ...rest] = login.split(':');
  const ca = query.get('ca');
  const isTls = scheme === 'rediss' || query.get('tls') === 'true' || ca !== null;
  const port = scheme === 'redis+sentinel' ? SENTINEL_PORT : DEFAULT_PORT;
  return {
    kind: scheme === 'rediss' ? 'redis' : (scheme as StoreAddress['kind']),
    hosts: hosts.split(',').map((each) => hostOf(each, port)),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(rest.length > 0 && { password: decodeURIComponent(rest.join(':')) }),
    path: path.split('/').filter((each) => each !== ''),
    ...(isTls && { tls: ca === null ? {} : { ca: readFileSync(ca) } }),
  };
}

function hostOf(text: string, fallback: number): { host: string; port: number } {
  const [, v6, name, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = v6 ?? name;
  if (host === undefined) throw new Error(`Expected a host in \`store\`, got \`${text}\``);
  return { host, port: port === undefined ? fallback : Number(port) };
}

/**
 * The client is loaded only if it is needed: it has a class derived from `String`, and in a process
 * with one of those V8 handles all strings more slowly.
 */
async function connect(address: StoreAddress): Promise<Redis | Cluster> {
  const { Cluster, Redis } = await import('ioredis');
  const { kind, hosts, path, tls, username, password } = address;
  const login = { ...(username && { username }), ...(password && { password }) };
  const access = { ...login, ...(tls && { tls }) };
  if (kind === 'redis+cluster') {
    const redisOptions = { ...NODE_OPTIONS, ...access };
    const cluster = new Cluster([...hosts], { ...CLUSTER_OPTIONS, redisOptions });
    // Otherwise the client connects to a node at its first command, and rejects others meanwhile.
    // Not before it is ready: it would find its nodes connecting, and start all over.
    const ping = (node: Redis): void => void node.ping().catch(() => {});
    cluster.on('ready', () => cluster.nodes('master').forEach(ping));
    cluster.on('+node', (node: Redis) => cluster.status === 'ready' && ping(node));
    return cluster;
  }
  if (kind === 'redis+sentinel') {
    const [name = 'mymaster', db = '0'] = path;
    const secure = tls && { sentinelTLS: tls, enableTLSForSentinelMode: true };
    return new Redis({
      ...SENTINEL_OPTIONS,
      ...access,
      sentinels: [...hosts],
      name,
      db: Number(db),
      ...secure,
    });
  }
  return new Redis({ ...SERVER_OPTIONS, ...access, ...hosts[0], db: Number(path[0] ?? 0) });
}

/** Of a Cluster, what each of its masters says, one after the other. */
async function infoOf(client: Redis | Cluster, section: string): Promise<string> {
  const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
  return (await Promise.all(nodes.map((node) => node.call('INFO', [section])))).join('\n');
}

/**
 * Connects again when the client has given up. ioredis does so if a sentinel announces a failover
 * while the client is looking for the master. Returns a function that ends this.
 */
function reconnectAtEnd(client: Redis | Cluster): () => void {
  let cancel = (): void => {};
  const reconnect = (): void => {
    cancel = systemClock.schedule(RECONNECT_MS, () => void client.connect().catch(() => {}));
  };
  client.on('end', reconnect);
  return () => {
    client.off('end', reconnect);
    cancel();
  };
}

export async function openStore(
  settings: StoreSettings,
  listeners: StoreListeners,
): Promise<OpenStore> {
  if (settings.store === 'memory') {
    return {
      store: memoryStore({ maxKeys: settings.maxKeys }),
      kind: 'memory',
      close: async () => {},
    };
  }
  const client = await connect(parseStoreAddress(settings.store));
  // Neither at first, so that a server that cannot be reached at all is told about too.
  let state: 'up' | 'down' | undefined;
  const turn = (to: 'up' | 'down', error?: Error): void => {
    if (to === state) return;
    state = to;
    listeners.onConnection(to, error);
  };
  const connected = new Promise<void>((resolve) => client.once('ready', resolve));
  client.on('ready', () => turn('up'));
  client.on('close', () => turn('down'));
  // Without a listener ioredis prints them; what follows from them the failure policy decides.
  client.on('error', (error: Error) => turn('down', error));
  const stopReconnecting = reconnectAtEnd(client);
  const { prefix, deadlineMs, onFailure, localShare } = settings;
  const options: RedisStoreOptions = {
    ...{ prefix, deadlineMs, onFailure, localShare },
    onWarning: (warning) => listeners.onWarning(warning),
  };
  return {
    store: redisStore(client, options),
    kind: 'redis',
    connected,
    info: (section) => infoOf(client, section),
    close: async () => {
      stopReconnecting();
      client.disconnect();
    },
  };
}
