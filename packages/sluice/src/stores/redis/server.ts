/**
 * What there is to know about the server. A server that evicts keys when its memory is full lets a
 * flood of junk keys push out a counter, and with it a limit: that is worth a warning.
 */
import type { RedisWarning } from './client.ts';

export interface ServerReport {
  /** What the server does when its memory is full, such as `noeviction` or `allkeys-lru`. */
  readonly evictionPolicy: string;
  /** Whether it has a memory limit and gives up keys to keep it. */
  readonly evicts: boolean;
}

/** Reads the reply to `INFO memory`: one text, or one for each node of a Cluster. */
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
      `Redis gives up keys when its memory is full (maxmemory-policy ${evictionPolicy}): a flood ` +
      'of other keys can erase a limit. Set maxmemory-policy noeviction, or use another server.',
  };
}
