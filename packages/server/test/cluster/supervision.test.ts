/** Start, graceful shutdown and replacement of workers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { policy } from '../running.ts';
import { Connection, ConnectionClosed } from './connection.ts';
import { type GroupOptions, isAlive, RunningGroup } from './running-group.ts';

const soon = { timeout: 20_000, interval: 20 };
const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const WORKERS = isFull ? 4 : 2;
/** A later test stops the service with SIGINT, also in the short form. */
const SIGNALS = isFull ? (['SIGTERM', 'SIGINT'] as const) : (['SIGTERM'] as const);
const config = { policies: [policy('p', 1_000_000, '1h')] };

const running: RunningGroup[] = [];
afterEach(async () => {
  for (const group of running.splice(0)) await group.stop();
}, 60_000);

async function start(settings: GroupOptions['settings'] = {}): Promise<RunningGroup> {
  const group = await RunningGroup.start({ config, settings });
  running.push(group);
  return group;
}

/** Sends one request after the other, and reconnects when the connection is closed. */
class Client {
  completed = 0;
  /** Requests that were sent and got no response. */
  dropped = 0;

  constructor(private readonly port: number) {}

  /** Runs until connections are refused. */
  async run(): Promise<void> {
    for (;;) {
      let connection: Connection;
      try {
        connection = await Connection.open(this.port);
      } catch {
        return;
      }
      await this.#checkOn(connection);
      connection.close();
    }
  }

  async #checkOn(connection: Connection): Promise<void> {
    while (!connection.isClosing && !connection.isClosed) {
      try {
        const { status } = await connection.check({ policy: 'p', key: 'load' });
        expect(status).toBe(200);
        this.completed++;
      } catch (error) {
        expect(error).toBeInstanceOf(ConnectionClosed);
        this.dropped++;
      }
    }
  }
}

describe('start of workers', () => {
  test('a service with workers does not start if the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    await expect(start({ listen: `127.0.0.1:${port}` })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
    other.close();
  });

  test('a service with workers fails with the reason why a worker cannot start', async () => {
    const missing = { tlsCert: '/nowhere/cert.pem', tlsKey: '/nowhere/key.pem' };
    await expect(start(missing)).rejects.toMatchObject({
      code: 'ENOENT',
      message: expect.stringContaining('/nowhere/cert.pem'),
    });
  });
});

describe('graceful shutdown of workers', () => {
  test.each(SIGNALS)(
    'after %s, all requests get responses, then all processes exit',
    { timeout: 60_000 },
    async (signal) => {
      const group = await start({ workers: WORKERS, drainMs: '20s' });
      const pids = await group.pids();
      const clients = Array.from({ length: 16 }, () => new Client(group.port));
      const runs = clients.map((each) => each.run());
      const sum = (field: 'completed' | 'dropped'): number =>
        clients.reduce((total, each) => total + each[field], 0);
      await vi.waitUntil(() => sum('completed') > 500, soon);
      group.kill(signal);
      expect(await group.ended).toEqual({ code: 0, signal: null });
      await Promise.all(runs);
      expect(sum('dropped')).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
    },
  );

  test('workers ignore SIGINT and SIGTERM', { timeout: 60_000 }, async () => {
    const group = await start();
    const connection = await Connection.open(group.port);
    await connection.check({ policy: 'p', key: 'group' });
    const pids = await group.pids();
    // A terminal (Ctrl-C) and systemd send the signal to all processes.
    for (const pid of pids) process.kill(pid, 'SIGINT');
    for (const pid of pids) process.kill(pid, 'SIGTERM');
    const replies = connection.post('/v1/check', Array(50).fill({ policy: 'p', key: 'group' }));
    group.kill('SIGINT');
    for (const { status } of await Promise.all(replies)) expect(status).toBe(200);
    expect(await group.ended).toEqual({ code: 0, signal: null });
    expect(group.log.filter(({ msg }) => msg === 'worker exited')).toEqual([]);
  });

  test('a second SIGTERM ends the service although a request is in flight', {
    timeout: 60_000,
  }, async () => {
    const group = await start({ drainMs: '10m' });
    const pids = await group.pids();
    const connection = await Connection.open(group.port);
    // The shutdown waits for this incomplete request.
    connection.write('POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{');
    const inFlight = async (): Promise<boolean> =>
      /sluice_http_requests_in_flight 2\n/.test(await (await fetch(`${group.url}/metrics`)).text());
    await vi.waitUntil(inFlight, soon);
    group.kill('SIGTERM');
    await vi.waitUntil(() => group.log.some(({ msg }) => msg === 'stopping'), soon);
    expect(pids.some(isAlive)).toBe(true);
    group.kill('SIGTERM');
    expect(await group.ended).toEqual({ code: 143, signal: null });
    await vi.waitUntil(() => !pids.some(isAlive), soon);
  });

  test('an open channel of an exited process does not end the supervisor with code 13', {
    timeout: 60_000,
  }, async () => {
    const program = fileURLToPath(new URL('exited-child.mjs', import.meta.url));
    const [code] = await once(spawn(process.execPath, [program], { stdio: 'inherit' }), 'exit');
    expect(code).toBe(0);
  });

  test('workers exit when the supervisor is killed', { timeout: 60_000 }, async () => {
    const group = await start();
    const pids = await group.pids();
    expect(pids.filter(isAlive)).toHaveLength(2);
    group.kill('SIGKILL');
    await vi.waitUntil(() => !pids.some(isAlive), soon);
    await expect(Connection.open(group.port)).rejects.toThrow('ECONNREFUSED');
  });
});

describe('replacement of workers', () => {
  test('new connections wait while all workers are replaced', { timeout: 60_000 }, async () => {
    const group = await start();
    const pids = await group.pids();
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await vi.waitUntil(() => !pids.some(isAlive), soon);
    const connections = await Promise.all(
      Array.from({ length: 8 }, () => Connection.open(group.port)),
    );
    const replies = await Promise.all(
      connections.map((each) => each.check({ policy: 'p', key: 'waiting' })),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(new Set(replies.map(({ json }) => json.remaining)).size).toBe(8);
    for (const each of connections) each.close();
  });

  test('the restart delay doubles each time a worker exits soon after its start', {
    timeout: 60_000,
  }, async () => {
    const group = await start();
    const exits = () => group.log.filter(({ msg }) => msg === 'worker exited');
    for (let count = 1; count <= 3; count++) {
      const [first] = await group.pids();
      process.kill(first, 'SIGKILL');
      await vi.waitUntil(() => exits().length === count, soon);
      await vi.waitUntil(async () => (await group.pids()).length === 2, soon);
    }
    const bySlot = new Map<unknown, number[]>();
    for (const { worker, pauseMs } of exits()) {
      bySlot.set(worker, [...(bySlot.get(worker) ?? []), pauseMs as number]);
    }
    for (const pauses of bySlot.values()) {
      expect(pauses).toEqual([100, 200, 400].slice(0, pauses.length));
    }
  });
});
