/**
 * A service under hostile requests responds 4xx, serves other clients, does not crash, and does not
 * leak memory. HOSTILE_REQUESTS=100000 is the full size, with 5,000 idle connections and slow
 * clients. HOSTILE_SEED selects other requests.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type HostileRequest, HostileRequests } from './hostile-requests.ts';
import { headOf, open, statusOf } from './raw.ts';

const REQUESTS = Number(process.env.HOSTILE_REQUESTS ?? 800);
const SEED = Number(process.env.HOSTILE_SEED ?? 1);
const isFull = REQUESTS >= 100_000;
const IDLE = isFull ? 5000 : 200;
const SLOW = isFull ? 100 : 0;
const AT_ONCE = 32;
const SILENCE_MS = 30;
const RESPONSE_TIMEOUT_MS = 20_000;
const MEGABYTE = 2 ** 20;

interface Reading {
  readonly rss: number;
  readonly heapUsed: number;
  readonly errors: number;
}

let child: ChildProcess;
let port: number;
let hasExited = false;

beforeAll(async () => {
  const path = new URL('hostile-service.mjs', import.meta.url).pathname;
  child = fork(path, { execArgv: ['--expose-gc'] });
  child.once('exit', () => {
    hasExited = true;
  });
  [{ port }] = (await once(child, 'message')) as [{ port: number }];
});
afterAll(() => child.kill());

async function reading(): Promise<Reading> {
  child.send('read');
  const [message] = await once(child, 'message');
  return message as Reading;
}

interface Reply {
  readonly status: number;
  readonly body: Buffer;
}

/** Returns the received responses, or undefined if the last one is incomplete. */
function repliesIn(bytes: Buffer, isHead: boolean): Reply[] | undefined {
  const replies: Reply[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const head = rest.subarray(0, end).toString('latin1');
    const status = statusOf(`${head}\r\n`);
    const [, contentLength] = /\r\ncontent-length: (\d+)/i.exec(head) ?? [];
    // Responses that Node sends itself have no Content-Length and are the last ones.
    const isLast = contentLength === undefined && status !== 100;
    const length = isHead ? 0 : isLast ? rest.length - end - 4 : Number(contentLength ?? 0);
    if (rest.length < end + 4 + length) return undefined;
    if (status !== 100) replies.push({ status, body: rest.subarray(end + 4, end + 4 + length) });
    rest = rest.subarray(end + 4 + length);
  }
  return replies.length > 0 ? replies : undefined;
}

/** Sends a request. Resolves to the responses, or to 'hangs' without an expected response. */
async function send({ kind, pieces, isCut = false }: HostileRequest): Promise<Reply[] | 'hangs'> {
  const socket = await open(port);
  const isHead = String(pieces[0]).startsWith('HEAD');
  const received: Buffer[] = [];
  const result = new Promise<Reply[] | 'hangs'>((resolve) => {
    const end = (hangs: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(hangs ? 'hangs' : (repliesIn(Buffer.concat(received), isHead) ?? []));
    };
    const timer = setTimeout(() => end(!isCut), isCut ? SILENCE_MS : RESPONSE_TIMEOUT_MS);
    socket.on('data', (bytes) => {
      received.push(bytes);
      if (isCut) timer.refresh();
      else if (repliesIn(Buffer.concat(received), isHead) !== undefined) end(false);
    });
    socket.on('close', () => end(false));
  });
  for (const piece of pieces) socket.write(piece);
  if (kind === 'cut') socket.end();
  return result;
}

/** Resolves when the socket is closed. `once` would reject on a reset. */
const closeOf = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once('close', () => resolve()));

/** Idle connections. Closed ones are opened again. */
class IdleConnections {
  readonly #sockets = new Set<Socket>();
  #isOver = false;
  closed = 0;

