/** `redisStore`: validates its options, warns about a harmful setup, and adds failure handling. */
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
import {
  type Connection,
  connectionOf,
  type RedisClient,
  type RedisWarning,
  type Send,
} from './client.ts';
import { DenyCache } from './deny-cache.ts';
import { KeyNames } from './keys.ts';
import { RedisStore } from './redis-store.ts';
import { evictionWarning, parseServerInfo } from './server.ts';

export interface DenyCacheOptions {
  /** The longest time for which a denial is cached, in ms. Default 1,000. */
  readonly maxMs?: number;
  /** The most keys in the cache. Default 10,000. */
  readonly maxKeys?: number;
}

export interface RedisStoreOptions extends FailureOptions {
  /** The prefix of all keys. Default `'s:'`. */
  readonly prefix?: string;
  /** Caches denials in this process while they are valid. On by default; `false` is off. */
  readonly denyCache?: DenyCacheOptions | false;
  /** For a `send` function: whether it connects to a Cluster. Clients are detected. */
  readonly cluster?: boolean;
  /** Called with warnings about a harmful setup. Default: `process.emitWarning`. */
  readonly onWarning?: (warning: RedisWarning) => void;
}

const OPTIONS = ['prefix', 'denyCache', 'cluster', 'onWarning'];

function denyCacheOf(options: DenyCacheOptions | false | undefined): DenyCache | undefined {
  if (options === false) return undefined;
  if (options !== undefined) checkFields(options, ['maxMs', 'maxKeys']);
  const { maxMs = 1000, maxKeys = 10_000 } = options ?? {};
  for (const [name, value] of Object.entries({ maxMs, maxKeys })) {
    if (isInteger(value, 1)) continue;
    throw expected('ERR_INVALID_OPTION', `\`denyCache.${name}\` to be an integer >= 1`, value);
  }
  return new DenyCache(maxMs, maxKeys);
}

/**
 * Calls `then` once, after the first reply, when there is a connection. Async, so that a client
 * that throws instead of rejecting also rejects.
 */
function afterFirst(send: Send, then: () => void): Send {
  let isFirst = true;
  return async (args, key) => {
    const reply = await send(args, key);
    if (isFirst) {
      isFirst = false;
      then();
    }
    return reply;
  };
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
 * Creates a store in Redis or Valkey, for limiters that many processes share.
 *
 *     const store = redisStore(new Redis({ enableOfflineQueue: false }), { onFailure: 'deny' });
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): GuardedStore {
  checkFields(options, [...OPTIONS, ...FAILURE_OPTIONS]);
  const { prefix = 's:', denyCache, cluster, onWarning = emitWarning, ...failure } = options;
  const isPlain = typeof prefix === 'string' && !/[{}]/.test(prefix);
  checkOption(isPlain, '`prefix` to be text without braces', prefix);
  checkOption(typeof onWarning === 'function', '`onWarning` to be a function', onWarning);
  checkOption([true, false, undefined].includes(cluster), '`cluster` to be a boolean', cluster);
  const { send, info, warnings, connectedWarnings, onReady, ...connection } = connectionOf(client);
  const isCluster = cluster ?? connection.isCluster;
  const warn = warnOnError(onWarning);
  for (const warning of warnings) warn(warning);
  const onFirstReply = (): void => {
    for (const warning of connectedWarnings?.() ?? []) warn(warning);
    void checkEviction(info, warn);
  };
  const batcher = new Batcher(
    afterFirst(send, onFirstReply),
    isCluster,
    failure.deadlineMs ?? DEFAULT_DEADLINE_MS,
  );
  const [names, denials] = [new KeyNames(prefix), denyCacheOf(denyCache)];
  return withFailurePolicy(new RedisStore(batcher, isCluster, names, denials, onReady), failure);
}
