/** Who is started, stopped and replaced, and what nobody may notice of it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { policy } from '../running.ts';
import { Connection, ConnectionClosed } from './connection.ts';
import { type GroupOptions, isAlive, RunningGroup } from './running-group.ts';

const soon = { timeout: 20_000, interval: 20 };
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

/** Asks one question after the other on a connection, and on the next when that is closed. */
class Asker {
  answered = 0;
  /** Requests that were sent, on a connection old or new, and not answered. */
  dropped = 0;

  constructor(private readonly port: number) {}

  /** Until nobody listens any more. */
  async run(): Promise<void> {
    for (;;) {
      let connection: Connection;
      try {
        connection = await Connection.open(this.port);
      } catch {
        return;
      }
      await this.#ask(connection);
      connection.close();
    }
  }

  async #ask(connection: Connection): Promise<void> {
    while (!connection.isClosing && !connection.isClosed) {
      try {
        const { status } = await connection.check({ policy: 'p', key: 'load' });
        expect(status).toBe(200);
        this.answered++;
      } catch (error) {
        expect(error).toBeInstanceOf(ConnectionClosed);
        this.dropped++;
      }
    }
  }
}

describe('starting', () => {
  test('fails as a whole where a port is taken, and leaves nobody behind', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    await expect(start({ listen: `127.0.0.1:${port}` })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
    other.close();
  });

  test('fails as a whole if a worker cannot start, and says why', async () => {
    const missing = { tlsCert: '/nowhere/cert.pem', tlsKey: '/nowhere/key.pem' };
    await expect(start(missing)).rejects.toMatchObject({
      code: 'ENOENT',
      message: expect.stringContaining('/nowhere/cert.pem'),
    });
  });
});

describe('stopping', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'on %s all that was asked is answered, and everybody goes',
    { timeout: 60_000 },
    async (signal) => {
      const group = await start({ workers: 4, drainMs: '20s' });
      const pids = await group.pids();
      const askers = Array.from({ length: 16 }, () => new Asker(group.port));
      const asking = askers.map((each) => each.run());
      const sum = (field: 'answered' | 'dropped'): number =>
        askers.reduce((total, each) => total + each[field], 0);
      await vi.waitUntil(() => sum('answered') > 500, soon);
      group.kill(signal);
      expect(await group.ended).toEqual({ code: 0, signal: null });
      await Promise.all(asking);
      expect(sum('dropped')).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
    },
  );

  test('a signal to the whole group of processes is no other', { timeout: 60_000 }, async () => {
    const group = await start();
    const connection = await Connection.open(group.port);
    await connection.check({ policy: 'p', key: 'group' });
    const pids = await group.pids();
    // What a terminal does with Ctrl-C, and systemd when it stops a service.
    for (const pid of pids) process.kill(pid, 'SIGINT');
    for (const pid of pids) process.kill(pid, 'SIGTERM');
    const replies = connection.post('/v1/check', Array(50).fill({ policy: 'p', key: 'group' }));
    group.kill('SIGINT');
    for (const { status } of await Promise.all(replies)) expect(status).toBe(200);
    expect(await group.ended).toEqual({ code: 0, signal: null });
    expect(group.log.filter(({ msg }) => msg === 'worker exited')).toEqual([]);
  });

  test('a second signal ends all at once, whoever still waits', { timeout: 60_000 }, async () => {
    const group = await start({ drainMs: '10m' });
    const pids = await group.pids();
    const connection = await Connection.open(group.port);
    // A request that is never sent to its end would be waited for.
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

  test('workers go when the supervisor is killed', { timeout: 60_000 }, async () => {
    const group = await start();
    const pids = await group.pids();
    expect(pids.filter(isAlive)).toHaveLength(2);
    group.kill('SIGKILL');
    await vi.waitUntil(() => !pids.some(isAlive), soon);
    await expect(Connection.open(group.port)).rejects.toThrow('ECONNREFUSED');
  });
});

describe('replacing', () => {
  test('whoever comes while all workers are dead is served', { timeout: 60_000 }, async () => {
    const group = await start();
    const pids = await group.pids();
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await vi.waitUntil(() => !pids.some(isAlive), soon);
    const connections = await Promise.all(
      Array.from({ length: 8 }, () => Connection.open(group.port)),
    );
    const replies = await Promise.all(
      connections.map((each) => each.check({ policy: 'p', key: 'patient' })),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(new Set(replies.map(({ json }) => json.remaining)).size).toBe(8);
    for (const each of connections) each.close();
  });

  test('pauses longer each time that a worker dies young', { timeout: 60_000 }, async () => {
    const group = await start();
    const deaths = () => group.log.filter(({ msg }) => msg === 'worker exited');
    for (let death = 1; death <= 3; death++) {
      const [first] = await group.pids();
      process.kill(first, 'SIGKILL');
      await vi.waitUntil(() => deaths().length === death, soon);
      await vi.waitUntil(async () => (await group.pids()).length === 2, soon);
    }
    const bySlot = new Map<unknown, number[]>();
    for (const { worker, pauseMs } of deaths()) {
      bySlot.set(worker, [...(bySlot.get(worker) ?? []), pauseMs as number]);
    }
    for (const pauses of bySlot.values()) {
      expect(pauses).toEqual([100, 200, 400].slice(0, pauses.length));
    }
  });
});
