/** Redis clients are accepted without adapters. This file only has to compile. */
import { GlideClient, GlideClusterClient } from '@valkey/valkey-glide';
import { Cluster, Redis } from 'ioredis';
import { Redis as Valkey, Cluster as ValkeyCluster } from 'iovalkey';
import { createClient, createCluster, createSentinel } from 'redis';
import { createLimiter, type Store } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';

export const stores: Store[] = [
  redisStore(new Redis()),
  redisStore(new Redis({ sentinels: [{ host: 'a', port: 1 }], name: 'main' })),
  redisStore(new Cluster([])),
  redisStore(new Valkey()),
  redisStore(new ValkeyCluster([])),
  redisStore(createClient()),
  redisStore(createCluster({ rootNodes: [] })),
  redisStore(createSentinel({ name: 'main', sentinelRootNodes: [] })),
  redisStore(await GlideClient.createClient({ addresses: [] })),
  redisStore(await GlideClusterClient.createClient({ addresses: [] })),
  redisStore(async (args: readonly string[], key: string) => [args, key]),
  redisStore(new Redis(), {
    onFailure: 'deny',
    deadlineMs: 20,
    localShare: 0.5,
    maxInFlight: 100,
    prefix: 'app:',
    denyCache: { maxMs: 100, maxKeys: 10 },
    onWarning: ({ code, message }) => console.warn(code, message),
  }),
];

// @ts-expect-error: an address is not a client.
redisStore('redis://127.0.0.1');
// @ts-expect-error: an unknown failure action.
redisStore(new Redis(), { onFailure: 'open' });

const limiter = createLimiter({
  policies: { p: { limit: 5, window: '1m', onFailure: 'deny' } },
  store: stores[0],
});
await limiter.check('p', 'a', { id: 'x', onFailure: 'allow' });
await limiter.check([{ policy: 'p', key: 'a' }], { id: 'x', onFailure: 'throw' });
// @ts-expect-error: a peek charges nothing, so it has no id.
await limiter.peek('p', 'a', { id: 'x' });
// @ts-expect-error: a Redis store has no synchronous methods.
limiter.checkSync('p', 'a');
const { degraded } = await limiter.check('p', 'a');
degraded?.reason satisfies 'timeout' | 'error' | 'open' | 'overload' | undefined;
