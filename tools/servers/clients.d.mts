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

export const clients: Readonly<
  Record<ClientName, (url: string, options?: { tls?: { ca: string } }) => Promise<OpenClient>>
>;

export const clusterClients: Readonly<
  Record<ClientName, (nodes: readonly Address[]) => Promise<OpenClient>>
>;

export const sentinelClients: Readonly<
  Record<
    Exclude<ClientName, 'valkey-glide'>,
    (sentinels: readonly Address[], name: string) => Promise<OpenClient>
  >
>;
