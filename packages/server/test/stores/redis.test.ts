import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { IOREDIS, IOREDIS_CLUSTER, IOREDIS_SENTINEL } from '../../../../tools/servers/clients.mjs';
import { startCluster, startRedis, startSentinel } from '../../../../tools/servers/redis.mjs';
import { DecisionService, type ServiceDecision } from '../../src/decision-service.ts';
import { type OpenStore, openStore } from '../../src/stores/index.ts';
import {
  CLUSTER_OPTIONS,
  SENTINEL_OPTIONS,
  SERVER_OPTIONS,
} from '../../src/stores/redis/client.ts';
import { FakeSentinel } from '../fake-sentinel.ts';
import { policy, settingsOf } from '../running.ts';

const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

interface Opened {
  readonly store: OpenStore;
  readonly states: string[];
  readonly errors: string[];
  readonly warnings: string[];
}

async function open(store: string): Promise<Opened> {
  const states: string[] = [];
  const errors: string[] = [];
  const warnings: string[] = [];
  const listeners = {
    onWarning: ({ code }: { code: string }) => warnings.push(code),
    onConnection: (state: string, error?: Error) => {
      states.push(state);
      if (error !== undefined) errors.push(error.message);
    },
  };
  const settings = settingsOf({ store, deadlineMs: 1000, onFailure: 'throw' });
  const opened = await openStore(settings, listeners);
  closing.push(() => opened.close());
  return { store: opened, states, errors, warnings };
}

/** Replaces functions in client options by the delays that they return, for comparison. */
const comparable = (options: object): object =>
  Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name,
      typeof value === 'function' ? [1, 2, 10, 1000].map((attempt) => value(attempt)) : value,
    ]),
  );

