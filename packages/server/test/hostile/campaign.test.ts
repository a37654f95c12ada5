/**
 * Sends generated and mutated messages over HTTP, TLS and gRPC. Each gets a client error, ordinary
 * requests succeed meanwhile, no error is unhandled, and memory use does not grow.
 * HOSTILE_MESSAGES=1000000 is the full size (`npm run hostile`), HOSTILE_SEED selects the messages.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeTlsFiles } from '../tls-pair.ts';
import {
  GrpcAttacker,
  HandshakeAttacker,
  HttpAttacker,
  type Results,
  type Target,
} from './attackers.ts';

const MESSAGES = Number(process.env.HOSTILE_MESSAGES ?? 1200);
const SEED = Number(process.env.HOSTILE_SEED ?? 1);
const isLong = MESSAGES >= 100_000;
const MEGABYTE = 2 ** 20;

interface Reading {
  readonly rss: number;
  readonly heapUsed: number;
  readonly failures: readonly string[];
}

let folder: string;
let child: ChildProcess;
let plain: Target;
let secure: Target;
let hasExited = false;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-hostile-'));
  const { tlsCert, tlsKey } = writeTlsFiles(folder);
  const program = new URL('service.mjs', import.meta.url).pathname;
  child = fork(program, [tlsCert, tlsKey], { execArgv: ['--expose-gc'] });
  child.once('exit', () => {
    hasExited = true;
  });
  [{ plain, secure }] = (await once(child, 'message')) as [{ plain: Target; secure: Target }];
});
afterAll(() => {
  child.kill();
  rmSync(folder, { recursive: true });
});

async function reading(): Promise<Reading> {
  child.send('read');
  const [message] = await once(child, 'message');
  return message as Reading;
}

/** Resolves to the first bytes that a TLS client sends. */
async function clientHello(): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const client = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2', 'http/1.1'] });
  client.on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [hello] = await once(socket, 'data');
  client.destroy();
  socket.destroy();
  server.close();
  return hello;
}

/**
 * Runs 20 attackers: 8 over HTTP, 4 over HTTPS, 4 over gRPC, 2 over gRPC with TLS, and 2 with
 * invalid handshakes.
 */
async function attack(count: number, seed: number): Promise<Results> {
  const results: Results = new Map();
  const hello = await clientHello();
  const ports = [secure.http, secure.grpc];
  const attackers = Array.from({ length: 20 }, (_, at) => {
    const own = seed * 1000 + at;
    if (at < 8) return new HttpAttacker(own, results, plain.http, false);
    if (at < 12) return new HttpAttacker(own, results, secure.http, true);
    if (at < 16) return new GrpcAttacker(own, results, plain.grpc, false);
    if (at < 18) return new GrpcAttacker(own, results, secure.grpc, true);
    return new HandshakeAttacker(own, results, ports, hello);
  });
  let remaining = count;
  await Promise.all(
    attackers.map(async (each) => {
      while (remaining-- > 0 && !hasExited) await each.attack();
      each.close();
    }),
  );
  return results;
}

/** Starts a client that sends valid requests in sequence. Returns a function that stops it. */
function ordinaryClient(): () => Promise<readonly number[]> {
  const statuses: number[] = [];
  let isOver = false;
  const body = JSON.stringify({ policy: 'healthy', key: 'caller' });
  const calls = (async () => {
    while (!isOver) {
      const url = `http://127.0.0.1:${plain.http}/v1/check`;
      const response = await fetch(url, { method: 'POST', body });
      const { allowed } = (await response.json()) as { allowed: boolean };
      statuses.push(allowed ? response.status : 0);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return async () => {
    isOver = true;
    await calls;
    return statuses;
  };
}

test('hostile messages get client errors, and memory use does not grow', async () => {
  // Structures that grow to the largest number of concurrent requests have grown after this.
  await attack(isLong ? MESSAGES / 10 : MESSAGES, SEED + 1);
  const before = await reading();
  const stop = ordinaryClient();
  const results = await attack(MESSAGES, SEED);
  const ordinary = await stop();
  const after = await reading();

  expect(hasExited).toBe(false);
  expect(after.failures).toEqual([]);
  expect(ordinary.length).toBeGreaterThan(10);
  expect(ordinary.filter((status) => status !== 200)).toEqual([]);
  for (const name of ['http 200', 'http 400', 'https 400', 'grpc 0', 'grpc 3', 'grpcs 0']) {
    expect([...results.keys()]).toContain(name);
  }
  if (isLong) console.info(JSON.stringify({ before, after, ...Object.fromEntries(results) }));
  expect((after.heapUsed - before.heapUsed) / MEGABYTE).toBeLessThan(16);
  // The memory of a short run varies more.
  expect(after.rss).toBeLessThan(isLong ? 1.2 * before.rss : before.rss + 96 * MEGABYTE);
}, 3_600_000);
