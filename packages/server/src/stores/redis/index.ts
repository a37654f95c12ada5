/** Redis and Valkey: one server, Sentinel or Cluster. */
import type { StoreKind } from '../store-kind.ts';
import { parseRedisUrl, redactRedisUrl, SCHEMES } from './url.ts';

export const redisKind: StoreKind = {
  name: 'redis',
  title: 'Redis',
  forms: SCHEMES.map((scheme) => `${scheme}://`),
  isEmbedded: false,
  validate: (url) => void parseRedisUrl(url),
  redact: redactRedisUrl,
  // Loaded on use: programs that only validate settings need neither the scripts nor the client.
  open: async (settings, listeners) =>
    (await import('./open.ts')).openRedisStore(settings, listeners),
};
