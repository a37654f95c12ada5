/** The servers that other tests rely on, put to the test themselves. */
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

/** Runs a task on a server of its own. */
async function withRedis(options: RedisOptions, task: (server: RedisServer) => Promise<void>) {
  const server = await startRedis(options);
  try {
    await task(server);
  } finally {
    await server.stop();
  }
}

/** Whether nobody listens on this port, so that its server is gone, however slow its burial. */
async function isDeserted(port: number): Promise<boolean> {
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

  it('says nothing when all is there', () => {
    expect(run('redis', 'openssl')).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  it('refuses a service that it does not know, and names the others', () => {
    const { status, stderr } = run('redis', 'carousel');
    expect(status).toBe(2);
    expect(stderr).toContain('unknown service carousel; known are: redis openssl nginx');
  });

  it('says what is missing and how to get it where it cannot install', () => {
    const env = { PATH: '/nowhere' };
    const { status, stderr } = spawnSync('/bin/bash', [ensureServices, 'redis'], { env });
    expect(status).toBe(1);
    expect(String(stderr)).toContain('redis-server redis-sentinel redis-cli not found');
    expect(String(stderr)).toContain('apt-get install redis-server redis-sentinel redis-tools');
  });
});

describe('a server alone', () => {
  const kept = mkdtempSync(`${tmpdir()}/sluice-kept-`);
  afterAll(() => rmSync(kept, { recursive: true }));

  it('answers with text, numbers, nothing, lists and errors', () =>
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

  it('starts again on the same port, and as new', () =>
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

  it('is silent while it is paused, and answers late', () =>
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

  it('keeps its data in a folder that it is given', async () => {
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

  it('speaks TLS, with a certificate that the authority vouches for, and wants the password', () =>
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

  it('lets users do what the access list says, and the administrator everything', () =>
    withRedis({ acl: ['default off', 'reader on >secret ~a:* +get'] }, async (server) => {
      const reader = { username: 'reader', password: 'secret' };
      const read = (...words: string[]) => command(server.port, words, reader);
      await server.command('SET', 'a:1', 'value');
      expect(await read('GET', 'a:1')).toBe('value');
      await expect(read('GET', 'b:1')).rejects.toThrow('NOPERM');
      await expect(read('SET', 'a:1', '2')).rejects.toThrow('NOPERM');
      await expect(command(server.port, ['PING'])).rejects.toThrow('NOAUTH');
      await server.restart();
      expect(await read('GET', 'a:1')).toBeNull();
    }));

  it('that cannot start says why in its own words', async () => {
    await expect(startRedis({ args: ['--maxmemory', 'much'] })).rejects.toThrow(
      /ended with code 1\n[\s\S]*argument must be a memory value/,
    );
    await withRedis({}, async ({ port }) => {
      await expect(startRedis({ port })).rejects.toThrow('Address already in use');
    });
  });

  it.each(['SIGKILL', 'SIGTERM', 'SIGINT', 'exit'] as const)(
    'ends with the process that started it, and leaves no folder: %s',
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
        expect(await isDeserted(port)).toBe(false);
        child.kill(how);
      }
      await vi.waitUntil(async () => (await isDeserted(port)) && !existsSync(folder), soon);
    },
  );
});

describe('servers with sentinels', () => {
  let group: SentinelGroup;
  beforeAll(async () => {
    group = await startSentinel();
  });
  afterAll(() => group?.stop());

  /** Sentinels cut all clients off a server whose role they change, maybe also this one. */
  const roleOf = (server: RedisServer) =>
    server.command<string[]>('ROLE').then(
      ([role]) => role,
      () => 'unknown',
    );

  it('begin with one master and two replicas, and all three sentinels know', async () => {
    expect(await group.currentMaster()).toBe(group.master.port);
    expect(await Promise.all([group.master, ...group.replicas].map(roleOf))).toEqual([
      ...['master', 'slave', 'slave'],
    ]);
    for (const { port } of group.sentinels) {
      const words = ['SENTINEL', 'CKQUORUM', group.masterName];
      expect(await command(port, words)).toContain('OK 3 usable');
    }
  });

  it('fail over when the master is killed, take it back, and fail over when told', async () => {
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

describe('a cluster', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster?.stop());

  it('shares the slots among three masters, each with a replica', async () => {
    const slots = [0, 5461, 5462, 10_922, 10_923, 16_383];
    expect(await Promise.all(slots.map(cluster.ownerOf))).toEqual([0, 0, 1, 1, 2, 2]);
    const ports = cluster.nodes.map(({ port }) => port);
    for (const url of cluster.urls) {
      const parts = await command<[number, number, ...[string, number][]][]>(
        Number(new URL(url).port),
        ['CLUSTER', 'SLOTS'],
      );
      const pairs = parts.sort(([a], [b]) => a - b).map(([, , ...who]) => who.map((w) => w[1]));
      expect(pairs).toEqual([0, 1, 2].map((index) => [ports[index], ports[index + 3]]));
    }
  });

  it('moves a slot with the keys in it, and clients meet ASK and TRYAGAIN meanwhile', async () => {
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

  it('goes on with the replica when a master is killed', async () => {
    await cluster.nodes[2].kill();
    await vi.waitUntil(async () => (await cluster.ownerOf(16_383)) === 5, soon);
    const ofReplica = () => cluster.nodes[5].command('CLUSTER', 'INFO');
    await vi.waitUntil(async () => String(await ofReplica()).includes('state:ok'), soon);
  });
});
