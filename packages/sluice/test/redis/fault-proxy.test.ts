/** The fault proxy, with which other tests delay, cut and change connections to Redis. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../../../../tools/servers/fault-proxy.mjs';
import { command, startRedis } from '../../../../tools/servers/redis.mjs';

const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;
const soon = { timeout: 20_000, interval: 25 };

beforeAll(() => void execFileSync(ensureServices, ['redis', 'openssl']), 300_000);

/** Records the text received on a socket, and whether it is closed. */
function watch(socket: Socket) {
  const received = { socket, text: '', isClosed: false };
  socket.on('data', (bytes) => {
    received.text += bytes;
  });
  socket.on('close', () => {
    received.isClosed = true;
  });
  socket.on('error', () => {});
  return received;
}

/** The connections of the echo server. */
const accepted: ReturnType<typeof watch>[] = [];
const echo = createServer((socket) => {
  accepted.push(watch(socket));
  socket.pipe(socket);
});
let proxy: FaultProxy;

beforeAll(async () => {
  echo.listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await startFaultProxy({ port: (echo.address() as AddressInfo).port });
});

afterEach(async () => {
  proxy.refuse(true);
  await vi.waitUntil(() => proxy.connections === 0 && accepted.every((e) => e.isClosed), soon);
  proxy.heal();
  accepted.length = 0;
});

afterAll(async () => {
  await proxy.stop();
  echo.close();
});

/** Opens a connection and waits for an echo, so that it is established on both sides. */
async function open() {
  const client = watch(connect({ host: proxy.host, port: proxy.port }));
  client.socket.write('.');
  await vi.waitUntil(() => client.text === '.', soon);
  client.text = '';
  const server = accepted.at(-1)!;
  server.text = '';
  return { client, server };
}

it('a fault proxy without faults passes TLS and large replies through', async () => {
  const server = await startRedis({ tls: true });
  const between = await startFaultProxy({ port: server.port });
  const options = { tls: server.tlsCa! };
  expect(await command(between.port, ['ECHO', 'x'.repeat(1e6)], options)).toHaveLength(1e6);
  await vi.waitUntil(() => between.connections === 0, soon);
  await between.stop();
  await expect(command(between.port, ['PING'], options)).rejects.toThrow('ECONNREFUSED');
  await server.stop();
});

it('a fault proxy counts its open connections', async () => {
  const { client } = await open();
  await open();
  expect(proxy.connections).toBe(2);
  client.socket.end();
  await vi.waitUntil(() => proxy.connections === 1, soon);
});

it('delay delays bytes in both directions and keeps their order', async () => {
  const { client, server } = await open();
  proxy.delay(60);
  const start = performance.now();
  client.socket.write('a');
  await vi.waitUntil(() => server.text === 'a', { ...soon, interval: 1 });
  expect(performance.now() - start).toBeGreaterThan(59);
  await vi.waitUntil(() => client.text === 'a', { ...soon, interval: 1 });
  expect(performance.now() - start).toBeGreaterThan(119);
  client.socket.write('b');
  await sleep(10);
  proxy.delay(0);
  client.socket.end('c');
  await vi.waitUntil(() => client.isClosed, soon);
  expect([server.text, client.text]).toEqual(['abc', 'abc']);
});

it.each([0, 1, 999, 1000, 1001, 70_000])(
  'cutAfterBytes closes the connection after %i bytes to the server',
  async (count) => {
    const [first, second] = [await open(), await open()];
    proxy.cutAfterBytes(count, 'toServer');
    const fromFirst = Math.floor(count / 2);
    first.client.socket.write('x'.repeat(fromFirst));
    await vi.waitUntil(() => first.client.text.length === fromFirst, soon);
    second.client.socket.write('y'.repeat(100_000));
    await vi.waitUntil(() => second.client.isClosed && second.server.isClosed, soon);
    expect(first.server.text.length + second.server.text.length).toBe(count);
    expect(proxy.connections).toBe(1);
    first.client.socket.write('z'.repeat(100_000));
    await vi.waitUntil(() => first.client.text.endsWith('z'.repeat(100_000)), soon);
  },
);

