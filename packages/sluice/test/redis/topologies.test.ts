/** Redis deployments: Cluster, Sentinel, restricted rights, TLS, eviction. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type ClientName,
  clients,
  clusterClients,
  type OpenClient,
  sentinelClients,
} from '../../../../tools/servers/clients.mjs';
import {
  type Cluster,
  startCluster,
  startRedis,
  startSentinel,
} from '../../../../tools/servers/redis.mjs';
import { createLimiter, ManualClock } from '../../src/index.ts';
import type { RedisWarning } from '../../src/stores/redis/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { slotOf } from '../../src/stores/redis/keys.ts';
import { parseVectors, runVectors, storeContract } from '../../src/testing/index.ts';
import { isFull, vectorsOf } from './campaign.ts';

const vectors = parseVectors(
  readFileSync(new URL('../vectors/decisions.json', import.meta.url), 'utf8'),
);

let opened = 0;
const strict = { onFailure: 'throw', deadlineMs: 10_000 } as const;
const fresh = ({ client }: OpenClient) =>
  redisStore(client, { ...strict, prefix: `t${opened++}:` });

describe('on a Cluster', () => {
  let cluster: Cluster;
  const nodes = () => cluster.nodes.map(({ host, port }) => ({ host, port }));

  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster.stop());

  it('slotOf returns the same slots as Redis', async () => {
    for (const tag of ['a', '123456789', 'café', '😀', 'user:42', '%007ba%007d']) {
      const slot = await cluster.nodes[0].command('CLUSTER', 'KEYSLOT', `s:{${tag}}pL1m`);
      expect(slotOf(`s:{${tag}}pL1m`)).toBe(slot);
    }
  });

  describe.each(Object.keys(clusterClients) as ClientName[])('through %s', (name) => {
    let open: OpenClient;

    beforeAll(async () => {
      open = await clusterClients[name](nodes());
    });
    afterAll(() => open.close());

    // In the short form, one client: all pass the contract on a server (redis-store.test.ts).
    const facts = isFull || name === 'ioredis' ? storeContract : [];
    for (const { name: fact, run } of facts) {
      it(`on a Cluster through ${name}: ${fact}`, () => run(() => fresh(open)));
    }

    it(`on a Cluster through ${name}, all decision vectors are decided as expected`, async () => {
      const own = vectorsOf(name, vectors);
      expect(own.cases.length).toBeGreaterThanOrEqual(40);
      const report = await runVectors(own, () => fresh(open));
      expect(report).toEqual({ passed: own.cases.length, failed: 0, differences: [] });
    });

    it(`${name} sends each command to the node of its slot, without redirections`, async () => {
      await Promise.all(cluster.nodes.map((node) => node.command('CONFIG', 'RESETSTAT')));
      const limiter = createLimiter({ policies: { p: '2/1m' }, store: fresh(open) });
      for (let key = 0; key < 50; key++) await limiter.check('p', `key-${key}`);
      const stats = await Promise.all(
        cluster.nodes.map((node) => node.command<string>('INFO', 'errorstats')),
      );
      expect(stats.filter((text) => text.includes('MOVED'))).toEqual([]);
    });

    it(`on a Cluster through ${name}, concurrent checks of many keys are decided`, async () => {
      const limiter = createLimiter({ policies: { p: '2/1m' }, store: fresh(open) });
      const keys = Array.from({ length: 200 }, (_, number) => `key-${number % 100}`);
      const decisions = await Promise.all(keys.map((key) => limiter.check('p', key)));
      expect(decisions.every(({ allowed }) => allowed)).toBe(true);
      expect(decisions.slice(100).every(({ remaining }) => remaining === 0)).toBe(true);
    });
  });

  describe('while the slot of a key is being migrated', () => {
    let open: OpenClient;
    let node: Cluster['nodes'][number];
    const key = 'ada';
    const slot = slotOf(`{${key}}`);

    beforeAll(async () => {
      open = await clusterClients.ioredis(nodes());
    });
    afterAll(() => open.close());

    /** Starts a migration: the node keeps its existing keys and rejects access to others. */
    async function startMigration(): Promise<void> {
      const owner = await cluster.ownerOf(slot);
      node = cluster.nodes[owner];
      const target = await cluster.nodes[(owner + 1) % 3].command<string>('CLUSTER', 'MYID');
      await node.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target);
    }
    const endMigration = () => node.command('CLUSTER', 'SETSLOT', slot, 'STABLE');

    const setUp = () => {
      const clock = new ManualClock(1_745_000_100_000);
      const policies = { p: { algorithm: 'sliding-log', limit: 300, window: '1m' } } as const;
      const limiter = createLimiter({ policies, store: fresh(open), clock });
      const checkOften = async (count: number) => {
        for (let call = 0; call < count; call++) {
          clock.advance(1);
          const { allowed } = await limiter.check('p', key);
          expect(allowed).toBe(true);
        }
      };
      return { clock, limiter, checkOften };
    };

    it('a log that outgrows one string loses no call during a migration', async () => {
      const { limiter, checkOften } = setUp();
      await checkOften(30);
      await startMigration();
      await checkOften(100).finally(endMigration);
      expect(await limiter.peek('p', key)).toMatchObject({ remaining: 170 });
      await checkOften(170);
      expect(await limiter.check('p', key)).toMatchObject({ allowed: false });
    });

    it('a log that outgrows the largest string in a migration loses no call', async () => {
      const { clock, limiter, checkOften } = setUp();
      await checkOften(30);
      await startMigration();
      await checkOften(222);
      clock.advance(1);
      await expect(limiter.check('p', key).finally(endMigration)).rejects.toThrow('TRYAGAIN');
      expect(await limiter.peek('p', key)).toMatchObject({ remaining: 48 });
    });

    it('a long log whose entries have expired starts again during a migration', async () => {
      const { clock, limiter, checkOften } = setUp();
      await checkOften(100);
      clock.advance(60_000);
      await startMigration();
      await checkOften(2).finally(endMigration);
      expect(await limiter.peek('p', key)).toMatchObject({ remaining: 298 });
    });
  });

  describe('a check with keys in several slots', () => {
    let open: OpenClient;
    const address = { policy: 'address', key: '10.0.0.1' } as const;
    const account = { policy: 'account', key: 'ada' } as const;
    const clock = new ManualClock(1_745_000_100_000);
    const limiterOf = () =>
      createLimiter({
        policies: { address: '2/1m', account: { limit: 5, window: '1m' } },
        store: fresh(open),
        clock,
      });

    beforeAll(async () => {
      open = await clusterClients.ioredis(nodes());
      expect(slotOf('{10.0.0.1}')).not.toBe(slotOf('{ada}'));
    });
    afterAll(() => open.close());

    it('a check over several slots charges all or none and is not atomic', async () => {
      const limiter = limiterOf();
      const both = [address, account];
      expect(await limiter.check(both)).toMatchObject({
        allowed: true,
        remaining: 1,
        atomic: false,
      });
      expect(await limiter.check(both)).toMatchObject({ allowed: true, remaining: 0 });
      const denied = await limiter.check(both);
      expect(denied).toMatchObject({ allowed: false, policy: 'address', receipt: undefined });
      expect(denied.limits.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
        [false, 0],
        [true, 3],
      ]);
      expect((await limiter.peek('account', 'ada')).remaining).toBe(3);
    });

    it('a check over several slots is refunded in each slot', async () => {
      const limiter = limiterOf();
      const decision = await limiter.check([address, account]);
      if (!decision.allowed) throw new Error('expected to be admitted');
      expect(await limiter.refund(decision.receipt)).toBe(2);
      expect((await limiter.peek('account', 'ada')).remaining).toBe(5);
    });

    it('a check over several slots is charged once per id, and repeated if denied', async () => {
      const limiter = limiterOf();
      const both = [address, account];
      const first = await limiter.check(both, { id: 'one' });
      const again = await limiter.check(both, { id: 'one' });
      expect(JSON.stringify(again)).toBe(JSON.stringify(first));
      expect((await limiter.peek('account', 'ada')).remaining).toBe(4);
      await limiter.check('address', '10.0.0.1');
      expect((await limiter.check(both, { id: 'two' })).allowed).toBe(false);
      expect((await limiter.peek('account', 'ada')).remaining).toBe(4);
      await limiter.reset('address', '10.0.0.1');
      expect((await limiter.check(both, { id: 'two' })).allowed).toBe(true);
      expect((await limiter.peek('account', 'ada')).remaining).toBe(3);
    });

    it('concurrent checks over several slots never exceed a limit', async () => {
      const limiter = limiterOf();
      const checks = Array.from({ length: 40 }, () => limiter.check([address, account]));
      const admitted = (await Promise.all(checks)).filter(({ allowed }) => allowed);
      expect(admitted.length).toBeLessThanOrEqual(2);
      expect((await limiter.peek('account', 'ada')).remaining).toBe(5 - admitted.length);
    });
  });
});

