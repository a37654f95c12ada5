/** Opens a Redis store and reports the state of its connection. */
import type { Cluster, Redis } from 'ioredis';
import { redisStore } from 'sluice/redis';
import type { StoreConnection, StoreListeners, StoreSettings } from '../store-kind.ts';
import { openRedisClient } from './client.ts';
import { parseRedisUrl } from './url.ts';

/** Resolves to the reply of `INFO`. With a Cluster, joins the replies of all masters. */
async function infoOf(client: Redis | Cluster, section: string): Promise<string> {
  const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
  return (await Promise.all(nodes.map((node) => node.call('INFO', [section])))).join('\n');
}

export async function openRedisStore(
  { store, prefix, deadlineMs, onFailure, localShare, leaseMs }: StoreSettings,
  listeners: StoreListeners,
): Promise<StoreConnection> {
  const { client, close } = await openRedisClient(parseRedisUrl(store));
  // Undefined at first, so that a server that is unreachable from the start is reported as down.
  let state: 'up' | 'down' | undefined;
  let isClosed = false;
  const setState = (next: 'up' | 'down', error?: Error): void => {
    if (next === state || isClosed) return;
    state = next;
    listeners.onConnection(next, error);
  };
  const connected = new Promise<void>((resolve) => client.once('ready', resolve));
  client.on('ready', () => setState('up'));
  client.on('close', () => setState('down'));
  // Without a listener, ioredis would print errors. The failure policy handles failed commands.
  client.on('error', (error: Error) => setState('down', error));
  return {
    store: redisStore(client, {
      ...{ prefix, deadlineMs, onFailure, localShare },
      ...(leaseMs !== undefined && { leases: { maxMs: leaseMs } }),
      onWarning: (warning) => listeners.onWarning(warning),
    }),
    connected,
    info: (section) => infoOf(client, section),
    close: async () => {
      isClosed = true;
      close();
    },
  };
}
