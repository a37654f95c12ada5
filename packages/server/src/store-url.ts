/** From `--store` to a store: the embedded one, or Redis in any of its arrangements. */
import type { Cluster, Redis } from 'ioredis';
import { memoryStore, type Store } from 'sluice';
import { type RedisStoreOptions, redisStore } from 'sluice/redis';
import { openRedisClient } from './redis-client.ts';
import type { Settings } from './settings.ts';
import { parseStoreAddress } from './store-address.ts';

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

/** Of a Cluster, what each of its masters says, one after the other. */
async function infoOf(client: Redis | Cluster, section: string): Promise<string> {
  const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
  return (await Promise.all(nodes.map((node) => node.call('INFO', [section])))).join('\n');
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
  const redis = await openRedisClient(parseStoreAddress(settings.store));
  const { client } = redis;
  // Neither at first, so that a server that cannot be reached at all is told about too.
  let state: 'up' | 'down' | undefined;
  let isClosed = false;
  const turn = (to: 'up' | 'down', error?: Error): void => {
    if (to === state || isClosed) return;
    state = to;
    listeners.onConnection(to, error);
  };
  const connected = new Promise<void>((resolve) => client.once('ready', resolve));
  client.on('ready', () => turn('up'));
  client.on('close', () => turn('down'));
  // Without a listener ioredis prints them; what follows from them the failure policy decides.
  client.on('error', (error: Error) => turn('down', error));
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
      isClosed = true;
      redis.close();
    },
  };
}
