import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from '../../../tools/servers/redis.mjs';
import { programOf } from '../../../tools/test-programs.ts';
import { policy, type Running, startRunning } from './running.ts';

const LOAD = new URL('stop-load.mjs', import.meta.url);

let folder: string;
const children: ChildProcess[] = [];
const servers: RedisServer[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-stop-'));
  writeFileSync(join(folder, 'sluice.yaml'), 'policies:\n  many: 1000000/1h\n');
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const server of servers.splice(0)) await server.stop();
  rmSync(folder, { recursive: true });
});

interface ServiceProcess {
  readonly child: ChildProcess;
  readonly port: number;
  readonly ended: Promise<{ code: number | null }>;
  readonly output: () => string;
}

async function startProcess(settings: object = {}): Promise<ServiceProcess> {
  const flags = JSON.stringify({ listen: '127.0.0.1:0', drainMs: '4s', ...settings });
  const child = fork(programOf('stop-service'), [flags, join(folder, 'sluice.yaml')], {
    silent: true,
  });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', (chunk) => {
      output += chunk;
    });
  }
  const ended = once(child, 'exit').then(([code]) => ({ code }));
  const ready = once(child, 'message');
  await Promise.race([ready, ended.then(() => Promise.reject(new Error(output)))]);
  const [{ port }] = (await ready) as [{ port: number }];
  return { child, port, ended, output: () => output };
}

interface LoadResults {
  readonly sent: number;
  readonly completed: number;
  readonly denied: number;
  readonly failed: number;
  readonly ended: number;
  readonly refused: number;
  readonly largestInFlight: number;
  readonly problems: readonly string[];
}

async function startLoad(port: number, groups: readonly object[]) {
  const load = fork(LOAD, [String(port), JSON.stringify(groups)]);
  children.push(load);
  const [message] = await once(load, 'message');
  expect(message).toEqual({ isLoaded: true });
  const received = once(load, 'message').then(([results]) => results as LoadResults);
  const failed = once(load, 'exit').then(([code]): never => {
    throw new Error(`The load exited with ${code} before it sent its results`);
  });
  const results = Promise.race([received, failed]);
  // Handled when the test awaits it, which may be after the exit.
  results.catch(() => {});
  return { results };
}

async function startTestRedis(): Promise<RedisServer> {
  const redis = await startRedis();
  servers.push(redis);
  return redis;
}

const rounds = process.env.SLUICE_CAMPAIGN === 'full' ? 20 : 1;

describe('SIGTERM under load', () => {
  test('SIGTERM drops no request in flight, pipelined or sent during the drain', async () => {
    for (let round = 0; round < rounds; round++) {
      const redis = await startTestRedis();
      const service = await startProcess({ store: redis.url, deadlineMs: '10s', drainMs: '10s' });
      const load = await startLoad(service.port, [
        { connections: 300, batch: 1, pauseMs: 0 },
        { connections: 50, batch: 10, pauseMs: 20 },
        // Mostly idle, so that they send while other connections are closed.
        { connections: 100, batch: 1, pauseMs: 1200 },
      ]);
      // Responses are delayed, so that the maximum number of requests is in flight.
      await redis.pause();
      await new Promise((resolve) => setTimeout(resolve, 200));
      service.child.kill('SIGTERM');
      await new Promise((resolve) => setTimeout(resolve, 200));
      await redis.resume();
      const results = await load.results;
      expect(results).toMatchObject({ problems: [], failed: 0, denied: 0, ended: 450 });
      expect(results.completed).toBe(results.sent);
      expect(results.largestInFlight).toBeGreaterThan(300);
      expect((await service.ended).code).toBe(0);
      expect(service.output()).toContain('"msg":"stopped"');
      expect(service.output()).not.toContain('requests cut off');
    }
  });

  test('SIGTERM drops no request of clients that reconnect', async () => {
    for (let round = 0; round < rounds; round++) {
      const service = await startProcess({ drainMs: '10s' });
      const load = await startLoad(service.port, [
        { connections: 100, batch: 1, pauseMs: 0, reconnects: true },
        { connections: 50, batch: 1, pauseMs: 5, reconnects: true, sendsClose: true },
        { connections: 20, batch: 20, pauseMs: 5 },
        { connections: 50, batch: 1, pauseMs: 1200 },
      ]);
      service.child.kill('SIGTERM');
      const results = await load.results;
      expect(results).toMatchObject({ problems: [], failed: 0, denied: 0, refused: 150 });
      expect(results.completed).toBe(results.sent);
      expect((await service.ended).code).toBe(0);
    }
  });
});

