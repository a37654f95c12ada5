/** gRPC connections: timeouts, and a shutdown that completes every accepted call. */
import { once } from 'node:events';
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { pino } from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { type Call, type Method, STATUS } from '../../src/envoy-rls/grpc-calls.ts';
import { GRPC_BOUNDS, GrpcTransport } from '../../src/envoy-rls/grpc-transport.ts';
import { Grammar, http2Bytes } from '../hostile/grammar.ts';
import { open } from '../http/raw.ts';

const PATH = '/test.Service/Wait';
const HEADERS = { ':method': 'POST', ':path': PATH, 'content-type': 'application/grpc' };
const short = {
  ...GRPC_BOUNDS,
  prefaceTimeoutMs: 200,
  idleMs: 300,
  stallTimeoutMs: 300,
  pingMs: 100,
  checkIntervalMs: 20,
};
/** Longer than the test timeout, so that a drain that waits for its end fails the test. */
const DRAIN_MS = 60_000;
const soon = { timeout: 20_000 };

let transport: GrpcTransport | undefined;
const sessions: ClientHttp2Session[] = [];
const sockets: Socket[] = [];
let calls: Call[] = [];
afterEach(async () => {
  for (const each of sessions.splice(0)) each.destroy();
  for (const each of sockets.splice(0)) each.destroy();
  await transport?.close(0);
  calls = [];
});

async function start(bounds = GRPC_BOUNDS): Promise<number> {
  const method: Method = {
    requestDeserialize: () => ({}),
    responseSerialize: () => Buffer.alloc(0),
    handle: (call) => void calls.push(call),
  };
  const log = pino({ level: 'silent' });
  transport = new GrpcTransport(new Map([[PATH, method]]), undefined, log, bounds);
  return (await transport.listen({ host: '127.0.0.1', port: 0 })).port;
}

async function session(port: number): Promise<ClientHttp2Session> {
  const client = connect(`http://127.0.0.1:${port}`);
  sessions.push(client);
  client.on('error', () => {});
  await once(client, 'remoteSettings');
  return client;
}

/** Sends a call with an empty message. Resolves to its `grpc-status`. */
function send(client: ClientHttp2Session, body = Buffer.alloc(5)): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = client.request(HEADERS);
    const read = (fields: { 'grpc-status'?: string | string[] }): void => {
      if (fields['grpc-status'] !== undefined) resolve(Number(fields['grpc-status']));
    };
    stream.on('response', read);
    stream.on('trailers', read);
    stream.on('error', reject);
    stream.on('close', () => reject(new Error(`closed with ${stream.rstCode}`)));
    stream.resume();
    stream.end(body);
  });
}

describe('shutdown of gRPC', () => {
  test('shutdown sends two GOAWAYs and completes calls sent before the first arrives', async () => {
    const port = await start();
    const client = await session(port);
    const lastIds: number[] = [];
    client.on('goaway', (_code, lastStreamId) => lastIds.push(lastStreamId));
    const first = send(client);
    await expect.poll(() => calls.length, soon).toBe(1);
    const closed = transport!.close(DRAIN_MS);
    // At this time GOAWAY is in transit or not sent yet.
    const second = send(client);
    await expect.poll(() => calls.length, soon).toBe(2);
    for (const call of calls) call.respond({});
    expect(await Promise.all([first, second])).toEqual([STATUS.OK, STATUS.OK]);
    await closed;
    expect(lastIds[0]).toBe(2 ** 31 - 1);
    expect(new Set(lastIds.slice(1))).toEqual(new Set([3]));
  });

  test('shutdown completes a gRPC call on a connection that was accepted just before', async () => {
    const port = await start();
    const client = connect(`http://127.0.0.1:${port}`);
    sessions.push(client);
    const status = send(client);
    await expect.poll(() => transport!.connections, soon).toBe(1);
    const closed = transport!.close(DRAIN_MS);
    await expect.poll(() => calls.length, soon).toBe(1);
    calls[0].respond({});
    expect(await status).toBe(STATUS.OK);
    await closed;
  });

  test('silent gRPC clients do not delay shutdown', async () => {
    const port = await start();
    for (let each = 0; each < 5; each++) sockets.push(await open(port));
    await session(port);
    await expect.poll(() => transport!.connections, soon).toBe(6);
    await transport!.close(DRAIN_MS);
    expect(transport!.connections).toBe(0);
  });
});

