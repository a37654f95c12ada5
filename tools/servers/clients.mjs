/**
 * The four Redis clients that the library supports, with the options of docs/redis.md: commands are
 * neither queued while disconnected nor sent twice, and a dead connection is replaced.
 */

import { once } from 'node:events';

function listen(client) {
  // Without a listener a lost connection would end the process. The limiter handles failed calls.
  client.on('error', () => {});
  return client;
}

const retryStrategy = (attempt) => Math.min(50 * attempt, 500);

/** Options of a connection of ioredis or iovalkey, to one server or to a node of a Cluster. */
const IOREDIS_NODE = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 1000,
  socketTimeout: 1000,
};

export const IOREDIS = { ...IOREDIS_NODE, enableOfflineQueue: false, retryStrategy };

export const IOREDIS_SENTINEL = {
  ...IOREDIS,
  failoverDetector: true,
  disconnectTimeout: 200,
  sentinelCommandTimeout: 500,
  sentinelReconnectStrategy: () => 10_000,
};

export const IOREDIS_CLUSTER = {
  enableOfflineQueue: false,
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
  slotsRefreshInterval: 1000,
  slotsRefreshTimeout: 500,
  redisOptions: IOREDIS_NODE,
};

/** Options of a connection of node-redis, to one server or to a node of a Cluster. */
export const NODE_REDIS = {
  disableOfflineQueue: true,
  pingInterval: 200,
  socket: { connectTimeout: 1000, socketTimeout: 500, reconnectStrategy: 100 },
};

export const NODE_REDIS_SENTINEL = {
  maxCommandRediscovers: 0,
  scanInterval: 1000,
  nodeClientOptions: NODE_REDIS,
  sentinelClientOptions: { pingInterval: 100, socket: { connectTimeout: 300, socketTimeout: 300 } },
};

export const NODE_REDIS_CLUSTER = {
  defaults: NODE_REDIS,
  topologyRefreshOnReconnectionAttemptStrategy: 100,
};

export const GLIDE_CLUSTER = {
  periodicChecks: { duration_in_sec: 1 },
  recoveryRequestsQueueSize: 0,
};

async function openIoredis(packageName, url, options = {}) {
  const { Redis } = await import(packageName);
  const client = listen(new Redis(url, { ...IOREDIS, lazyConnect: true, ...options }));
  await client.connect();
  return { client, close: async () => client.disconnect() };
}

async function openNodeRedis(url, { tls } = {}) {
  const { createClient } = await import('redis');
  const socket = { ...NODE_REDIS.socket, ...(tls && { tls: true, ...tls }) };
  const client = listen(createClient({ url, ...NODE_REDIS, socket }));
  await client.connect();
  return { client, close: async () => client.destroy() };
}

async function openGlide(url) {
  const { GlideClient } = await import('@valkey/valkey-glide');
  const { hostname: host, port } = new URL(url);
  const client = await GlideClient.createClient({ addresses: [{ host, port: Number(port) }] });
  return { client, close: async () => client.close() };
}

export const clients = {
  ioredis: (url, options) => openIoredis('ioredis', url, options),
  iovalkey: (url, options) => openIoredis('iovalkey', url, options),
  'node-redis': openNodeRedis,
  'valkey-glide': openGlide,
};

/** The four clients for a Cluster. Each function takes the addresses of some of the nodes. */
export const clusterClients = {
  async ioredis(nodes, options) {
    const { Cluster } = await import('ioredis');
    return openIoredisCluster(Cluster, nodes, options);
  },
  async iovalkey(nodes, options) {
    const { Cluster } = await import('iovalkey');
    return openIoredisCluster(Cluster, nodes, options);
  },
  async 'node-redis'(nodes) {
    const { createCluster } = await import('redis');
    const rootNodes = nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
    const client = listen(createCluster({ rootNodes, ...NODE_REDIS_CLUSTER }));
    await client.connect();
    return { client, close: async () => client.destroy() };
  },
  async 'valkey-glide'(nodes) {
    const { GlideClusterClient } = await import('@valkey/valkey-glide');
    const addresses = nodes.map(({ host, port }) => ({ host, port }));
    const client = await GlideClusterClient.createClient({ addresses, ...GLIDE_CLUSTER });
    return { client, close: async () => client.close() };
  },
};

async function openIoredisCluster(Cluster, nodes, options) {
  const redisOptions = { ...IOREDIS_NODE, ...options };
  const client = listen(new Cluster(nodes, { ...IOREDIS_CLUSTER, redisOptions }));
  // Do not await `connect()`: its promise never settles if the first attempt fails halfway.
  await once(client, 'ready');
  // The client connects to a node only at its first command, and rejects commands until it is
  // connected.
  await Promise.all(client.nodes('master').map((node) => node.ping()));
  return { client, close: () => closeIoredisCluster(client) };
}

/**
 * Disconnects twice: if the client is refreshing its slots during the first `disconnect`, it starts
 * the timer of the next refresh afterwards. This timer would keep the process alive.
 */
async function closeIoredisCluster(client) {
  client.disconnect();
  setTimeout(() => client.disconnect(), 2 * IOREDIS_CLUSTER.slotsRefreshTimeout).unref();
}

/** The clients for servers with Sentinel, which valkey-glide does not support. */
export const sentinelClients = {
  async ioredis(sentinels, name) {
    const { Redis } = await import('ioredis');
    return openIoredisSentinel(Redis, sentinels, name);
  },
  async iovalkey(sentinels, name) {
    const { Redis } = await import('iovalkey');
    return openIoredisSentinel(Redis, sentinels, name);
  },
  async 'node-redis'(sentinels, name) {
    const { createSentinel } = await import('redis');
    const client = listen(
      createSentinel({ name, sentinelRootNodes: sentinels, ...NODE_REDIS_SENTINEL }),
    );
    // With `maxCommandRediscovers: 0`, `connect` makes only one attempt, so call it again after a
    // failure.
    await client.connect().catch(() => client.connect());
    return { client, close: async () => client.destroy() };
  },
};

async function openIoredisSentinel(Redis, sentinels, name) {
  const client = listen(new Redis({ sentinels, name, ...IOREDIS_SENTINEL, lazyConnect: true }));
  await client.connect();
  // If a failover is announced while the client looks for the master, the client closes
  // permanently, so it must be connected again.
  const reconnect = () => setTimeout(() => client.connect().catch(() => {}), 100);
  client.on('end', reconnect);
  const close = async () => {
    client.off('end', reconnect);
    client.disconnect();
  };
  return { client, close };
}
