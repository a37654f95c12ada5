/** Redis and Valkey: one server, Sentinel or Cluster. */
import type { StoreKind } from '../store-kind.ts';
import { openRedisStore } from './open.ts';
import { parseRedisUrl, redactRedisUrl, SCHEMES } from './url.ts';

export const redisKind: StoreKind = {
  name: 'redis',
  title: 'Redis',
  schemes: SCHEMES.map((scheme) => `${scheme}://`),
  isEmbedded: false,
  validate: (url) => void parseRedisUrl(url),
  redact: redactRedisUrl,
  open: openRedisStore,
};
