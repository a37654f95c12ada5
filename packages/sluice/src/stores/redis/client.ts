/**
 * Adapts any Redis client to one function: `send(args, key)`. Clients are recognized by their
 * methods, so that none of them is a dependency. Client options that weaken limits cause a warning
 * with the value to set: options that resend or queue commands, and options with which the client
 * does not detect a failover or a server that has stopped responding.
 */
import { expected } from '../../errors.ts';
import type { Warning } from '../../warning.ts';
import { slotOf } from './keys.ts';
import { type OnReady, onReadyOf } from './ready-signal.ts';
import { autoResubscribe, type Subscribe } from './releases.ts';
import { withSilenceCheck } from './silent-nodes.ts';
import { ioredisSubscriber, nodeRedisSubscriber, sentinelSubscriber } from './subscribers.ts';

/**
 * Sends one command and resolves to its reply. `key` determines the node in a Cluster.
 *
 *     const send: Send = ([command, ...args]) => client.call(command, args);
 */
export type Send = (args: readonly string[], key: string) => Promise<unknown>;

/** ioredis and iovalkey: `new Redis()`, with or without Sentinel, and `new Cluster()`. */
export interface IoredisLike {
  call(command: string, args: string[]): Promise<unknown>;
  readonly options: object;
  readonly isCluster?: boolean;
}

/** node-redis: `createClient()`, `createCluster()`, `createSentinel()`. */
export interface NodeRedisLike {
  // biome-ignore lint/suspicious/noExplicitAny: the three clients have different parameters.
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
  /** Sends `INFO memory`. Undefined for a `send` function, which is called only for scripts. */
  readonly info: (() => Promise<unknown>) | undefined;
  /** Whether the keys of one command must be in one Cluster slot. */
  readonly isCluster: boolean;
  readonly warnings: readonly RedisWarning[];
  /** Returns warnings about options that the client exposes only while it is connected. */
  readonly connectedWarnings?: () => readonly RedisWarning[];
  /** Adds a listener for new connections. Undefined if the client has no events. */
  readonly onReady: OnReady | undefined;
  /** Subscribes on a connection of its own; undefined if the client cannot be duplicated. */
  readonly subscribe?: Subscribe | undefined;
}

type Shape = Readonly<Record<string, unknown>>;

const hasMethod = (client: Shape, name: string): boolean => typeof client[name] === 'function';

function offlineQueueWarning(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_OFFLINE_QUEUE',
    message:
      'The Redis client queues commands while it is disconnected: they pile up, and are charged ' +
      `long after their callers got another decision. Set ${fix}.`,
  };
}

const RESEND_WARNING: RedisWarning = {
  code: 'WARN_REDIS_RESEND',
  message:
    'The Redis client sends commands again after a reconnect, although they may have been ' +
    'executed: calls are charged twice. Set autoResendUnfulfilledCommands: false.',
};

const CLUSTER_RESEND_WARNING: RedisWarning = {
  code: 'WARN_REDIS_RESEND',
  message:
    'The Cluster client sends commands again after a lost connection, although they may have ' +
    'been executed: calls are charged twice. Set retryDelayOnFailover: 0.',
};

const KEY_PREFIX_WARNING: RedisWarning = {
  code: 'WARN_REDIS_KEY_PREFIX',
  message:
    'The keyPrefix of the Redis client has a brace, which decides the Cluster slot of every key. ' +
    'Use the prefix option of redisStore instead.',
};

/** Returns the warning that a connection to a server that stopped responding is kept. */
function silentConnectionWarning(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_SOCKET_TIMEOUT',
    message:
      'The Redis client never replaces a connection whose server stopped responding without ' +
      `closing it, so calls stay degraded after the server or a replica is available. Set ${fix}.`,
  };
}

/** Returns the warning that the client keeps using the old master after a failover. */
function missedFailoverWarning(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_FAILOVER',
    message:
      'The Redis client does not detect a failover while its connection to the old master is ' +
      `open: calls are charged there and lost, or stay degraded. Set ${fix}.`,
  };
}

