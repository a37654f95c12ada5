/**
 * Checks the eviction policy of the Redis server. If the server evicts keys when its memory is
 * full, a flood of other keys can evict a counter, and its limit starts again.
 */
import type { RedisWarning } from './client.ts';

export interface ServerReport {
  /** `maxmemory-policy`, such as `noeviction` or `allkeys-lru`; empty if unknown. */
  readonly evictionPolicy: string;
  /** Whether the server has a memory limit and evicts keys to stay below it. */
  readonly evicts: boolean;
}

/** Parses the reply to `INFO memory`: one text, or one for each node of a Cluster. */
export function parseServerInfo(reply: unknown): ServerReport {
  const text =
    typeof reply === 'string' ? reply : JSON.stringify(reply)?.replaceAll('\\r\\n', '\n');
  const field = (name: string): string =>
    new RegExp(`\\b${name}:([\\w-]+)`).exec(text ?? '')?.[1] ?? '';
  const evictionPolicy = field('maxmemory_policy');
  const isBounded = Number(field('maxmemory')) > 0;
  return { evictionPolicy, evicts: isBounded && /^(?:allkeys|volatile)-/.test(evictionPolicy) };
}

export function evictionWarning({ evictionPolicy }: ServerReport): RedisWarning {
  return {
    code: 'WARN_REDIS_EVICTS',
    message:
      `Redis evicts keys when its memory is full (maxmemory-policy ${evictionPolicy}): a flood ` +
      'of other keys can remove a limit. Set maxmemory-policy noeviction, or use another server.',
  };
}
