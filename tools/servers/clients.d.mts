import type { RedisClient } from '../../packages/sluice/src/stores/redis/client.ts';

export interface OpenClient {
  readonly client: RedisClient;
  close(): Promise<void>;
}

export type ClientName = 'ioredis' | 'iovalkey' | 'node-redis' | 'valkey-glide';

interface Address {
  readonly host: string;
  readonly port: number;
}

interface OpenOptions {
  readonly tls?: { readonly ca: string };
  /** ioredis and iovalkey only. */
  readonly socketTimeout?: number;
}

export const clients: Readonly<
  Record<ClientName, (url: string, options?: OpenOptions) => Promise<OpenClient>>
>;

export const clusterClients: Readonly<
  Record<ClientName, (nodes: readonly Address[], options?: OpenOptions) => Promise<OpenClient>>
>;

export const sentinelClients: Readonly<
  Record<
    Exclude<ClientName, 'valkey-glide'>,
    (sentinels: readonly Address[], name: string) => Promise<OpenClient>
  >
>;

/** The options of docs/redis.md, for one server by default. */
export const IOREDIS: object;
export const IOREDIS_SENTINEL: object;
export const IOREDIS_CLUSTER: { readonly redisOptions: object };
export const NODE_REDIS: object;
export const NODE_REDIS_SENTINEL: object;
export const NODE_REDIS_CLUSTER: object;
export const GLIDE_CLUSTER: object;
