/** The helpers that start Redis servers, Sentinel and Cluster for other tests. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type Cluster,
  command,
  type RedisOptions,
  type RedisServer,
  type SentinelGroup,
  startCluster,
  startRedis,
  startSentinel,
} from '../../../../tools/servers/redis.mjs';

const root = new URL('../../../../', import.meta.url).pathname;
const ensureServices = `${root}tools/ensure-services`;
const soon = { timeout: 20_000, interval: 25 };

beforeAll(() => void execFileSync(ensureServices, ['redis', 'openssl']), 300_000);

/** Runs a task on its own server. */
async function withRedis(options: RedisOptions, task: (server: RedisServer) => Promise<void>) {
  const server = await startRedis(options);
  try {
    await task(server);
  } finally {
    await server.stop();
  }
}

/** Returns whether no process listens on this port. */
async function isUnused(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port });
  const [error] = await Promise.race([once(socket, 'connect'), once(socket, 'error')]).catch(
    (e) => [e],
  );
  socket.destroy();
  return error?.code === 'ECONNREFUSED';
}

describe('ensure-services', () => {
  const run = (...services: string[]) => {
    const { status, stdout, stderr } = spawnSync(ensureServices, services, { encoding: 'utf8' });
    return { status, stdout, stderr };
  };

  it('ensure-services prints nothing if all services are installed', () => {
    expect(run('redis', 'openssl')).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  it('ensure-services rejects an unknown service and lists the known ones', () => {
    const { status, stderr } = run('redis', 'carousel');
    expect(status).toBe(2);
    expect(stderr).toContain('unknown service carousel; known are: redis openssl nginx');
  });

  it('ensure-services names missing services and the command to install them', () => {
    const env = { PATH: '/nowhere' };
    const { status, stderr } = spawnSync('/bin/bash', [ensureServices, 'redis'], { env });
    expect(status).toBe(1);
    expect(String(stderr)).toContain('redis-server redis-sentinel redis-cli not found');
    expect(String(stderr)).toContain('apt-get install redis-server redis-sentinel redis-tools');
  });
});

describe('a standalone server', () => {
  const kept = mkdtempSync(`${tmpdir()}/sluice-kept-`);
  afterAll(() => rmSync(kept, { recursive: true }));

  it('server.command returns text, numbers, null, lists and errors', () =>
    withRedis({}, async (server) => {
      expect(server.url).toBe(`redis://127.0.0.1:${server.port}`);
      expect(await server.command('SET', 'key', 'a\r\nü€')).toBe('OK');
      expect(await command(server.port, ['GET', 'key'])).toBe('a\r\nü€');
      expect(await server.command('STRLEN', 'key')).toBe(8);
      expect(await server.command('GET', 'none')).toBeNull();
      const script = "return {1, {'a', false, {err = 'NO way'}}, {}}";
      const list = [1, ['a', null, new Error('NO way')], []];
      expect(await server.command('EVAL', script, 0)).toEqual(list);
      await expect(server.command('INCR', 'key')).rejects.toThrow('ERR value is not an integer');
      const large = 'x'.repeat(3_000_000);
      await server.command('SET', 'large', large);
      expect((await server.command('GET', 'large')) === large).toBe(true);
    }));

  it('a server restarts on the same port without data', () =>
    withRedis({}, async (server) => {
      const { pid, port } = server;
      await server.command('SET', 'key', 'value');
      await server.kill();
      await expect(server.command('PING')).rejects.toThrow('ECONNREFUSED');
      await server.restart();
      expect(await command(port, ['GET', 'key'])).toBeNull();
      await server.restart();
      expect(await command(port, ['PING'])).toBe('PONG');
      expect(server.pid).not.toBe(pid);
    }));

  it('a paused server replies after it is resumed', () =>
    withRedis({}, async (server) => {
      await server.pause();
      const late = command(server.port, ['PING']);
      await expect(command(server.port, ['PING'], { timeoutMs: 100 })).rejects.toThrow(
        'PING on port',
      );
      await server.resume();
      expect(await late).toBe('PONG');
      await server.pause();
    }));

  it('a server with the `folder` option keeps its data', async () => {
    const options = { folder: kept, args: ['--appendonly', 'yes', '--appendfsync', 'always'] };
    await withRedis(options, async (server) => {
      await server.command('SET', 'key', 'value');
      await server.kill();
      await server.restart();
      expect(await server.command('GET', 'key')).toBe('value');
    });
    await withRedis(options, async (server) => {
      expect(await server.command('GET', 'key')).toBe('value');
    });
  });

  it('a server with TLS and a password rejects other certificates and passwords', () =>
    withRedis({ tls: true, password: 'p w/d' }, async (server) => {
      const { port, tlsCa: tls = '' } = server;
      expect(server.url).toBe(`rediss://:p%20w%2Fd@127.0.0.1:${port}`);
      expect(await server.command('PING')).toBe('PONG');
      expect(await command(port, ['PING'], { tls, password: 'p w/d' })).toBe('PONG');
      await expect(command(port, ['PING'], { tls })).rejects.toThrow('NOAUTH');
      await expect(command(port, ['PING'], { tls, password: '?' })).rejects.toThrow('WRONGPASS');
      await expect(command(port, ['PING'])).rejects.toThrow();
      await withRedis({ tls: true }, async (other) => {
        await expect(command(port, ['PING'], { tls: other.tlsCa! })).rejects.toThrow('self-signed');
      });
    }));

  it('users of the `acl` option have only their rights, and server.command has all', () =>
    withRedis({ acl: ['default off', 'reader on >secret ~a:* +get'] }, async (server) => {
      const reader = { username: 'reader', password: 'secret' };
      const read = (...args: string[]) => command(server.port, args, reader);
      await server.command('SET', 'a:1', 'value');
      expect(await read('GET', 'a:1')).toBe('value');
      await expect(read('GET', 'b:1')).rejects.toThrow('NOPERM');
      await expect(read('SET', 'a:1', '2')).rejects.toThrow('NOPERM');
      await expect(command(server.port, ['PING'])).rejects.toThrow('NOAUTH');
      await server.restart();
      expect(await read('GET', 'a:1')).toBeNull();
    }));

  it('startRedis rejects with the output of a server that cannot start', async () => {
    await expect(startRedis({ args: ['--maxmemory', 'much'] })).rejects.toThrow(
      /ended with code 1\n[\s\S]*argument must be a memory value/,
    );
    await withRedis({}, async ({ port }) => {
      await expect(startRedis({ port })).rejects.toThrow('Address already in use');
    });
  });

  it.each(['SIGKILL', 'SIGTERM', 'SIGINT', 'exit'] as const)(
    'if its parent process ends by %s, a server exits and its folder is deleted',
    async (how) => {
      const program = `
        import { startRedis } from '${root}tools/servers/redis.mjs';
        const server = await startRedis();
        const [, folder] = await server.command('CONFIG', 'GET', 'dir');
        await server.pause();
        console.log(JSON.stringify({ port: server.port, folder }));
        if ('${how}' === 'exit') process.exit();`;
      const child = spawn('node', ['--input-type=module', '-e', program]);
      const [line] = await once(child.stdout, 'data');
      const { port, folder } = JSON.parse(String(line));
      if (how !== 'exit') {
        expect(await isUnused(port)).toBe(false);
        child.kill(how);
      }
      await vi.waitUntil(async () => (await isUnused(port)) && !existsSync(folder), soon);
    },
  );
});

describe('Sentinel', () => {
  let group: SentinelGroup;
  beforeAll(async () => {
    group = await startSentinel();
  });
  afterAll(() => group?.stop());

  /** Returns the role. A sentinel that changes it closes all connections, maybe also this one. */
  const roleOf = (server: RedisServer) =>
    server.command<string[]>('ROLE').then(
      ([role]) => role,
      () => 'unknown',
    );

  it('Sentinel starts with one master, two replicas and three sentinels in agreement', async () => {
    expect(await group.currentMaster()).toBe(group.master.port);
    expect(await Promise.all([group.master, ...group.replicas].map(roleOf))).toEqual([
      ...['master', 'slave', 'slave'],
    ]);
    for (const { port } of group.sentinels) {
      const args = ['SENTINEL', 'CKQUORUM', group.masterName];
      expect(await command(port, args)).toContain('OK 3 usable');
    }
  });

  it('Sentinel fails over when the master is killed, and on command', async () => {
    await group.master.kill();
    await vi.waitUntil(async () => (await group.currentMaster()) !== group.master.port, soon);
    const port = await group.currentMaster();
    const promoted = group.replicas.find((each) => each.port === port)!;
    expect(await roleOf(promoted)).toBe('master');
    expect(await promoted.command('SET', 'key', 'value')).toBe('OK');
    await group.master.restart();
    await vi.waitUntil(async () => (await roleOf(group.master)) === 'slave', soon);
    await group.failover();
    expect(await group.currentMaster()).not.toBe(port);
  });
});

describe('Cluster', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster?.stop());

  it('a Cluster has three masters with a third of the slots and a replica each', async () => {
    const slots = [0, 5461, 5462, 10_922, 10_923, 16_383];
    expect(await Promise.all(slots.map(cluster.ownerOf))).toEqual([0, 0, 1, 1, 2, 2]);
    const ports = cluster.nodes.map(({ port }) => port);
    for (const url of cluster.urls) {
      const parts = await command<[number, number, ...[string, number][]][]>(
        Number(new URL(url).port),
        ['CLUSTER', 'SLOTS'],
      );
      const pairs = parts
        .sort(([a], [b]) => a - b)
        .map(([, , ...nodes]) => nodes.map((node) => node[1]));
      expect(pairs).toEqual([0, 1, 2].map((index) => [ports[index], ports[index + 3]]));
    }
  });

  it('moveSlot moves a slot with its keys, and commands get ASK or TRYAGAIN errors', async () => {
    const slot = await cluster.nodes[0].command<number>('CLUSTER', 'KEYSLOT', '{tag}');
    const from = await cluster.ownerOf(slot);
    const to = (from + 1) % 3;
    const [source, target] = [cluster.nodes[from], cluster.nodes[to]];
    const keys = Array.from({ length: 50 }, (_, index) => `{tag}${index}`);
    for (const key of keys) await source.command('SET', key, `value of ${key}`);
    const met = new Set<string>();
    const moving = cluster.moveSlot(slot, to);
    let isMoving = true;
    void moving.finally(() => {
      isMoving = false;
    });
    while (isMoving) {
      await source.command('MGET', ...keys).catch((error) => met.add(error.message.split(' ')[0]));
      await source.command('GET', '{tag}!').catch((error) => met.add(error.message.split(' ')[0]));
    }
    await moving;
    expect([...met]).toEqual(expect.arrayContaining(['ASK', 'TRYAGAIN']));
    expect(await cluster.ownerOf(slot)).toBe(to);
    expect(await target.command('MGET', ...keys)).toEqual(keys.map((key) => `value of ${key}`));
    const moved = `MOVED ${slot} 127.0.0.1:${target.port}`;
    for (const node of cluster.nodes.slice(0, 3).filter((each) => each !== target)) {
      await expect(command(node.port, ['GET', keys[0]])).rejects.toThrow(moved);
    }
  });

  it('a Cluster promotes the replica of a killed master', async () => {
    await cluster.nodes[2].kill();
    await vi.waitUntil(async () => (await cluster.ownerOf(16_383)) === 5, soon);
    const ofReplica = () => cluster.nodes[5].command('CLUSTER', 'INFO');
    await vi.waitUntil(async () => String(await ofReplica()).includes('state:ok'), soon);
  });
});