describe('Sentinel', () => {
  it('every client with Sentinel support finds the master', async () => {
    const group = await startSentinel();
    try {
      const sentinels = group.sentinels.map(({ host, port }) => ({ host, port }));
      for (const openClient of Object.values(sentinelClients)) {
        const open = await openClient(sentinels, group.masterName);
        const limiter = createLimiter({ policies: { p: '1/1m' }, store: fresh(open) });
        expect((await limiter.check('p', 'a')).allowed).toBe(true);
        expect((await limiter.check('p', 'a')).allowed).toBe(false);
        await open.close();
      }
    } finally {
      await group.stop();
    }
  });
});

describe('server settings', () => {
  it('the Redis store needs only the rights that docs/redis.md lists', async () => {
    const guide = readFileSync(new URL('../../../../docs/redis.md', import.meta.url), 'utf8');
    const rights = /^ACL SETUSER (limiter on >secret .*)$/m.exec(guide)?.[1];
    const server = await startRedis({ acl: [rights!] });
    const url = server.url.replace('redis://', 'redis://limiter:secret@');
    const open = await clients.ioredis(url);
    try {
      const store = () => redisStore(open.client, strict);
      for (const { run } of storeContract) {
        await server.command('FLUSHALL');
        await run(store);
      }
      await server.command('FLUSHALL');
      const limiter = createLimiter({ policies: { p: '1/1m' }, store: store() });
      const first = await limiter.check('p', 'a', { id: 'x' });
      expect(await limiter.check('p', 'a', { id: 'x' })).toEqual(first);
      const other = redisStore(open.client, { ...strict, prefix: 'other:' });
      const outside = createLimiter({ policies: { p: '1/1m' }, store: other });
      await expect(outside.check('p', 'a')).rejects.toMatchObject({
        code: 'ERR_STORE_UNAVAILABLE',
      });
    } finally {
      await open.close();
      await server.stop();
    }
  });

  it('the Redis store works with a password and TLS', async () => {
    const server = await startRedis({ tls: true, password: 'secret' });
    const url = `rediss://:secret@${server.host}:${server.port}`;
    try {
      for (const name of ['ioredis', 'iovalkey', 'node-redis'] as const) {
        const open = await clients[name](url, { tls: { ca: server.tlsCa! } });
        const limiter = createLimiter({ policies: { p: '1/1m' }, store: fresh(open) });
        expect((await limiter.check('p', 'a')).allowed).toBe(true);
        expect((await limiter.check('p', 'a')).allowed).toBe(false);
        await open.close();
      }
    } finally {
      await server.stop();
    }
  });

  it('the store warns only about a server that evicts keys', async () => {
    const server = await startRedis({ args: ['--maxmemory', '50mb'] });
    const warningsWith = async (policy: string): Promise<string[]> => {
      await server.command('CONFIG', 'SET', 'maxmemory-policy', policy);
      const open = await clients.ioredis(server.url);
      const warnings: RedisWarning[] = [];
      const onWarning = (warning: RedisWarning): void => void warnings.push(warning);
      const limiter = createLimiter({
        policies: { p: '5/1m' },
        store: redisStore(open.client, { ...strict, onWarning }),
      });
      // INFO is sent after the reply to the first check.
      await limiter.check('p', 'a');
      await limiter.check('p', 'a');
      await limiter.check('p', 'a');
      await open.close();
      return warnings.map(({ code, message }) => `${code} ${message.includes(policy)}`);
    };
    try {
      expect(await warningsWith('allkeys-lru')).toEqual(['WARN_REDIS_EVICTS true']);
      expect(await warningsWith('volatile-ttl')).toEqual(['WARN_REDIS_EVICTS true']);
      expect(await warningsWith('noeviction')).toEqual([]);
      await server.command('CONFIG', 'SET', 'maxmemory', '0');
      expect(await warningsWith('allkeys-lru')).toEqual([]);
    } finally {
      await server.stop();
    }
  });
});