const isPositive = (value: unknown): boolean => typeof value === 'number' && value > 0;

/** Returns warnings if ioredis or iovalkey cannot detect a server that is down, or a failover. */
function ioredisFailoverWarnings(options: Shape, isCluster: boolean): RedisWarning[] {
  const warnings: RedisWarning[] = [];
  const nodes = (isCluster ? (options.redisOptions ?? {}) : options) as Shape;
  if (!isPositive(nodes.socketTimeout)) {
    const path = isCluster ? 'redisOptions.socketTimeout' : 'socketTimeout';
    warnings.push(silentConnectionWarning(`${path}: 1000`));
  }
  if (isCluster && !isPositive(options.slotsRefreshInterval)) {
    warnings.push(missedFailoverWarning('slotsRefreshInterval: 1000'));
  }
  if (Array.isArray(options.sentinels) && options.failoverDetector !== true) {
    warnings.push(missedFailoverWarning('failoverDetector: true'));
  }
  return warnings;
}

/**
 * Returns warnings about the options of ioredis and iovalkey. A Cluster has the options of its
 * nodes in `redisOptions`.
 */
function ioredisWarnings({ options, isCluster }: IoredisLike): RedisWarning[] {
  const own = options as Shape;
  const inner = (own.redisOptions ?? {}) as Shape;
  const setting = (name: string): unknown => own[name] ?? inner[name];
  const warnings = ioredisFailoverWarnings(own, isCluster === true);
  if (setting('enableOfflineQueue') !== false) {
    warnings.push(offlineQueueWarning('enableOfflineQueue: false'));
  }
  if (setting('autoResendUnfulfilledCommands') !== false) warnings.push(RESEND_WARNING);
  if (isCluster && setting('retryDelayOnFailover') !== 0) warnings.push(CLUSTER_RESEND_WARNING);
  if (String(setting('keyPrefix') ?? '').includes('{')) warnings.push(KEY_PREFIX_WARNING);
  return warnings;
}

function fromIoredis(client: IoredisLike): Connection {
  const shape = client as unknown as Shape;
  const cluster = client as unknown as { nodes(): readonly unknown[] };
  const nodesOf = client.isCluster ? () => cluster.nodes() : () => [client];
  const canDuplicate = hasMethod(shape, client.isCluster ? 'nodes' : 'duplicate');
  const onReady = onReadyOf(client, 'ready', '+node');
  return {
    // iovalkey and ioredis 5 find the keys of a command only if its name is in lower case. Without
    // the keys, a Cluster client sends the command to any node.
    send: (args) => client.call(args[0].toLowerCase(), args.slice(1)),
    info: () => client.call('INFO', ['memory']),
    isCluster: client.isCluster === true,
    warnings: ioredisWarnings(client),
    onReady,
    subscribe: canDuplicate ? autoResubscribe(ioredisSubscriber(nodesOf), onReady) : undefined,
  };
}

/**
 * Returns warnings about the options of node-redis. `path` precedes the names of options: a Cluster
 * has the options of its nodes in `defaults`.
 */
function nodeRedisWarnings(options: Shape | undefined, path = ''): RedisWarning[] {
  if (options === undefined) return [];
  const warnings: RedisWarning[] = [];
  if (options.disableOfflineQueue !== true) {
    warnings.push(offlineQueueWarning(`${path}disableOfflineQueue: true`));
  }
  // The timeout also closes idle connections, so the ping interval must be shorter.
  const socketTimeout = socketTimeoutOf(options);
  const isPinged = isPositive(options.pingInterval) && isPositive(socketTimeout);
  if (!isPinged || (options.pingInterval as number) >= (socketTimeout as number)) {
    const fix = `${path}pingInterval: 200 and ${path}socket.socketTimeout: 500`;
    warnings.push(silentConnectionWarning(fix));
  }
  return warnings;
}

const socketTimeoutOf = ({ socket }: Shape): unknown =>
  (socket as Shape | undefined)?.socketTimeout;

