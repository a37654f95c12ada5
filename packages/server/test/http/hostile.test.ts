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

const REQUESTS = Number(process.env.HOSTILE_REQUESTS ?? 3000);
const SEED = Number(process.env.HOSTILE_SEED ?? 1);
const isFull = REQUESTS >= 100_000;
const IDLE = isFull ? 5000 : 200;
const SLOW = isFull ? 100 : 0;
const AT_ONCE = 32;
const SILENCE_MS = 30;
const PATIENCE_MS = 20_000;
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

/** Returns the received responses; undefined if the last one is incomplete. */
function repliesIn(bytes: Buffer, isHead: boolean): Reply[] | undefined {
  const replies: Reply[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const head = rest.subarray(0, end).toString('latin1');
    const status = statusOf(`${head}\r\n`);
    const [, response] = /\r\ncontent-length: (\d+)/i.exec(head) ?? [];
    // What Node refuses by itself has no length, and nothing comes after it.
    const isLast = response === undefined && status !== 100;
    const length = isHead ? 0 : isLast ? rest.length - end - 4 : Number(response ?? 0);
    if (rest.length < end + 4 + length) return undefined;
    if (status !== 100) replies.push({ status, body: rest.subarray(end + 4, end + 4 + length) });
    rest = rest.subarray(end + 4 + length);
  }
  return replies.length > 0 ? replies : undefined;
}

/** Sends a request; returns the response, or that an expected response is missing. */
async function send({ kind, pieces, isCut = false }: HostileRequest): Promise<Reply[] | 'hangs'> {
  const socket = await open(port);
  const isHead = String(pieces[0]).startsWith('HEAD');
  const came: Buffer[] = [];
  const result = new Promise<Reply[] | 'hangs'>((resolve) => {
    const end = (hangs: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(hangs ? 'hangs' : (repliesIn(Buffer.concat(came), isHead) ?? []));
    };
    const timer = setTimeout(() => end(!isCut), isCut ? SILENCE_MS : PATIENCE_MS);
    socket.on('data', (bytes) => {
      came.push(bytes);
      if (isCut) timer.refresh();
      else if (repliesIn(Buffer.concat(came), isHead) !== undefined) end(false);
    });
    socket.on('close', () => end(false));
  });
  for (const piece of pieces) socket.write(piece);
  if (kind === 'cut') socket.end();
  return result;
}

/** However it ends: `once` would take a reset for a failure. */
const closeOf = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once('close', () => resolve()));

/** Connections on which nothing comes; those that are closed are opened again. */
class IdleCrowd {
  readonly #sockets = new Set<Socket>();
  #isOver = false;
  closed = 0;

  async gather(count: number): Promise<void> {
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

  async leave(): Promise<void> {
    this.#isOver = true;
    const gone = [...this.#sockets].map(closeOf);
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(gone);
  }
}

/** Sends single bytes; returns what it received until it was cut off. */
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

/** A correct client that sends requests one after the other until stopped. */
function healthyCaller(): () => Promise<number[]> {
  const statuses: number[] = [];
  let isOver = false;
  const body = JSON.stringify({ policy: 'healthy', key: 'caller' });
  const calls = (async () => {
    while (!isOver) {
      const answer = await fetch(`http://127.0.0.1:${port}/v1/check`, { method: 'POST', body });
      const { allowed } = (await answer.json()) as { allowed: boolean };
      statuses.push(allowed ? answer.status : 0);
    }
  })();
  return async () => {
    isOver = true;
    await calls;
    return statuses;
  };
}

/** How many replies there were of each status; throws at the first that should not have been. */
async function attack(count: number, seed: number): Promise<Map<number, number>> {
  const requests = new HostileRequests(seed);
  const statuses = new Map<number, number>();
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0 && !hasExited) {
      const request = requests.next();
      const replies = await send(request);
      const shown = (): string => String(request.pieces.join('')).slice(0, 500);
      if (replies === 'hangs') throw new Error(`no answer to a ${request.kind}: ${shown()}`);
      for (const { status, body } of replies) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const isRight = [200, 302].includes(status) || (status >= 400 && status < 500);
        if (!isRight) throw new Error(`${status} to a ${request.kind}: ${shown()}\n${body}`);
        if (body[0] === 0x7b) JSON.parse(new TextDecoder('utf8', { fatal: true }).decode(body));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return statuses;
}

describe('a service under hostile requests', () => {
  test('responds 4xx to hostile requests and does not leak memory', async () => {
    const crowd = new IdleCrowd();
    // What grows once, up to the most that has to be done at a time, has grown then.
    await crowd.gather(IDLE);
    await attack(isFull ? 20_000 : 1000, SEED + 1);
    const before = await reading();
    const stopHealthy = healthyCaller();
    const slowOnes = Array.from({ length: SLOW }, (_, each) => slow(each % 2 === 0));
    const statuses = await attack(REQUESTS, SEED);
    const slowStatuses = await Promise.all(slowOnes);
    const healthy = await stopHealthy();
    expect(crowd.size).toBeGreaterThan(IDLE * 0.9);
    const after = await reading();
    await crowd.leave();

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
      console.info(JSON.stringify({ before, after, counts, closedIdle: crowd.closed }));
    }
    expect((after.heapUsed - before.heapUsed) / MEGABYTE).toBeLessThan(16);
    expect((after.rss - before.rss) / MEGABYTE).toBeLessThan(64);
  }, 3_600_000);
});
