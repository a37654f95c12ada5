/**
 * Any Redis client, as one function: `send(args, key)`. Clients are recognised by their shape, so
 * that none of them is a dependency. A setting under which a client repeats or hoards commands
 * behind the limiter's back is named in a warning, with what to set instead.
 */
import { expected } from '../../errors.ts';
import type { Warning } from '../../warning.ts';
import { type OnReady, onReadyOf } from './ready-signal.ts';

/** Sends one command. `key` is the key by which a Cluster finds the node. */
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
  /** Asks the server about its memory; undefined where only scripts can be sent. */
  readonly info: (() => Promise<unknown>) | undefined;
  /** Whether the keys of one command must lie in one slot. */
  readonly isCluster: boolean;
  readonly warnings: readonly RedisWarning[];
  /** Reports that the client has connected; undefined for clients that emit no events. */
  readonly onReady: OnReady | undefined;
}

type Shape = Readonly<Record<string, unknown>>;

const isFunction = (client: Shape, name: string): boolean => typeof client[name] === 'function';

function offlineQueue(fix: string): RedisWarning {
  return {
    code: 'WARN_REDIS_OFFLINE_QUEUE',
    message:
      'The Redis client queues commands while it is disconnected: they pile up, and are charged ' +
      `long after their callers were told something else. Set ${fix}.`,
  };
}

const RESENDS: RedisWarning = {
  code: 'WARN_REDIS_RESEND',
  message:
    'The Redis client sends commands again after a reconnect, although they may have been done: ' +
    'calls are charged twice. Set autoResendUnfulfilledCommands: false.',
};

const CLUSTER_RESENDS: RedisWarning = {
  code: 'WARN_REDIS_RESEND',
  message:
    'The Cluster client sends commands again after a lost connection, although they may have ' +
    'been done: calls are charged twice. Set retryDelayOnFailover: 0.',
};

const KEY_PREFIX: RedisWarning = {
  code: 'WARN_REDIS_KEY_PREFIX',
  message:
    'The keyPrefix of the Redis client has a brace, which decides the Cluster slot of every key. ' +
    'Use the prefix option of redisStore instead.',
};

/** Checks the settings of ioredis and iovalkey; those of a Cluster lie one level deeper. */
function ioredisWarnings({ options, isCluster }: IoredisLike): RedisWarning[] {
  const own = options as Shape;
  const inner = (own.redisOptions ?? {}) as Shape;
  const setting = (name: string): unknown => own[name] ?? inner[name];
  const warnings: RedisWarning[] = [];
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
    // In lower case: iovalkey and ioredis 5 find the keys of a command only so, and a Cluster
    // client that does not find them sends the command to any node.
    send: ([command, ...args]) => client.call(command.toLowerCase(), args),
    info: () => client.call('INFO', ['memory']),
    isCluster: client.isCluster === true,
    warnings: ioredisWarnings(client),
    onReady: onReadyOf(client, 'ready', '+node'),
  };
}

function fromNodeRedis(client: NodeRedisLike): Connection {
  const shape = client as unknown as Shape;
  const isCluster = isFunction(shape, 'getSlotRandomNode');
  const isSentinel = isFunction(shape, 'getSentinelNode');
  // Where a kind of client does not show its settings, nothing can be said about them.
  const options = (shape.options ?? shape._options) as Shape | undefined;
  const nested = (options?.defaults ?? {}) as Shape;
  const queues =
    options !== undefined && (options.disableOfflineQueue ?? nested.disableOfflineQueue) !== true;
  let send = (args: readonly string[], _key?: string) => client.sendCommand(args);
  if (isCluster) send = (args, key) => client.sendCommand(key, false, args);
  if (isSentinel) send = (args) => client.sendCommand(false, args);
  return {
    send,
    info: () => send(['INFO', 'memory']),
    isCluster,
    warnings: queues ? [offlineQueue('disableOfflineQueue: true')] : [],
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

/** The connection that a client of any known kind makes. */
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
