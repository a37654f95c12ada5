import { readFileSync } from 'node:fs';
import { Redis as Ioredis, Cluster as IoredisCluster } from 'ioredis';
import { Redis as Iovalkey, Cluster as IovalkeyCluster } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { describe, expect, it } from 'vitest';
import {
  GLIDE_CLUSTER,
  IOREDIS,
  IOREDIS_CLUSTER,
  IOREDIS_SENTINEL,
  NODE_REDIS,
  NODE_REDIS_CLUSTER,
  NODE_REDIS_SENTINEL,
} from '../../../../tools/servers/clients.mjs';
import { connectionOf, type RedisClient } from '../../src/stores/redis/client.ts';

const lazy = { lazyConnect: true } as const;
const nodes = [{ host: '127.0.0.1', port: 1 }];
const sentinel = { ...lazy, sentinels: nodes, name: 'main' };

const warningsOf = (client: unknown) => {
  const { warnings, connectedWarnings } = connectionOf(client as RedisClient);
  return [...warnings, ...(connectedWarnings?.() ?? [])];
};
const codesOf = (client: unknown): string[] => warningsOf(client).map(({ code }) => code);

/** Returns the settings that the warnings recommend. */
const fixesOf = (client: unknown): string[] =>
  warningsOf(client).map(({ message }) => /Set (.*)\.$/.exec(message)![1]);

const QUEUE = 'WARN_REDIS_OFFLINE_QUEUE';
const RESEND = 'WARN_REDIS_RESEND';
const SILENT = 'WARN_REDIS_SOCKET_TIMEOUT';
const FAILOVER = 'WARN_REDIS_FAILOVER';

describe.each([
  {
    name: 'ioredis',
    redis: (options: object) => new Ioredis(options),
    cluster: (options: object) => new IoredisCluster(nodes, options),
  },
  {
    name: 'iovalkey',
    redis: (options: object) => new Iovalkey(options),
    cluster: (options: object) => new IovalkeyCluster(nodes, options),
  },
])('warnings about $name', ({ name, redis, cluster }) => {
  it(`${name} with default options causes warnings about timeouts, queueing and resending`, () => {
    expect(codesOf(redis(lazy))).toEqual([SILENT, QUEUE, RESEND]);
    expect(fixesOf(redis(lazy))).toEqual([
      'socketTimeout: 1000',
      'enableOfflineQueue: false',
      'autoResendUnfulfilledCommands: false',
    ]);
  });

  it(`${name} with Sentinel and default options also causes a warning about failovers`, () => {
    expect(codesOf(redis(sentinel))).toEqual([SILENT, FAILOVER, QUEUE, RESEND]);
    expect(fixesOf(redis(sentinel))[1]).toBe('failoverDetector: true');
  });

  it(`a Cluster of ${name} with default options also causes a warning about failovers`, () => {
    expect(codesOf(cluster(lazy))).toEqual([SILENT, FAILOVER, QUEUE, RESEND, RESEND]);
    expect(fixesOf(cluster(lazy))).toEqual([
      'redisOptions.socketTimeout: 1000',
      'slotsRefreshInterval: 1000',
      'enableOfflineQueue: false',
      'autoResendUnfulfilledCommands: false',
      'retryDelayOnFailover: 0',
    ]);
  });

  it.each([
    [
      'failoverDetector',
      () => redis({ ...sentinel, ...IOREDIS_SENTINEL, failoverDetector: false }),
    ],
    [
      'slotsRefreshInterval',
      () => cluster({ ...IOREDIS_CLUSTER, ...lazy, slotsRefreshInterval: 0 }),
    ],
  ])(`${name} causes one warning if only %s is missing`, (_, open) => {
    expect(codesOf(open())).toEqual([FAILOVER]);
  });

  it.each([
    ['one server', () => redis({ ...IOREDIS, ...lazy, socketTimeout: 0 })],
    ['Sentinel', () => redis({ ...sentinel, ...IOREDIS_SENTINEL, socketTimeout: undefined })],
    // For the nodes of a Cluster the option counts only in `redisOptions`.
    [
      'a Cluster',
      () =>
        cluster({
          ...IOREDIS_CLUSTER,
          ...lazy,
          socketTimeout: 1000,
          redisOptions: { ...IOREDIS_CLUSTER.redisOptions, socketTimeout: undefined },
        }),
    ],
  ])(`${name} causes one warning if only socketTimeout is missing, with %s`, (_, open) => {
    expect(codesOf(open())).toEqual([SILENT]);
  });

  it(`${name} with the options of docs/redis.md causes no warnings`, () => {
    expect(codesOf(redis({ ...IOREDIS, ...lazy }))).toEqual([]);
    expect(codesOf(redis({ ...sentinel, ...IOREDIS_SENTINEL }))).toEqual([]);
    expect(codesOf(cluster({ ...IOREDIS_CLUSTER, ...lazy }))).toEqual([]);
  });

  it(`${name} with a brace in keyPrefix causes a warning`, () => {
    const prefixed = (keyPrefix: string) => redis({ ...IOREDIS, ...lazy, keyPrefix });
    expect(codesOf(prefixed('{app}'))).toEqual(['WARN_REDIS_KEY_PREFIX']);
    expect(codesOf(prefixed('app:'))).toEqual([]);
  });
});

