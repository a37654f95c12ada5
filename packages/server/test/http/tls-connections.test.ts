/**
 * TLS connections are closed like plain ones: stalled, silent, idle, and on shutdown.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { monotonicMs } from '../../src/clock.ts';
import { AccessControl } from '../../src/http/access.ts';
import { Certificates } from '../../src/http/certificates.ts';
import { Router } from '../../src/http/router.ts';
import { BOUNDS, HttpServer } from '../../src/http/server.ts';
import { settingsOf } from '../running.ts';
import { type TlsFiles, writeTlsFiles } from '../tls-pair.ts';
import { headOf, open } from './raw.ts';

const short = { ...BOUNDS, stallTimeoutMs: 300, connectionsCheckingInterval: 50 };
/** Longer than the test timeout, so that a drain that waits for its end fails the test. */
const DRAIN_MS = 60_000;

let folder: string;
let files: TlsFiles;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
  files = writeTlsFiles(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

let server: HttpServer | undefined;
let port: number;
afterEach(() => server?.close(0));

async function start(bounds = short): Promise<HttpServer> {
  const router = new Router();
  router.add('GET', '/large', 'open', (each) => each.sendText(200, ' '.repeat(32 * 2 ** 20)));
  router.add('GET', '/slow', 'open', async (each) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    each.send(200, {});
  });
  const settings = settingsOf();
  const certificates = await Certificates.open({ ...settings, ...files });
  const access = new AccessControl(settings, { bearer: async () => {} });
  const log = pino({ level: 'silent' });
  server = new HttpServer(router, access, certificates, log, undefined, bounds);
  ({ port } = await server.listen(settings.listen));
  return server;
}

async function openTls(): Promise<TLSSocket> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  socket.on('error', () => {});
  return socket;
}

const ended = (socket: { once(event: 'close', listener: () => void): unknown }): Promise<void> =>
  new Promise((resolve) => socket.once('close', resolve));

describe('TLS connections', () => {
  test('a TLS connection whose client never reads is closed', async () => {
    const running = await start();
    const socket = await openTls();
    socket.pause();
    socket.write(headOf('GET', '/large'));
    await expect.poll(() => running.inFlight + running.connections, { timeout: 20_000 }).toBe(1);
    await expect.poll(() => running.connections, { timeout: 20_000 }).toBe(0);
    socket.destroy();
  });

  test('a TLS connection without a complete handshake is closed', async () => {
    const running = await start();
    const silent = await open(port);
    const slow = await open(port);
    // The header of a record that is longer than the data that follows.
    slow.write(Buffer.from([0x16, 0x03, 0x01, 0x20, 0x00, 0x01]));
    const drip = setInterval(() => slow.write(Buffer.from([0])), 50);
    await expect.poll(() => running.connections, { timeout: 20_000 }).toBe(0);
    clearInterval(drip);
    silent.destroy();
    slow.destroy();
  });

  test('shutdown closes a TLS connection after the response in flight', async () => {
    const running = await start(BOUNDS);
    const socket = await openTls();
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes;
    });
    socket.write(headOf('GET', '/slow'));
    await expect.poll(() => running.inFlight, { timeout: 20_000 }).toBe(1);
    const closed = running.close(DRAIN_MS);
    await ended(socket);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.toLowerCase()).toContain('connection: close');
    expect(await closed).toBe(0);
  });

  test('a silent TLS connection does not delay shutdown', async () => {
    const running = await start(BOUNDS);
    const sockets = [await openTls(), await open(port)];
    for (const socket of sockets) socket.resume();
    await expect.poll(() => running.connections, { timeout: 20_000 }).toBe(2);
    const startMs = monotonicMs();
    await running.close(DRAIN_MS);
    // They are closed after 5 s, long before the end of the drain time.
    expect(monotonicMs() - startMs).toBeLessThan(DRAIN_MS / 2);
  });
});
