/**
 * Adapts any Redis client to one function: `send(args, key)`. Clients are recognized by their
 * shape, so that none of them is a dependency. Options with which a client repeats or queues
 * commands, or does not notice a silent connection or a failover, cause a warning that names the
 * value to set.
 */
import { expected } from '../../errors.ts';
import type { Warning } from '../../warning.ts';
import { slotOf } from './keys.ts';
import { type OnReady, onReadyOf } from './ready-signal.ts';
import { sparingSilentNodes } from './silent-nodes.ts';

/** Sends one command. `key` determines the node in a Cluster. */
export type Send = (args: readonly string[], key: string) => Promise<unknown>;

/** ioredis and iovalkey: `new Redis()`, with Sentinel or not, and `new Cluster()`. */
export interface IoredisLike {
  call(command: string, args: string[]): Promise<unknown>;
  readonly options: object;
  readonly isCluster?: boolean;
}

/** node-redis: `createClient()`, `createCluster()`, `createSentinel()`. */
export interface NodeRedisLike {
  // biome-ignore lint/suspicious/noExplicitAny: the three kinds differ in what comes first.
  sendCommand(...args: any[]): Promise<unknown>;
}

/** valkey-glide: `GlideClient` and `GlideClusterClient`. */
export interface GlideLike {
  customCommand(args: string[]): Promise<unknown>;
}

export type RedisClient = IoredisLike | NodeRedisLike | GlideLike | Send;

export type RedisWarning = Warning;

export interface Connection {
  readonly send: Send;
  /** Sends `INFO memory`; undefined for a `send` function, which only gets scripts. */
  readonly info: (() => Promise<unknown>) | undefined;
  /** Whether the keys of one command must be in one slot. */
  readonly isCluster: boolean;
  readonly warnings: readonly RedisWarning[];
  /** Returns warnings about options that the client exposes only while it is connected. */
  readonly connectedWarnings?: () => readonly RedisWarning[];
  /** Adds a listener for connections; undefined for clients that emit no events. */
  readonly onReady: OnReady | undefined;
}

type Shape = Readonly<Record<string, unknown>>;

const isFunction = (client: Shape, name: string): boolean => typeof client[name] === 'function';

function offlineQueue(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_OFFLINE_QUEUE',
    message:
      'The Redis client queues commands while it is disconnected: they pile up, and are charged ' +
      `long after their callers got another decision. Set ${fix}.`,
  };
}

const RESENDS: RedisWarning = {
  code: 'WARN_REDIS_RESEND',
  message:
    'The Redis client sends commands again after a reconnect, although they may have been ' +
    'executed: calls are charged twice. Set autoResendUnfulfilledCommands: false.',
};

const CLUSTER_RESENDS: RedisWarning = {
  code: 'WARN_REDIS_RESEND',
  message:
    'The Cluster client sends commands again after a lost connection, although they may have ' +
    'been executed: calls are charged twice. Set retryDelayOnFailover: 0.',
};

const KEY_PREFIX: RedisWarning = {
  code: 'WARN_REDIS_KEY_PREFIX',
  message:
    'The keyPrefix of the Redis client has a brace, which decides the Cluster slot of every key. ' +
    'Use the prefix option of redisStore instead.',
};

/** Warns that a connection whose server became silent is never replaced. */
function silentConnection(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_SOCKET_TIMEOUT',
    message:
      'The Redis client never replaces a connection whose server stopped responding without ' +
      `closing it, so calls stay degraded after the server or its replica is back. Set ${fix}.`,
  };
}

/** Warns that the client stays with the old master after a failover. */
function missedFailover(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_FAILOVER',
    message:
      'The Redis client does not notice a failover while its connection to the old master is ' +
      `open: calls are charged there and lost, or stay degraded. Set ${fix}.`,
  };
}

const isPositive = (value: unknown): boolean => typeof value === 'number' && value > 0;

/** Returns warnings if ioredis or iovalkey cannot notice silent connections or failovers. */
function ioredisFailoverWarnings(options: Shape, isCluster: boolean): RedisWarning[] {
  const warnings: RedisWarning[] = [];
  const nodes = (isCluster ? (options.redisOptions ?? {}) : options) as Shape;
  if (!isPositive(nodes.socketTimeout)) {
    const where = isCluster ? 'redisOptions.socketTimeout' : 'socketTimeout';
    warnings.push(silentConnection(`${where}: 1000`));
  }
  if (isCluster && !isPositive(options.slotsRefreshInterval)) {
    warnings.push(missedFailover('slotsRefreshInterval: 1000'));
  }
  if (Array.isArray(options.sentinels) && options.failoverDetector !== true) {
    warnings.push(missedFailover('failoverDetector: true'));
  }
  return warnings;
}

/** Checks the options of ioredis and iovalkey. A Cluster has node options in `redisOptions`. */
function ioredisWarnings({ options, isCluster }: IoredisLike): RedisWarning[] {
  const own = options as Shape;
  const inner = (own.redisOptions ?? {}) as Shape;
  const setting = (name: string): unknown => own[name] ?? inner[name];
  const warnings = ioredisFailoverWarnings(own, isCluster === true);
  if (setting('enableOfflineQueue') !== false) {
    warnings.push(offlineQueue('enableOfflineQueue: false'));
  }
  if (setting('autoResendUnfulfilledCommands') !== false) warnings.push(RESENDS);
  if (isCluster && setting('retryDelayOnFailover') !== 0) warnings.push(CLUSTER_RESENDS);
  if (String(setting('keyPrefix') ?? '').includes('{')) warnings.push(KEY_PREFIX);
  return warnings;
}

