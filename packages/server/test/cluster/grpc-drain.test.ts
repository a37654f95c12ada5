/** Graceful shutdown of gRPC with workers. */
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { afterEach, expect, test, vi } from 'vitest';
import { open } from '../http/raw.ts';
import { policy } from '../running.ts';
import { RunningGroup } from './running-group.ts';

const ROUNDS = process.env.SLUICE_CAMPAIGN === 'full' ? 20 : 1;
const SESSIONS = 8;
const AT_ONCE = 8;
const HEADERS = {
  ':method': 'POST',
  ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  'content-type': 'application/grpc',
};
/** `domain: "shop"`, and one descriptor with an entry `user: "u"`. */
const MESSAGE = Buffer.from('0a0473686f70120b0a090a047573657212017500'.slice(0, -2), 'hex');
const FRAME = Buffer.concat([Buffer.from([0, 0, 0, 0, MESSAGE.length]), MESSAGE]);

let group: RunningGroup | undefined;
afterEach(() => group?.stop());

/** Client that keeps calls in flight until the server sends GOAWAY. */
class Caller {
  readonly session: ClientHttp2Session;
  completed = 0;
  /** Calls without a response, except refused streams: a client may retry those. */
  lost = 0;
  #isOver = false;

  constructor(port: number) {
    this.session = connect(`http://127.0.0.1:${port}`);
    this.session.on('error', () => {});
    this.session.on('goaway', () => {
      this.#isOver = true;
    });
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.#run()));
  }

  async #run(): Promise<void> {
    while (!this.#isOver && !this.session.closed) await this.#call();
  }

  #call(): Promise<void> {
    return new Promise((resolve) => {
      const stream = this.session.request(HEADERS);
      let status: unknown;
      const read = (fields: { 'grpc-status'?: unknown }): void => {
        status = fields['grpc-status'];
      };
      stream.on('response', read);
      stream.on('trailers', read);
      stream.on('error', () => {});
      stream.on('close', () => {
        if (status === '0') this.completed++;
        else if (stream.rstCode !== constants.NGHTTP2_REFUSED_STREAM) this.lost++;
        resolve();
      });
      stream.resume();
      stream.end(FRAME);
    });
  }
}

test('every accepted gRPC call gets a response when two workers stop', {
  timeout: 120_000,
}, async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const settings = { grpc: '127.0.0.1:0', drainMs: '20s' };
    group = await RunningGroup.start({ config: { policies: [policy('p', 9, '1h')] }, settings });
    const { port } = group.grpc!;
    const callers = Array.from({ length: SESSIONS }, () => new Caller(port));
    const runs = callers.map((each) => each.run());
    await vi.waitUntil(() => callers.every(({ completed }) => completed > 20), { timeout: 60_000 });
    group.supervisor.kill('SIGTERM');
    await Promise.all(runs);
    expect(callers.map(({ lost }) => lost)).toEqual(callers.map(() => 0));
    expect((await group.ended).code).toBe(0);
    group = undefined;
  }
});

test('a silent gRPC connection does not delay the exit of workers', async () => {
  const settings = { grpc: '127.0.0.1:0', drainMs: '60s' };
  group = await RunningGroup.start({ config: { policies: [policy('p', 9, '1h')] }, settings });
  expect((await fetch(`${group.url}/healthz`)).status).toBe(200);
  const sockets = await Promise.all([1, 2, 3, 4].map(() => open(group!.grpc!.port)));
  const closed = sockets.map(
    (each) => new Promise((resolve) => each.resume().once('close', resolve)),
  );
  group.supervisor.kill('SIGTERM');
  expect((await group.ended).code).toBe(0);
  await Promise.all(closed);
  group = undefined;
});
