/** Timeouts and bounds of HTTP connections, with timeouts short enough for a test. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AccessControl } from '../../src/http/access.ts';
import { Router } from '../../src/http/router.ts';
import { BOUNDS, HttpServer } from '../../src/http/server.ts';
import { settingsOf } from '../running.ts';
import { exchange, headOf, open, statusOf } from './raw.ts';

const short = {
  ...BOUNDS,
  ...{ headersTimeout: 300, requestTimeout: 600, keepAliveTimeout: 400 },
  connectionsCheckingInterval: 50,
  stallTimeoutMs: 200,
};

let server: HttpServer;
const streams: ServerResponse[] = [];
let port: number;
beforeAll(async () => {
  const router = new Router();
  router.add('POST', '/echo', 'open', async (each) => each.send(200, await each.readJson()));
  router.add('GET', '/stream', 'open', ({ response }) => {
    response.writeHead(200, { connection: 'close' }).flushHeaders();
    streams.push(response);
  });
  router.add('GET', '/fail', 'open', () => {
    throw new Error('a secret that only the log may contain');
  });
  const settings = settingsOf();
  const access = new AccessControl(settings, { bearer: async () => {} });
  server = new HttpServer(router, access, undefined, pino({ level: 'silent' }), undefined, short);
  ({ port } = await server.listen(settings.listen));
});
afterAll(() => server.close(100));

/** Sends `byte` repeatedly until the connection closes. Resolves to the received status. */
async function drip(start: string, byte: string): Promise<number> {
  const socket = await open(port);
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1');
  });
  socket.write(start);
  const dripping = setInterval(() => socket.write(byte), 20);
  await new Promise((resolve) => socket.once('close', resolve));
  clearInterval(dripping);
  return statusOf(text);
}

describe('HTTP connections', () => {
  test('an HTTP connection that sends nothing is closed', async () => {
    const { status, closed } = await exchange(port, []);
    expect([status, closed]).toEqual([408, true]);
  });

  test('an HTTP connection that never completes its headers is closed', async () => {
    // A reset may overtake the response.
    expect([408, 0]).toContain(await drip('GET /echo HTTP/1.1\r\nHost: x\r\n', 'X: y\r\n'));
    expect([408, 0]).toContain(await drip('GET /', 'x'));
  });

  test('an HTTP connection that never completes its body is closed', async () => {
    const head = headOf('POST', '/echo', 'Content-Length: 100000');
    expect([408, 0]).toContain(await drip(head, ' '));
    const chunked = headOf('POST', '/echo', 'Transfer-Encoding: chunked');
    expect([408, 0]).toContain(await drip(chunked, '1\r\n \r\n'));
  });

  test('an idle HTTP keep-alive connection is closed', async () => {
    const { status, closed } = await exchange(port, [headOf('GET', '/none')]);
    expect([status, closed]).toEqual([404, true]);
  });

  test('an HTTP connection that never reads its responses is closed', async () => {
    const socket = await open(port);
    socket.pause();
    const body = JSON.stringify('x'.repeat(900_000));
    const request = headOf('POST', '/echo', `Content-Length: ${body.length}`) + body;
    const before = server.connections;
    // More than the socket buffers hold.
    for (let sent = 0; sent < 20; sent++) socket.write(request);
    socket.on('error', () => {});
    await expect.poll(() => server.connections, { timeout: 10_000 }).toBe(before - 1);
    socket.destroy();
  });

  test('a silent HTTP connection stays open while its response is streamed', async () => {
    const socket = await open(port);
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    socket.write(headOf('GET', '/stream'));
    await expect.poll(() => text).toContain('200 OK');
    expect(server.inFlight).toBe(0);
    // Longer than any of the bounds.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(socket.destroyed).toBe(false);
    streams[0].end('over');
    await once(socket, 'close');
    expect(text).toContain('over');
  });

  test('the server buffers a bounded number of responses for an unread connection', async () => {
    const socket = await open(port);
    socket.pause();
    // The server may reset the connection.
    socket.on('error', () => {});
    const body = JSON.stringify('x'.repeat(500_000));
    const request = headOf('POST', '/echo', `Content-Length: ${body.length}`) + body;
    let sent = 0;
    // Writes until the socket is full: the server stops reading as well.
    for (; sent < 200; sent++) {
      if (socket.write(request)) continue;
      const isTaken = await Promise.race([
        once(socket, 'drain').then(
          () => true,
          () => false,
        ),
        new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 200)),
      ]);
      if (!isTaken) break;
    }
    socket.destroy();
    expect(sent).toBeLessThan(200);
  });
});

test('the response to an internal error does not contain the error message', async () => {
  const { status, text } = await exchange(port, [headOf('GET', '/fail', 'Connection: close')]);
  expect(status).toBe(500);
  expect(text).toContain('ERR_INTERNAL');
  expect(text).not.toContain('secret');
});

test('listen of the HTTP server rejects if the port is in use', async () => {
  const settings = settingsOf();
  const access = new AccessControl(settings, { bearer: async () => {} });
  const second = new HttpServer(new Router(), access, undefined, pino({ level: 'silent' }));
  await expect(second.listen({ host: '127.0.0.1', port })).rejects.toThrow(/EADDRINUSE/);
});