/** Returns a Cluster of node-redis with one connected node. */
const connectedCluster = (defaults: object) => ({
  sendCommand: async () => 'OK',
  getSlotRandomNode: () => {},
  slots: [],
  masters: [{}, { client: createClient(defaults) }],
});

describe('warnings about node-redis', () => {
  it('node-redis with default options causes warnings about queueing and timeouts', () => {
    expect(codesOf(createClient())).toEqual([QUEUE, SILENT]);
    expect(fixesOf(createClient())).toEqual([
      'disableOfflineQueue: true',
      'pingInterval: 200 and socket.socketTimeout: 500',
    ]);
  });

  it('a Cluster of node-redis with default options causes warnings when it has connected', () => {
    expect(codesOf(createCluster({ rootNodes: [] }))).toEqual([]);
    expect(codesOf(connectedCluster({}))).toEqual([QUEUE, SILENT]);
    expect(fixesOf(connectedCluster({}))).toEqual([
      'defaults.disableOfflineQueue: true',
      'defaults.pingInterval: 200 and defaults.socket.socketTimeout: 500',
    ]);
  });

  it('node-redis causes a warning unless pingInterval is positive and below socketTimeout', () => {
    expect(codesOf(createClient({ ...NODE_REDIS, pingInterval: 0 }))).toEqual([SILENT]);
    expect(codesOf(createClient({ ...NODE_REDIS, pingInterval: 500 }))).toEqual([SILENT]);
    expect(codesOf(createClient({ ...NODE_REDIS, socket: {} }))).toEqual([SILENT]);
  });

  it('node-redis with the options of docs/redis.md causes no warnings', () => {
    expect(codesOf(createClient(NODE_REDIS))).toEqual([]);
    expect(codesOf(connectedCluster(NODE_REDIS))).toEqual([]);
  });
});

it('connectionOf distinguishes a Cluster client from a client of one server', () => {
  const isCluster = (client: unknown): boolean => connectionOf(client as RedisClient).isCluster;
  expect(isCluster(new Ioredis(lazy))).toBe(false);
  expect(isCluster(new IoredisCluster(nodes, lazy))).toBe(true);
  expect(isCluster(createClient())).toBe(false);
  expect(isCluster(createCluster({ rootNodes: [] }))).toBe(true);
});

/** Returns each option, also nested ones, in the notation of the guide. */
const written = (options: object): string[] =>
  Object.entries(options).flatMap(([name, value]) => {
    if (typeof value === 'object' && name !== 'periodicChecks') return written(value);
    if (typeof value === 'function') return [name];
    const text = JSON.stringify(value).replaceAll(/[{}]/g, ' $& ').replaceAll('"', '');
    return [`${name}: ${text.replaceAll(':', ': ').trim()}`];
  });

it.each(
  Object.entries({
    IOREDIS,
    IOREDIS_SENTINEL,
    IOREDIS_CLUSTER,
    NODE_REDIS,
    NODE_REDIS_SENTINEL,
    NODE_REDIS_CLUSTER,
    GLIDE_CLUSTER,
  }),
)('docs/redis.md lists each client option of the tests (%s)', (_, options) => {
  const guide = readFileSync(new URL('../../../../docs/redis.md', import.meta.url), 'utf8');
  expect(written(options).filter((option) => !guide.includes(option))).toEqual([]);
});
