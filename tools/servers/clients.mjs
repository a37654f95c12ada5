/**
 * The four Redis clients that the library knows, set up as its guide says: nothing is queued while
 * disconnected, nothing is sent again behind the limiter's back.
 */

function listen(client) {
  // Without a listener a lost connection would end the process; the limiter sees it anyway.
  client.on('error', () => {});
  return client;
}

const SAFE = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  socketTimeout: 5000,
};

async function openIoredis(packageName, url, { tls } = {}) {
  const { Redis } = await import(packageName);
  const settings = {
    ...SAFE,
    lazyConnect: true,
    ...(tls && { tls }),
  };
  const client = listen(new Redis(url, settings));
  await client.connect();
  return { client, close: async () => client.disconnect() };
}

async function openNodeRedis(url, { tls } = {}) {
  const { createClient } = await import('redis');
  const socket = tls && { tls: true, ...tls };
  const client = listen(
    createClient({ url, disableOfflineQueue: true, ...(socket && { socket }) }),
  );
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

/** The same clients on a Cluster, given the addresses of some of its nodes. */
export const clusterClients = {
  async ioredis(nodes) {
    const { Cluster } = await import('ioredis');
    return openIoredisCluster(Cluster, nodes);
  },
  async iovalkey(nodes) {
    const { Cluster } = await import('iovalkey');
    return openIoredisCluster(Cluster, nodes);
  },
  async 'node-redis'(nodes) {
    const { createCluster } = await import('redis');
    const rootNodes = nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
    const client = listen(createCluster({ rootNodes, defaults: { disableOfflineQueue: true } }));
    await client.connect();
    return { client, close: async () => client.destroy() };
  },
  async 'valkey-glide'(nodes) {
    const { GlideClusterClient } = await import('@valkey/valkey-glide');
    const addresses = nodes.map(({ host, port }) => ({ host, port }));
    const client = await GlideClusterClient.createClient({ addresses });
    return { client, close: async () => client.close() };
  },
};

async function openIoredisCluster(Cluster, nodes) {
  const client = listen(
    new Cluster(nodes, {
      enableOfflineQueue: false,
      retryDelayOnFailover: 0,
      lazyConnect: true,
      slotsRefreshTimeout: 10_000,
      redisOptions: { autoResendUnfulfilledCommands: false },
    }),
  );
  await client.connect();
  // It connects to a node when that is first used, and what comes meanwhile is turned away.
  await Promise.all(client.nodes('master').map((node) => node.ping()));
  return { client, close: async () => client.disconnect() };
}

/** The same clients through Sentinel, except for valkey-glide, which does not know it. */
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
      createSentinel({
        name,
        sentinelRootNodes: sentinels,
        nodeClientOptions: { disableOfflineQueue: true },
      }),
    );
    await client.connect();
    return { client, close: async () => client.destroy() };
  },
};

async function openIoredisSentinel(Redis, sentinels, name) {
  const client = listen(
    new Redis({
      sentinels,
      name,
      ...SAFE,
      lazyConnect: true,
    }),
  );
  await client.connect();
  return { client, close: async () => client.disconnect() };
}