/** Resolves to a decision service when its store is connected. */
async function readyDecisionService(store: OpenStore): Promise<DecisionService> {
  const decisionService = new DecisionService(store.store, [policy('few', 2, '1m')]);
  for (let attempt = 0; attempt < 200 && !(await decisionService.probe()); attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return decisionService;
}

async function exhaustLimit(decisionService: DecisionService): Promise<boolean[]> {
  const key = Math.random().toString(36);
  const decisions: ServiceDecision[] = [];
  for (let call = 0; call < 3; call++) {
    decisions.push(await decisionService.decide(decisionService.limits([{ policy: 'few', key }])));
  }
  expect(decisions.every(({ result }) => result?.degraded === undefined)).toBe(true);
  return decisions.map(({ allowed }) => allowed);
}

describe('openStore', () => {
  test('openStore opens the memory store', async () => {
    const { store } = await open('memory');
    expect(store.kind).toBe('memory');
    expect(await exhaustLimit(await readyDecisionService(store))).toEqual([true, true, false]);
  });

  test('openStore opens Redis with a password and a database', async () => {
    const redis = await startRedis({ password: 'p@ss:word/1' });
    closing.push(() => redis.stop());
    const login = `:${encodeURIComponent('p@ss:word/1')}@`;
    const { store, states, warnings } = await open(`redis://${login}127.0.0.1:${redis.port}/3`);
    expect(await exhaustLimit(await readyDecisionService(store))).toEqual([true, true, false]);
    expect(await redis.command('INFO', 'keyspace')).toContain('db3:');
    expect(states).toEqual(['up']);
    expect(warnings).toEqual([]);
    expect(await store.info?.('stats')).toContain('evicted_keys:');
  });

  test('a lost and a restored Redis connection are reported', async () => {
    const redis = await startRedis();
    closing.push(() => redis.stop());
    const { store, states } = await open(redis.url);
    const decisionService = await readyDecisionService(store);
    await redis.kill();
    expect(await decisionService.probe()).toBe(false);
    await redis.restart();
    expect(await exhaustLimit(await readyDecisionService(store))).toEqual([true, true, false]);
    expect(states).toEqual(['up', 'down', 'up']);
    await store.close();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(states).toEqual(['up', 'down', 'up']);
  });

  test('openStore rejects with the path of an unreadable CA file', async () => {
    await expect(open('rediss://127.0.0.1?ca=/nowhere/ca.pem')).rejects.toThrow(
      'Expected the file `/nowhere/ca.pem` of `ca` to be readable, got ENOENT',
    );
  });

  test('the Redis client has the options of the failover tests', () => {
    expect(comparable(SERVER_OPTIONS)).toEqual(comparable(IOREDIS));
    expect(comparable(SENTINEL_OPTIONS)).toMatchObject(comparable(IOREDIS_SENTINEL));
    expect(comparable(CLUSTER_OPTIONS)).toMatchObject(comparable(IOREDIS_CLUSTER));
  });

  test('openStore opens Redis over TLS with a private CA', async () => {
    const redis = await startRedis({ tls: true });
    const folder = mkdtempSync(join(tmpdir(), 'sluice-ca-'));
    closing.push(
      () => redis.stop(),
      () => rmSync(folder, { recursive: true }),
    );
    const ca = join(folder, 'ca.pem');
    writeFileSync(ca, redis.tlsCa!);
    const { store } = await open(`rediss://127.0.0.1:${redis.port}?ca=${ca}`);
    expect(await exhaustLimit(await readyDecisionService(store))).toEqual([true, true, false]);
  });

  test('openStore does not use a TLS server with an unknown CA', async () => {
    const redis = await startRedis({ tls: true });
    closing.push(() => redis.stop());
    const { store } = await open(`rediss://127.0.0.1:${redis.port}`);
    const decisionService = new DecisionService(store.store);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await decisionService.probe()).toBe(false);
  });

  test('openStore uses no other database if Redis lacks the one in the URL', async () => {
    const redis = await startRedis();
    closing.push(() => redis.stop());
    const { store, errors } = await open(`${redis.url}/99`);
    const decisionService = new DecisionService(store.store, [policy('few', 2, '1m')]);
    await expect.poll(() => errors.at(0), { timeout: 10_000 }).toMatch(/DB index is out of range/);
    for (let attempt = 0; attempt < 20; attempt++) {
      expect(await decisionService.probe()).toBe(false);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(await redis.command('INFO', 'keyspace')).not.toContain('db0');
  });

  test('openStore logs in to the server and to the sentinels', async () => {
    const group = await startSentinel();
    closing.push(() => group.stop());
    for (const each of [group.master, ...group.replicas]) {
      await each.command('ACL', 'SETUSER', 'app', 'on', '>data/1', '~*', '&*', '+@all');
    }
    for (const each of group.sentinels) {
      await each.command('ACL', 'SETUSER', 'watch', 'on', '>watch@2', '~*', '&*', '+@all');
      await each.command('ACL', 'SETUSER', 'default', 'off');
    }
    const hosts = group.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const url = `redis+sentinel://app:data%2F1@${hosts}/${group.masterName}`;
    const { store } = await open(`${url}?sentinelUsername=watch&sentinelPassword=watch%402`);
    expect(await exhaustLimit(await readyDecisionService(store))).toEqual([true, true, false]);
    const { store: without } = await open(url);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await new DecisionService(without.store).probe()).toBe(false);
  });

  test('openStore connects to the master that sentinels report', async () => {
    const group = await startSentinel();
    closing.push(() => group.stop());
    const hosts = group.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const { store, warnings } = await open(`redis+sentinel://${hosts}/${group.masterName}/0`);
    expect(await exhaustLimit(await readyDecisionService(store))).toEqual([true, true, false]);
    expect(warnings).toEqual([]);
  });

  test('a Redis client follows a failover that is announced while it connects', async () => {
    const [before, after] = await Promise.all([startRedis(), startRedis()]);
    const sentinel = new FakeSentinel(before.port);
    closing.push(
      () => Promise.all([before.stop(), after.stop()]),
      () => sentinel.stop(),
    );
    const { store } = await open(`redis+sentinel://127.0.0.1:${await sentinel.start()}/main`);
    const decisionService = await readyDecisionService(store);
    sentinel.beforeReply = async () => {
      sentinel.masterPort = after.port;
      sentinel.announce();
      sentinel.beforeReply = async () => {};
      await new Promise((resolve) => setTimeout(resolve, 100));
    };
    await before.kill();
    expect(await decisionService.probe()).toBe(false);
    await expect.poll(() => decisionService.probe(), { timeout: 10_000 }).toBe(true);
    expect(await exhaustLimit(decisionService)).toEqual([true, true, false]);
  });

  test('openStore opens a Redis Cluster', async () => {
    const cluster = await startCluster();
    closing.push(() => cluster.stop());
    const hosts = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const { store, warnings } = await open(`redis+cluster://${hosts}`);
    expect(warnings).toEqual([]);
    const decisionService = await readyDecisionService(store);
    // All nodes are connected soon after the first.
    const isWhole = async (): Promise<boolean> => {
      const keys = Array.from({ length: 50 }, (_, key) => ({ policy: 'few', key: `key-${key}` }));
      const peeks = keys.map(async (key) =>
        decisionService.decide(decisionService.limits([key], true), { peek: true }),
      );
      const settled = await Promise.allSettled(peeks);
      return settled.every(({ status }) => status === 'fulfilled');
    };
    await expect.poll(isWhole, { timeout: 20_000 }).toBe(true);
    expect(await exhaustLimit(decisionService)).toEqual([true, true, false]);
    // An unresolvable host does not prevent connections to the others.
    const { store: other } = await open(`redis+cluster://nowhere.invalid,${hosts}`);
    expect(await exhaustLimit(await readyDecisionService(other))).toEqual([true, true, false]);
  });
});
