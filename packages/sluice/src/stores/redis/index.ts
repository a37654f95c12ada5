/** `sluice/redis`: the store that many processes share. */
export type {
  GlideLike,
  IoredisLike,
  NodeRedisLike,
  RedisClient,
  RedisWarning,
  Send,
} from './client.ts';
export { type DenyCacheOptions, type RedisStoreOptions, redisStore } from './redis-store.ts';