function fromIoredis(client: IoredisLike): Connection {
  return {
    // In lower case, because iovalkey and ioredis 5 find the keys of a command only then. Without
    // them, a Cluster client sends the command to any node.
    send: ([command, ...args]) => client.call(command.toLowerCase(), args),
    info: () => client.call('INFO', ['memory']),
    isCluster: client.isCluster === true,
    warnings: ioredisWarnings(client),
    onReady: onReadyOf(client, 'ready', '+node'),
  };
}

/** Checks the options of node-redis. `where` is the path to them in the options of a Cluster. */
function nodeRedisWarnings(options: Shape | undefined, where = ''): RedisWarning[] {
  if (options === undefined) return [];
  const warnings: RedisWarning[] = [];
  if (options.disableOfflineQueue !== true) {
    warnings.push(offlineQueue(`${where}disableOfflineQueue: true`));
  }
  // The timeout also closes idle connections, so pings must be more frequent.
  const socketTimeout = socketTimeoutOf(options);
  const isPinged = isPositive(options.pingInterval) && isPositive(socketTimeout);
  if (!isPinged || (options.pingInterval as number) >= (socketTimeout as number)) {
    const fix = `${where}pingInterval: 200 and ${where}socket.socketTimeout: 500`;
    warnings.push(silentConnection(fix));
  }
  return warnings;
}

const socketTimeoutOf = ({ socket }: Shape): unknown =>
  (socket as Shape | undefined)?.socketTimeout;

/** The public properties of `createCluster()`. Its nodes have clients while it is connected. */
interface NodeRedisCluster extends NodeRedisLike {
  readonly masters: readonly ClusterNode[];
  readonly slots: readonly { readonly master?: ClusterNode }[];
}

interface ClusterNode {
  readonly client?: { readonly options?: Shape };
}

/** Sends to the node of a key. If the client has a socket timeout, spares silent nodes. */
function clusterSend(cluster: NodeRedisCluster): Send {
  const masterOf = (key: string): ClusterNode | undefined => cluster.slots[slotOf(key)]?.master;
  const silentMsOf = ({ client }: ClusterNode): number => {
    const socketTimeout = socketTimeoutOf(client?.options ?? {});
    return isPositive(socketTimeout) ? (socketTimeout as number) / 2 : Number.POSITIVE_INFINITY;
  };
  const send: Send = (args, key) => cluster.sendCommand(key, false, args);
  return sparingSilentNodes(send, masterOf, silentMsOf);
}

function fromNodeRedisCluster(cluster: NodeRedisCluster): Connection {
  const send = clusterSend(cluster);
  return {
    send,
    info: () => send(['INFO', 'memory'], ''),
    isCluster: true,
    warnings: [],
    connectedWarnings: () => {
      const connected = cluster.masters.find(({ client }) => client !== undefined);
      return nodeRedisWarnings(connected?.client?.options, 'defaults.');
    },
    onReady: onReadyOf(cluster, 'ready', 'node-ready'),
  };
}

function fromNodeRedis(client: NodeRedisLike): Connection {
  const shape = client as unknown as Shape;
  if (isFunction(shape, 'getSlotRandomNode')) {
    return fromNodeRedisCluster(client as NodeRedisCluster);
  }
  const isSentinel = isFunction(shape, 'getSentinelNode');
  const send: Send = (args) =>
    isSentinel ? client.sendCommand(false, args) : client.sendCommand(args);
  return {
    send,
    info: () => send(['INFO', 'memory'], ''),
    isCluster: false,
    // `createSentinel` does not expose its options.
    warnings: nodeRedisWarnings(shape.options as Shape | undefined),
    onReady: onReadyOf(client, 'ready', 'node-ready'),
  };
}

function fromGlide(client: GlideLike): Connection {
  return {
    send: (args) => client.customCommand(args as string[]),
    info: () => client.customCommand(['INFO', 'memory']),
    isCluster: isFunction(client as unknown as Shape, 'pubsubShardChannels'),
    warnings: [],
    onReady: undefined,
  };
}

/** Returns the connection of a client of any known kind. */
export function connectionOf(client: RedisClient): Connection {
  if (typeof client === 'function') {
    return { send: client, info: undefined, isCluster: false, warnings: [], onReady: undefined };
  }
  const shape = (client ?? {}) as unknown as Shape;
  if (isFunction(shape, 'customCommand')) return fromGlide(client as GlideLike);
  if (isFunction(shape, 'call')) return fromIoredis(client as IoredisLike);
  if (isFunction(shape, 'sendCommand')) return fromNodeRedis(client as NodeRedisLike);
  const what = 'a client of ioredis, node-redis, iovalkey or valkey-glide, or a send function';
  throw expected('ERR_INVALID_OPTION', what, client);
}