describe('gRPC connections', () => {
  test('a silent gRPC connection is closed', async () => {
    const port = await start(short);
    for (let each = 0; each < 50; each++) sockets.push(await open(port));
    await expect.poll(() => transport!.connections, soon).toBe(0);
  });

  test('a gRPC connection that sends its preface byte by byte is closed', async () => {
    const port = await start(short);
    const socket = connectTcp(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
    let at = 0;
    const drip = setInterval(() => socket.write(preface[at++ % preface.length]), 30);
    await new Promise((resolve) => socket.once('close', resolve));
    clearInterval(drip);
    await expect.poll(() => transport!.connections, soon).toBe(0);
  });

  test('a gRPC connection with a protocol error is closed', async () => {
    const port = await start({ ...short, idleMs: 600_000 });
    const grammar = new Grammar(3);
    for (let each = 0; each < 100; each++) {
      const socket = await open(port);
      socket.resume();
      socket.write(http2Bytes(grammar));
      await new Promise((resolve) => setTimeout(resolve, 5));
      socket.destroy();
    }
    // Node does not always detect that such a client has disconnected. A ping does.
    await expect.poll(() => transport!.connections, soon).toBe(0);
  });

  test('a gRPC connection stays open while its client acknowledges pings', async () => {
    const port = await start({ ...short, idleMs: 600_000 });
    const client = await session(port);
    let pings = 0;
    client.on('ping', () => pings++);
    await expect.poll(() => pings, soon).toBeGreaterThan(2);
    expect([client.closed, transport!.connections]).toEqual([false, 1]);
  });

  test('an idle gRPC connection receives GOAWAY, and a busy one does not', async () => {
    const port = await start(short);
    const idle = await session(port);
    const busy = await session(port);
    const status = send(busy);
    await new Promise((resolve) => idle.once('close', resolve));
    expect(busy.closed).toBe(false);
    await expect.poll(() => transport!.connections, soon).toBe(1);
    calls[0].respond({});
    expect(await status).toBe(STATUS.OK);
  });
});

describe('invalid gRPC calls', () => {
  test.each([
    ['no message', Buffer.alloc(0), STATUS.INVALID_ARGUMENT],
    ['half a message', Buffer.from([0, 0, 0, 0, 9, 1]), STATUS.INVALID_ARGUMENT],
    ['two messages', Buffer.alloc(10), STATUS.INVALID_ARGUMENT],
    ['a compressed message', Buffer.from([1, 0, 0, 0, 0]), STATUS.UNIMPLEMENTED],
    ['an announced gigabyte', Buffer.from([0, 64, 0, 0, 0]), STATUS.RESOURCE_EXHAUSTED],
  ])(
    'a gRPC call with %s fails with the gRPC status for this error',
    async (_description, body, status) => {
      const client = await session(await start());
      expect(await send(client, body)).toBe(status);
    },
  );

  test('an unknown gRPC method gets UNIMPLEMENTED, other requests get 405 or 415', async () => {
    const client = await session(await start());
    const statusOf = async (headers: object): Promise<unknown> => {
      const stream = client.request({ ...HEADERS, ...headers }, { endStream: true });
      const [fields] = await once(stream, 'response');
      stream.close(constants.NGHTTP2_NO_ERROR);
      return fields['grpc-status'] ?? fields[':status'];
    };
    expect(await statusOf({ ':path': '/x.Y/Z' })).toBe('12');
    expect(await statusOf({ ':method': 'GET' })).toBe(405);
    expect(await statusOf({ 'content-type': 'text/plain' })).toBe(415);
  });
});
