/** `redisStore`: validates options, warns about settings that weaken limits, builds the store. */
import { checkFields, expected, isInteger } from '../../errors.ts';
import {
  DEFAULT_DEADLINE_MS,
  FAILURE_OPTIONS,
  type FailureOptions,
  type GuardedStore,
  withFailurePolicy,
} from '../../failure/guarded-store.ts';
import { emitWarning, warnOnError } from '../../warning.ts';
import { Batcher } from './batch.ts';
import { type Connection, connectionOf, type RedisClient, type RedisWarning } from './client.ts';
import { DenyCache } from './deny-cache.ts';
import { evictionWarning, parseServerInfo } from './eviction-policy.ts';
import { KeyNames } from './keys.ts';
import { RedisStore } from './redis-store.ts';
import type { Subscribe } from './releases.ts';

export interface DenyCacheOptions {
  /**
   * Maximum time for which a denial is cached, in ms. Refunds by other processes take effect after
   * at most this time. Default 1,000.
   *
   * @example denyCache: { maxMs: 200 }
   */
  readonly maxMs?: number;
  /**
   * Maximum number of keys in the cache. Default 10,000.
   *
   * @example denyCache: { maxKeys: 50_000 }
   */
  readonly maxKeys?: number;
}

export interface StoreLeaseOptions {
  /**
   * The longest lease, in ms. Never longer than 1/32 of the window. Default 1,000.
   *
   * @example leases: { maxMs: 500 }
   */
  readonly maxMs?: number;
}

export interface RedisStoreOptions extends FailureOptions {
  /**
   * Prefix of all keys in Redis, without braces. Default `'s:'`.
   *
   * @example prefix: 'staging:'
   */
  readonly prefix?: string;
  /**
   * Caches denials in this process, so that clients that retry too early cause no load on Redis.
   * Set `false` to disable it, or an object to change its bounds. Default: enabled, with the
   * defaults of its bounds.
   *
   * @example denyCache: false
   */
  readonly denyCache?: DenyCacheOptions | false;
  /**
   * Set `true` if `client` is a `send` function that connects to a Redis Cluster. Default: a
   * Cluster is detected from the client, and a `send` function connects to a single server.
   *
   * @example cluster: true
   */
  readonly cluster?: boolean;
  /**
   * Subscribes to a channel, so that waiters for a concurrency limit are woken when another process
   * releases a hold. Default: a second connection of the client. For valkey-glide and a `send`
   * function there is no default, and waiters only poll.
   *
   * @example subscribe: (channel, onMessage) => listen(channel, onMessage)
   */
  readonly subscribe?: Subscribe;
  /**
   * Lets this process borrow units of the policies with the option `lease`, and admit calls with
   * them without a call to Redis. Default: off.
   *
   * @example leases: { maxMs: 500 }
   */
  readonly leases?: StoreLeaseOptions | undefined;
  /**
   * Called with warnings about client or server settings that weaken limits. Default: they are
   * passed to `process.emitWarning`.
   *
   * @example onWarning: ({ code, message }) => logger.warn({ code }, message)
   */
  readonly onWarning?: (warning: RedisWarning) => void;
}

const OPTIONS = ['prefix', 'denyCache', 'cluster', 'subscribe', 'leases', 'onWarning'];

function createDenyCache(options: DenyCacheOptions | false | undefined): DenyCache | undefined {
  if (options === false) return undefined;
  if (options !== undefined) checkFields(options, ['maxMs', 'maxKeys']);
  const { maxMs = 1000, maxKeys = 10_000 } = options ?? {};
  for (const [name, value] of Object.entries({ maxMs, maxKeys })) {
    if (isInteger(value, 1)) continue;
    throw expected('ERR_INVALID_OPTION', `\`denyCache.${name}\` to be an integer >= 1`, value);
  }
  return new DenyCache(maxMs, maxKeys);
}

/** Returns the longest lease in ms, or undefined without leases. */
function maxLeaseOf(options: StoreLeaseOptions | undefined): number | undefined {
  if (options === undefined) return undefined;
  checkFields(options, ['maxMs']);
  const { maxMs = 1000 } = options;
  if (isInteger(maxMs, 1)) return maxMs;
  throw expected('ERR_INVALID_OPTION', '`leases.maxMs` to be an integer >= 1', maxMs);
}

function checkOption(isValid: boolean, what: string, value: unknown): void {
  if (!isValid) throw expected('ERR_INVALID_OPTION', what, value);
}

/** Warns if the server evicts keys. Does nothing if `INFO` is not permitted. */
async function checkEviction(info: Connection['info'], onWarning: (warning: RedisWarning) => void) {
  const reply = await (async () => info?.())().catch(() => '');
  const report = parseServerInfo(reply);
  if (report.evicts) onWarning(evictionWarning(report));
}

/**
 * Creates a store in Redis or Valkey, whose counters many processes share.
 *
 *     const store = redisStore(new Redis({ enableOfflineQueue: false }), { onFailure: 'deny' });
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): GuardedStore {
  checkFields(options, [...OPTIONS, ...FAILURE_OPTIONS]);
  const { prefix = 's:', denyCache, cluster, subscribe, leases, ...rest } = options;
  const { onWarning = emitWarning, ...failure } = rest;
  const isPlain = typeof prefix === 'string' && !/[{}]/.test(prefix);
  checkOption(isPlain, '`prefix` to be text without braces', prefix);
  checkOption(typeof onWarning === 'function', '`onWarning` to be a function', onWarning);
  checkOption([true, false, undefined].includes(cluster), '`cluster` to be a boolean', cluster);
  const isFunction = subscribe === undefined || typeof subscribe === 'function';
  checkOption(isFunction, '`subscribe` to be a function', subscribe);
  const { send, info, warnings, connectedWarnings, onReady, ...connection } = connectionOf(client);
  const isCluster = cluster ?? connection.isCluster;
  const warn = warnOnError(onWarning);
  for (const warning of warnings) warn(warning);
  const onFirstReply = (): void => {
    for (const warning of connectedWarnings?.() ?? []) warn(warning);
    void checkEviction(info, warn);
  };
  const deadlineMs = failure.deadlineMs ?? DEFAULT_DEADLINE_MS;
  const batcher = new Batcher(send, isCluster, deadlineMs, onFirstReply);
  const [names, denials] = [new KeyNames(prefix), createDenyCache(denyCache)];
  const listen = subscribe ?? connection.subscribe;
  const maxLeaseMs = maxLeaseOf(leases);
  const store = new RedisStore(batcher, isCluster, names, denials, onReady, listen, maxLeaseMs);
  return withFailurePolicy(store, failure);
}