describe('process exit', () => {
  const send = (port: number, text: string): Promise<Socket> =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(text);
        resolve(socket);
      });
      socket.on('error', () => {});
    });
  const CHECK =
    'POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 27\r\n\r\n{"policy":"many","key":"k"}';

  test('a service process without connections exits on SIGINT', async () => {
    const service = await startProcess({ drainMs: '60s' });
    service.child.kill('SIGINT');
    expect((await service.ended).code).toBe(0);
  });

  test('new connections are refused during shutdown', async () => {
    const service = await startProcess();
    const idle = await send(service.port, '');
    service.child.kill('SIGTERM');
    await expect.poll(service.output, { timeout: 20_000 }).toContain('"msg":"stopping"');
    const refused = await new Promise((resolve) => {
      const poll = (): void => {
        const socket = connect(service.port, '127.0.0.1');
        socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
        socket.on('connect', () => setTimeout(poll, 10));
      };
      poll();
    });
    expect(refused).toBe('ECONNREFUSED');
    idle.destroy();
    expect((await service.ended).code).toBe(0);
  });

  test('shutdown closes silent HTTP connections', async () => {
    const service = await startProcess({ drainMs: '1s' });
    const sockets = [await send(service.port, ''), await send(service.port, CHECK)];
    const closed = Promise.all(sockets.map((socket) => once(socket, 'close')));
    for (const socket of sockets) socket.resume();
    service.child.kill('SIGTERM');
    await closed;
    expect((await service.ended).code).toBe(0);
  });

  test('shutdown cuts off requests after the drain time and logs their number', async () => {
    const redis = await startTestRedis();
    const service = await startProcess({ store: redis.url, deadlineMs: '60s', drainMs: '500ms' });
    await redis.pause();
    const socket = await send(service.port, CHECK);
    await new Promise((resolve) => setTimeout(resolve, 200));
    service.child.kill('SIGTERM');
    await once(socket, 'close');
    expect((await service.ended).code).toBe(0);
    expect(service.output()).toContain('"requests":1,"msg":"requests cut off');
    await redis.resume();
  });

  test('a second SIGTERM ends the process with exit code 143', async () => {
    const redis = await startTestRedis();
    const service = await startProcess({ store: redis.url, deadlineMs: '60s', drainMs: '60s' });
    await redis.pause();
    await send(service.port, CHECK);
    await new Promise((resolve) => setTimeout(resolve, 200));
    service.child.kill('SIGTERM');
    await expect.poll(service.output, { timeout: 20_000 }).toContain('"msg":"stopping"');
    service.child.kill('SIGTERM');
    expect((await service.ended).code).toBe(143);
    await redis.resume();
  });

  test('SIGHUP reloads the configuration files, and the process continues', async () => {
    const service = await startProcess();
    const path = join(folder, 'sluice.yaml');
    const reloads = (): number => service.output().split('config reloaded').length - 1;
    // SIGHUP reloads unchanged files too.
    service.child.kill('SIGHUP');
    await expect.poll(reloads, { timeout: 20_000 }).toBe(1);
    writeFileSync(path, 'policies:\n  many: 5/1h\n  more: 7/1h\n');
    service.child.kill('SIGHUP');
    await expect.poll(reloads, { timeout: 20_000 }).toBeGreaterThan(1);
    writeFileSync(path, 'policies:\n  many: none\n');
    service.child.kill('SIGHUP');
    await expect.poll(service.output, { timeout: 20_000 }).toContain(`${path}:2:9: Expected`);
    const response = await fetch(`http://127.0.0.1:${service.port}/v1/peek`, {
      method: 'POST',
      body: JSON.stringify({ policy: 'more', key: 'k' }),
    });
    expect(((await response.json()) as { limit: number }).limit).toBe(7);
    service.child.kill('SIGTERM');
    expect((await service.ended).code).toBe(0);
  });
});

describe('graceful shutdown of connections', () => {
  let running: Running;
  const GET = 'GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n';

  test('during shutdown, a connection closes with the last pipelined response', async () => {
    running = await startRunning({
      config: { policies: [policy('many', 1000, '1h')] },
      settings: { drainMs: '5s' },
    });
    const socket = connect(running.service.http.port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.write(GET);
    await expect.poll(() => text).toContain('alive');
    const closed = once(socket, 'close');
    const stopped = running.close();
    socket.write(GET.repeat(20));
    await closed;
    await stopped;
    expect(text.match(/HTTP\/1\.1 200/g)?.length).toBe(21);
    expect(text.match(/connection: close/gi)?.length).toBe(1);
    expect(text.slice(text.lastIndexOf('HTTP/1.1'))).toMatch(/connection: close/i);
  });

  test('a service is not ready during shutdown', async () => {
    running = await startRunning({ settings: { drainMs: '1s' } });
    const { url } = running;
    expect((await running.get('/readyz')).status).toBe(200);
    const stopped = running.close();
    const response = await fetch(`${url}/readyz`);
    expect([response.status, response.headers.get('connection')]).toEqual([503, 'close']);
    expect(await response.json()).toMatchObject({ ready: false, draining: true });
    await stopped;
  });

  test('close of a service can be called twice', async () => {
    running = await startRunning();
    await Promise.all([running.close(), running.close()]);
    await running.close();
  });
});