/** Public properties of `createCluster()`. Its nodes have clients while it is connected. */
interface NodeRedisCluster extends NodeRedisLike {
  readonly masters: readonly ClusterNode[];
  readonly slots: readonly { readonly master?: ClusterNode }[];
}

interface ClusterNode {
  readonly client?: { readonly options?: Shape };
}

/**
 * Returns a function that sends a command to the node of a key. If the client has a socket timeout,
 * it rejects commands to a node that has not replied for half of that time, see `silent-nodes.ts`.
 */
function clusterSend(cluster: NodeRedisCluster): Send {
  const masterOf = (key: string): ClusterNode | undefined => cluster.slots[slotOf(key)]?.master;
  const silentMsOf = ({ client }: ClusterNode): number => {
    const socketTimeout = socketTimeoutOf(client?.options ?? {});
    return isPositive(socketTimeout) ? (socketTimeout as number) / 2 : Number.POSITIVE_INFINITY;
  };
  const send: Send = (args, key) => cluster.sendCommand(key, false, args);
  return withSilenceCheck(send, masterOf, silentMsOf);
}

function fromNodeRedisCluster(cluster: NodeRedisCluster): Connection {
  const send = clusterSend(cluster);
  const onReady = onReadyOf(cluster, 'ready', 'node-ready');
  const nodesOf = () => cluster.masters.flatMap(({ client }) => (client ? [client] : []));
  return {
    send,
    info: () => send(['INFO', 'memory'], ''),
    isCluster: true,
    warnings: [],
    connectedWarnings: () => {
      const connected = cluster.masters.find(({ client }) => client !== undefined);
      return nodeRedisWarnings(connected?.client?.options, 'defaults.');
    },
    onReady,
    subscribe: autoResubscribe(nodeRedisSubscriber(nodesOf), onReady),
  };
}

function fromNodeRedis(client: NodeRedisLike): Connection {
  const shape = client as unknown as Shape;
  if (hasMethod(shape, 'getSlotRandomNode')) {
    return fromNodeRedisCluster(client as NodeRedisCluster);
  }
  const isSentinel = hasMethod(shape, 'getSentinelNode');
  const send: Send = (args) =>
    isSentinel ? client.sendCommand(false, args) : client.sendCommand(args);
  const onReady = onReadyOf(client, 'ready', 'node-ready');
  const own = hasMethod(shape, 'duplicate') ? nodeRedisSubscriber(() => [client]) : undefined;
  const open = isSentinel ? sentinelSubscriber(client) : own;
  return {
    send,
    info: () => send(['INFO', 'memory'], ''),
    isCluster: false,
    // `createSentinel` does not expose its options.
    warnings: nodeRedisWarnings(shape.options as Shape | undefined),
    onReady,
    subscribe: open && autoResubscribe(open, isSentinel ? undefined : onReady),
  };
}

function fromGlide(client: GlideLike): Connection {
  return {
    send: (args) => client.customCommand(args as string[]),
    info: () => client.customCommand(['INFO', 'memory']),
    isCluster: hasMethod(client as unknown as Shape, 'pubsubShardChannels'),
    warnings: [],
    onReady: undefined,
  };
}

/** Returns the connection of a client. Throws if the client is of no known kind. */
export function connectionOf(client: RedisClient): Connection {
  if (typeof client === 'function') {
    return { send: client, info: undefined, isCluster: false, warnings: [], onReady: undefined };
  }
  const shape = (client ?? {}) as unknown as Shape;
  if (hasMethod(shape, 'customCommand')) return fromGlide(client as GlideLike);
  if (hasMethod(shape, 'call')) return fromIoredis(client as IoredisLike);
  if (hasMethod(shape, 'sendCommand')) return fromNodeRedis(client as NodeRedisLike);
  const what = 'a client of ioredis, node-redis, iovalkey or valkey-glide, or a send function';
  throw expected('ERR_INVALID_OPTION', what, client);
}
