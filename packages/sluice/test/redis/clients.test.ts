import { Redis as Ioredis, Cluster as IoredisCluster } from 'ioredis';
import { Redis as Iovalkey } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { describe, expect, it } from 'vitest';
import { connectionOf, type RedisClient } from '../../src/stores/redis/client.ts';

const lazy = { lazyConnect: true } as const;
const nodes = [{ host: '127.0.0.1', port: 1 }];
const codesOf = (client: unknown): string[] =>
  connectionOf(client as RedisClient).warnings.map(({ code }) => code);

describe('the settings of a client', () => {
  it.each([
    ['ioredis', new Ioredis(lazy)],
    ['iovalkey', new Iovalkey(lazy)],
  ])('of %s by default queue while offline and send again: both are named', (_, client) => {
    expect(codesOf(client)).toEqual(['WARN_REDIS_OFFLINE_QUEUE', 'WARN_REDIS_RESEND']);
  });

  it('of a Cluster of ioredis by default send again in two ways', () => {
    const { warnings } = connectionOf(new IoredisCluster(nodes, lazy) as never);
    expect(warnings.map(({ code }) => code)).toEqual([
      'WARN_REDIS_OFFLINE_QUEUE',
      'WARN_REDIS_RESEND',
      'WARN_REDIS_RESEND',
    ]);
    expect(warnings[2].message).toContain('Set retryDelayOnFailover: 0');
  });

  it('of node-redis by default queue while offline', () => {
    expect(codesOf(createClient())).toEqual(['WARN_REDIS_OFFLINE_QUEUE']);
    expect(codesOf(createCluster({ rootNodes: [] }))).toEqual(['WARN_REDIS_OFFLINE_QUEUE']);
  });

  it('a warning tells the setting that mends it', () => {
    const [queue, resend] = connectionOf(new Ioredis(lazy) as never).warnings;
    expect(queue.message).toContain('Set enableOfflineQueue: false');
    expect(resend.message).toContain('Set autoResendUnfulfilledCommands: false');
    const [nodeRedis] = connectionOf(createClient() as never).warnings;
    expect(nodeRedis.message).toContain('Set disableOfflineQueue: true');
  });

  it('as the guide has them are not warned of', () => {
    const safe = { ...lazy, enableOfflineQueue: false, autoResendUnfulfilledCommands: false };
    expect(codesOf(new Ioredis(safe))).toEqual([]);
    expect(codesOf(new Iovalkey(safe))).toEqual([]);
    const redisOptions = { autoResendUnfulfilledCommands: false };
    const cluster = new IoredisCluster(nodes, {
      ...lazy,
      enableOfflineQueue: false,
      retryDelayOnFailover: 0,
      redisOptions,
    });
    expect(codesOf(cluster)).toEqual([]);
    expect(codesOf(createClient({ disableOfflineQueue: true }))).toEqual([]);
    const defaults = { disableOfflineQueue: true };
    expect(codesOf(createCluster({ rootNodes: [], defaults }))).toEqual([]);
  });

  it('a key prefix with a brace would decide every slot', () => {
    const safe = { ...lazy, enableOfflineQueue: false, autoResendUnfulfilledCommands: false };
    expect(codesOf(new Ioredis({ ...safe, keyPrefix: '{app}' }))).toEqual([
      'WARN_REDIS_KEY_PREFIX',
    ]);
    expect(codesOf(new Ioredis({ ...safe, keyPrefix: 'app:' }))).toEqual([]);
  });

  it('a Cluster is told from a single server', () => {
    const isCluster = (client: unknown): boolean => connectionOf(client as RedisClient).isCluster;
    expect(isCluster(new Ioredis(lazy))).toBe(false);
    expect(isCluster(new IoredisCluster(nodes, lazy))).toBe(true);
    expect(isCluster(createClient())).toBe(false);
    expect(isCluster(createCluster({ rootNodes: [] }))).toBe(true);
  });
});