  async open(count: number): Promise<void> {
    while (this.#sockets.size < count) {
      await Promise.all(Array.from({ length: 50 }, () => this.#add()));
    }
  }

  async #add(): Promise<void> {
    const socket = await open(port);
    this.#sockets.add(socket);
    socket.resume();
    if (this.#sockets.size % 2 === 0) socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ');
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (this.#isOver) return;
      this.closed++;
      this.#add().catch(() => {});
    });
  }

  get size(): number {
    return this.#sockets.size;
  }

  async close(): Promise<void> {
    this.#isOver = true;
    const closed = [...this.#sockets].map(closeOf);
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closed);
  }
}

/** Sends single bytes until the connection is closed. Resolves to the received status. */
async function slow(isBody: boolean): Promise<number> {
  const socket = await open(port);
  const head = headOf('POST', '/v1/check', 'Content-Length: 1000');
  socket.write(isBody ? `${head}{` : head.slice(0, -2));
  const drip = setInterval(() => socket.write(isBody ? ' ' : 'X: y\r\n'), 500);
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1');
  });
  await closeOf(socket);
  clearInterval(drip);
  return statusOf(text);
}

/** Starts a client that sends valid requests in sequence. Returns a function that stops it. */
function healthyCaller(): () => Promise<number[]> {
  const statuses: number[] = [];
  let isOver = false;
  const body = JSON.stringify({ policy: 'healthy', key: 'caller' });
  const calls = (async () => {
    while (!isOver) {
      const response = await fetch(`http://127.0.0.1:${port}/v1/check`, { method: 'POST', body });
      const { allowed } = (await response.json()) as { allowed: boolean };
      statuses.push(allowed ? response.status : 0);
    }
  })();
  return async () => {
    isOver = true;
    await calls;
    return statuses;
  };
}

/** Resolves to the number of responses by status. Throws at the first unexpected response. */
async function attack(count: number, seed: number): Promise<Map<number, number>> {
  const requests = new HostileRequests(seed);
  const statuses = new Map<number, number>();
  let remaining = count;
  const worker = async (): Promise<void> => {
    while (remaining-- > 0 && !hasExited) {
      const request = requests.next();
      const replies = await send(request);
      const excerpt = (): string => String(request.pieces.join('')).slice(0, 500);
      if (replies === 'hangs') throw new Error(`no response to a ${request.kind}: ${excerpt()}`);
      for (const { status, body } of replies) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const isExpected = [200, 302].includes(status) || (status >= 400 && status < 500);
        if (!isExpected) throw new Error(`${status} to a ${request.kind}: ${excerpt()}\n${body}`);
        if (body[0] === 0x7b) JSON.parse(new TextDecoder('utf8', { fatal: true }).decode(body));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return statuses;
}

describe('hostile HTTP requests', () => {
  test('hostile requests get 4xx, and the service does not leak memory', async () => {
    const idle = new IdleConnections();
    // Structures that grow to the largest number of concurrent requests have grown after this.
    await idle.open(IDLE);
    await attack(isFull ? 20_000 : 600, SEED + 1);
    const before = await reading();
    const stopHealthy = healthyCaller();
    const slowClients = Array.from({ length: SLOW }, (_, each) => slow(each % 2 === 0));
    const statuses = await attack(REQUESTS, SEED);
    const slowStatuses = await Promise.all(slowClients);
    const healthy = await stopHealthy();
    expect(idle.size).toBeGreaterThan(IDLE * 0.9);
    const after = await reading();
    await idle.close();

    expect(hasExited).toBe(false);
    expect(healthy.length).toBeGreaterThan(50);
    expect(healthy.filter((status) => status !== 200)).toEqual([]);
    for (const status of [200, 400, 404, 405, 413, 431])
      expect([...statuses.keys()]).toContain(status);
    // A reset may overtake the response.
    expect(slowStatuses.filter((status) => status !== 408 && status !== 0)).toEqual([]);
    expect(after.errors).toBe(0);
    if (isFull) {
      const counts = { ...Object.fromEntries(statuses), healthy: healthy.length };
      console.info(JSON.stringify({ before, after, counts, closedIdle: idle.closed }));
    }
    expect((after.heapUsed - before.heapUsed) / MEGABYTE).toBeLessThan(16);
    expect((after.rss - before.rss) / MEGABYTE).toBeLessThan(64);
  }, 3_600_000);
});