it.each([0, 1, 999, 1000, 1001, 70_000])(
  'cutAfterBytes closes the connection after %i bytes to the client',
  async (count) => {
    const { client, server } = await open();
    proxy.cutAfterBytes(count, 'toClient');
    client.socket.write('x'.repeat(100_000));
    await vi.waitUntil(() => client.isClosed && server.isClosed, soon);
    expect(client.text.length).toBe(count);
    const next = await open();
    expect(next.client.isClosed).toBe(false);
  },
);

it('blackHole holds back bytes and the ends of connections until it is switched off', async () => {
  const { client, server } = await open();
  const closing = await open();
  proxy.blackHole(true);
  const opening = watch(connect(proxy.port, proxy.host));
  await once(opening.socket, 'connect');
  for (const { socket } of [client, opening]) socket.write('hello');
  closing.client.socket.destroy();
  server.socket.write('unsolicited ');
  await sleep(50);
  expect([client.text, opening.text, server.text]).toEqual(['', '', '']);
  expect([client.isClosed, closing.server.isClosed]).toEqual([false, false]);
  proxy.blackHole(false);
  await vi.waitUntil(() => opening.text === 'hello' && closing.server.isClosed, soon);
  await vi.waitUntil(() => client.text === 'unsolicited hello', soon);
});

it('halfOpen closes open connections only to the server, and no new connections', async () => {
  const { client, server } = await open();
  proxy.halfOpen();
  await vi.waitUntil(() => server.isClosed, soon);
  client.socket.write('hello');
  proxy.heal();
  const next = await open();
  await sleep(50);
  expect(next.client.isClosed).toBe(false);
  expect(client).toMatchObject({ text: '', isClosed: false });
  expect(proxy.connections).toBe(2);
});

it('refuse closes open connections at once, and new ones before the first byte', async () => {
  const { client, server } = await open();
  proxy.refuse(true);
  await vi.waitUntil(() => client.isClosed && server.isClosed, soon);
  const next = watch(connect(proxy.port, proxy.host));
  next.socket.write('hello');
  await vi.waitUntil(() => next.isClosed, soon);
  expect([next.text, accepted.length]).toEqual(['', 1]);
  proxy.refuse(false);
  await open();
});

it('an onReply hook can change a reply or close the connection', async () => {
  const { client, server } = await open();
  proxy.onReply((bytes) => {
    if (bytes.includes('drop')) return null;
    return bytes.includes('change') ? Buffer.from('changed;') : undefined;
  });
  client.socket.write('pass;');
  await vi.waitUntil(() => client.text === 'pass;', soon);
  client.socket.write('change;');
  await vi.waitUntil(() => client.text === 'pass;changed;', soon);
  client.socket.write('drop;');
  await vi.waitUntil(() => client.isClosed && server.isClosed, soon);
  expect([client.text, server.text]).toEqual(['pass;changed;', 'pass;change;drop;']);
});

it('replies keep their order if the onReply hook calls heal', async () => {
  const { client, server } = await open();
  proxy.blackHole(true);
  for (const text of ['a', 'b', 'c']) {
    server.socket.write(text);
    await sleep(10);
  }
  proxy.onReply(() => void proxy.heal());
  proxy.blackHole(false);
  await vi.waitUntil(() => client.text === 'abc', soon);
});

it('heal ends all faults', async () => {
  const { client } = await open();
  proxy.delay(10_000);
  proxy.cutAfterBytes(5, 'toServer');
  proxy.cutAfterBytes(5, 'toClient');
  proxy.onReply(() => null);
  client.socket.write('hello, ');
  await sleep(20);
  proxy.blackHole(true);
  proxy.heal();
  client.socket.write('hello');
  await vi.waitUntil(() => client.text === 'hello, hello', soon);
  proxy.refuse(true);
  proxy.heal();
  await open();
});
