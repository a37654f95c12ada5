/** `sluice/redis`: a store in Redis or Valkey, shared by many processes. */
export type {
  GlideLike,
  IoredisLike,
  NodeRedisLike,
  RedisClient,
  RedisWarning,
  Send,
} from './client.ts';
export { type DenyCacheOptions, type RedisStoreOptions, redisStore } from './create-store.ts';
export type { Subscribe } from './releases.ts';
