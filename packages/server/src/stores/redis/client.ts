/**
 * The Redis client of the service, for one server, Sentinel or Cluster, with the options of
 * docs/redis.md. If ioredis stops reconnecting, this module connects again.
 */
import { lookup } from 'node:dns';
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { Cluster, ClusterOptions, Redis } from 'ioredis';
import { systemClock } from 'sluice';
import { scheduleInBackground } from '../../clock.ts';
import type { RedisAddress } from './url.ts';

export interface RedisClient {
  readonly client: Redis | Cluster;
  /** Disconnects permanently. */
  close(): void;
}

/** Returns the delay before a connection attempt, at most 500 ms. Attempts never end. */
const retryStrategy = (attempt: number): number => Math.min(50 * attempt, 500);

/**
 * Options of each connection. While the client is disconnected, commands fail at once. Commands are
 * never sent twice. If the server stops responding, the client opens a new connection.
 */
const NODE_OPTIONS = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 1000,
  socketTimeout: 1000,
};

export const SERVER_OPTIONS = { ...NODE_OPTIONS, enableOfflineQueue: false, retryStrategy };

/**
 * With these options, the client follows a new master as soon as a sentinel announces it, even if
 * another sentinel does not respond.
 */
export const SENTINEL_OPTIONS = {
  ...SERVER_OPTIONS,
  failoverDetector: true,
  disconnectTimeout: 200,
  sentinelCommandTimeout: 500,
  sentinelReconnectStrategy: () => 10_000,
  sentinelRetryStrategy: retryStrategy,
};

/**
 * With these options, the client reads the assignment of slots to nodes once a second. If the
 * client only waited for a MOVED reply, it would never leave a master that does not respond.
 */
export const CLUSTER_OPTIONS = {
  enableOfflineQueue: false,
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
  slotsRefreshInterval: 1000,
  slotsRefreshTimeout: 500,
  clusterRetryStrategy: retryStrategy,
  redisOptions: NODE_OPTIONS,
};

const RECONNECT_MS = 100;

/**
 * Connects to Redis. Loads ioredis only when it is needed: ioredis has a class derived from
 * `String`, and V8 handles all strings of a process with such a class more slowly.
 */
export async function openRedisClient(address: RedisAddress): Promise<RedisClient> {
  const ioredis = await import('ioredis');
  const client =
    address.kind === 'redis+cluster'
      ? openCluster(ioredis.Cluster, address)
      : new ioredis.Redis(
          address.kind === 'redis' ? serverOptions(address) : sentinelOptions(address),
        );
  if (address.kind !== 'redis+cluster') leaveWrongDatabase(client as Redis);
  const stopReconnecting = reconnectAtEnd(client);
  return {
    client,
    close: () => {
      stopReconnecting();
      client.disconnect();
      // If ioredis is closed while it reads the slots of a Cluster, it still starts the timer for
      // the next read. A second `disconnect` stops this timer, which would keep the process alive.
      scheduleInBackground(2 * CLUSTER_OPTIONS.slotsRefreshTimeout, () => client.disconnect());
    },
  };
}

function tlsOf({ isTls, ca }: RedisAddress): { readonly tls?: ConnectionOptions } {
  if (!isTls) return {};
  return { tls: ca === undefined ? {} : { ca: readAuthority(ca) } };
}

function readAuthority(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`Expected the file \`${path}\` of \`ca\` to be readable, got ${code}`);
  }
}

const serverOptions = (address: RedisAddress) => ({
  ...SERVER_OPTIONS,
  ...address.login,
  ...tlsOf(address),
  ...address.hosts[0],
  db: address.database,
});

function sentinelOptions(address: RedisAddress) {
  const { hosts, login, sentinelLogin, master = '', database } = address;
  const { tls } = tlsOf(address);
  return {
    ...SENTINEL_OPTIONS,
    ...login,
    sentinels: [...hosts],
    name: master,
    db: database,
    ...(sentinelLogin?.username !== undefined && { sentinelUsername: sentinelLogin.username }),
    ...(sentinelLogin !== undefined && { sentinelPassword: sentinelLogin.password }),
    ...(tls && { tls, sentinelTLS: tls, enableTLSForSentinelMode: true }),
  };
}

function openCluster(
  create: new (...args: ConstructorParameters<typeof Cluster>) => Cluster,
  address: RedisAddress,
): Cluster {
  const redisOptions = { ...NODE_OPTIONS, ...address.login, ...tlsOf(address) };
  const seeds = [...address.hosts];
  const cluster = new create(seeds, { ...CLUSTER_OPTIONS, redisOptions, dnsLookup });
  // The client reads `seeds` whenever it connects. The known nodes are added to `seeds`, so that
  // the client can connect even if all nodes of the URL are unreachable.
  cluster.on('refresh', () => {
    const found = cluster.nodes().map(({ options: { host, port } }) => ({ host, port }));
    seeds.splice(0, seeds.length, ...distinct([...address.hosts, ...(found as Host[])]));
  });
  // The pings connect the client to all nodes. Without them, it would connect to a node at the
  // first command, and reject further commands meanwhile. No ping is sent before the client is
  // ready: ioredis starts again if nodes are already connecting.
  const ping = (node: Redis): void => void node.ping().catch(() => {});
  cluster.on('ready', () => cluster.nodes('master').forEach(ping));
  cluster.on('+node', (node: Redis) => cluster.status === 'ready' && ping(node));
  return cluster;
}

type Host = RedisAddress['hosts'][number];

const distinct = (hosts: readonly Host[]): readonly Host[] => [
  ...new Map(hosts.map((each) => [`${each.host}:${each.port}`, each])).values(),
];

/**
 * Resolves a host name. If that fails, returns the name itself: after an error, ioredis would not
 * try the other seeds.
 */
const dnsLookup: NonNullable<ClusterOptions['dnsLookup']> = (name, callback) =>
  lookup(name, (error, address) => callback(null, error === null ? address : name));

/**
 * Disconnects if the server rejects the number of the database. ioredis only reports the error and
 * continues with database 0, which may contain the keys of another service.
 */
function leaveWrongDatabase(client: Redis): void {
  client.on('error', (error: Error & { readonly command?: { readonly name?: string } }) => {
    if (error.command?.name === 'select') client.disconnect(true);
  });
}

/**
 * Connects again if ioredis stops reconnecting. ioredis stops if a sentinel announces a failover
 * while the client is looking for the master. Returns a function that stops this.
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
