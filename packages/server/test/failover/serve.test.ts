/**
 * `sluice serve` on Sentinel and Cluster: after each fault Redis decides again, and clients get
 * only 200 and 429. The short form has some of the faults. The long form (`npm run failover`) has
 * all, keeps a stopped master stopped for 25 s, prints a table, and asserts 3 s from the promotion
 * of the new master.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import {
  type Cluster,
  type RedisServer,
  type SentinelGroup,
  startCluster,
  startSentinel,
} from '../../../../tools/servers/redis.mjs';
import { ServiceLoad, until } from './service-load.ts';

const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const STOPPED_MS = isFull ? 25_000 : 2000;
const MAX_MS = 3000;
/** The long form asserts times, and the machine may be busy with something else. */
const options = { timeout: 180_000, retry: isFull ? 2 : 0 };

const rows: Record<string, unknown>[] = [];
afterAll(() => {
  if (isFull) console.table(rows);
});

const hostsOf = (servers: readonly RedisServer[]): string =>
  servers.map(({ host, port }) => `${host}:${port}`).join(',');

/** Resolves to the time when one of these servers reported the role of a master. */
async function promoted(replicas: readonly RedisServer[]): Promise<number> {
  await until('a replica is master', async () => {
    const roles = await Promise.all(
      replicas.map((each) => each.command<string[]>('ROLE').catch(() => [''])),
    );
    return roles.some(([role]) => role === 'master');
  });
  return performance.now();
}

async function killConnections(servers: readonly RedisServer[]): Promise<void> {
  for (const server of servers) {
    for (const type of ['normal', 'pubsub']) {
      await server.command('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'no').catch(() => {});
    }
  }
}

interface Fault {
  readonly store: string;
  /** Makes the servers fail; resolves when Redis could decide again. */
  readonly fail: () => Promise<number>;
  /** Undoes the fault. */
  readonly repair?: () => Promise<void>;
}

async function survive(name: string, { store, fail, repair }: Fault): Promise<void> {
  const load = await ServiceLoad.start(store);
  try {
    const connectedMs = await load.back(0);
    const failedMs = performance.now();
    const possibleMs = await fail();
    const firstMs = await load.back(possibleMs);
    // After a planned failover the old master decides too, until the client leaves it.
    await sleep(isFull ? 5000 : 200);
    const degraded = load.responses.filter(({ isDegraded }) => isDegraded);
    const backMs = Math.max(firstMs, ...degraded.map(({ endedMs }) => endedMs));
    if (repair !== undefined) {
      await sleep(Math.max(0, failedMs + STOPPED_MS - performance.now()));
      await repair();
      await load.back(performance.now());
    }
    rows.push({
      fault: name,
      connected: Math.round(connectedMs - load.responses[0].begunMs),
      possible: Math.round(possibleMs - failedMs),
      back: Math.round(backMs - possibleMs),
      responses: load.responses.length,
      degraded: degraded.length,
      statuses: load.statuses.join(' '),
    });
    expect(load.statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
    if (isFull) expect(backMs - possibleMs).toBeLessThan(MAX_MS);
  } finally {
    await load.stop();
  }
}

const sentinelFaults: Readonly<Record<string, (group: SentinelGroup) => Omit<Fault, 'store'>>> = {
  'the master is stopped': ({ master, replicas }) => ({
    fail: async () => {
      await master.pause();
      return promoted(replicas);
    },
    repair: () => master.resume(),
  }),
  'all connections are killed': ({ master, replicas, sentinels }) => ({
    fail: async () => {
      await killConnections([master, ...replicas, ...sentinels]);
      return performance.now();
    },
  }),
  'the master is killed': ({ master, replicas }) => ({
    fail: async () => {
      await master.kill();
      return promoted(replicas);
    },
  }),
  'a failover is requested': (group) => ({
    fail: async () => {
      const done = group.failover();
      const possibleMs = await promoted(group.replicas);
      await done;
      return possibleMs;
    },
  }),
};

type ClusterFault = Omit<Fault, 'store'> & { readonly seeds?: readonly RedisServer[] };

const clusterFaults: Readonly<Record<string, (cluster: Cluster) => ClusterFault>> = {
  'all connections are killed, and all seeds are replicas': ({ nodes }) => ({
    seeds: nodes.slice(3),
    fail: async () => {
      await killConnections(nodes);
      return performance.now();
    },
  }),
  'all seeds are killed, and the other nodes are restarted': ({ nodes }) => ({
    seeds: nodes.slice(3),
    fail: async () => {
      for (const seed of nodes.slice(3)) await seed.kill();
      const masters = nodes.slice(0, 3);
      await Promise.all(masters.map((master) => master.kill()));
      await sleep(1000);
      await Promise.all(masters.map((master) => master.restart()));
      await until('the Cluster is whole', async () => {
        const infos = masters.map((each) => each.command<string>('CLUSTER', 'INFO'));
        return (await Promise.all(infos)).every((info) => info.includes('cluster_state:ok'));
      });
      return performance.now();
    },
  }),
  'a failover of all masters is requested': ({ nodes }) => ({
    fail: async () => {
      for (const replica of nodes.slice(3)) await replica.command('CLUSTER', 'FAILOVER');
      await Promise.all(nodes.slice(3).map((replica) => promoted([replica])));
      return performance.now();
    },
  }),
  'a master is stopped': ({ nodes }) => ({
    fail: async () => {
      await nodes[0].pause();
      return promoted([nodes[3]]);
    },
    repair: () => nodes[0].resume(),
  }),
  'a master is killed, and all seeds are replicas': ({ nodes }) => ({
    seeds: nodes.slice(3),
    fail: async () => {
      await nodes[0].kill();
      return promoted([nodes[3]]);
    },
  }),
};

const some = <T>(all: Readonly<Record<string, T>>, count: number): [string, T][] =>
  Object.entries(all).slice(0, isFull ? undefined : count);

test.each(some(sentinelFaults, 1))(
  'sluice serve on Sentinel recovers when %s',
  options,
  async (name, faultOf) => {
    const group = await startSentinel();
    try {
      const store = `redis+sentinel://${hostsOf(group.sentinels)}/${group.masterName}`;
      await survive(`Sentinel: ${name}`, { store, ...faultOf(group) });
    } finally {
      await group.stop();
    }
  },
);

test.each(some(clusterFaults, 2))(
  'sluice serve on a Cluster recovers when %s',
  options,
  async (name, faultOf) => {
    const cluster = await startCluster();
    try {
      const { seeds = cluster.nodes, ...fault } = faultOf(cluster);
      await survive(`Cluster: ${name}`, { store: `redis+cluster://${hostsOf(seeds)}`, ...fault });
    } finally {
      await cluster.stop();
    }
  },
);
