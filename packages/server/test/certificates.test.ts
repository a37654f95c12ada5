/** Certificates are read again with the configuration: over HTTP and gRPC, by every worker. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Config, serveWithWorkers } from '../dist/index.js';
import { loadConfig } from '../src/config/load.ts';
import { type ConfigWatch, watchConfig } from '../src/reload/watch-config.ts';
import { settingsOf, startRunning } from './running.ts';
import { writeTlsFiles } from './tls-pair.ts';

const log = pino({ level: 'silent' });
const soon = { timeout: 20_000 };
const ALPN = { http: 'http/1.1', grpc: 'h2' };

let folder: string;
let config: string;
let watch: ConfigWatch | undefined;
let close: (() => Promise<void>) | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-cert-'));
  config = join(folder, 'sluice.yaml');
  writeFileSync(config, 'policies:\n  few: 5/1h\n');
});
afterEach(async () => {
  watch?.stop();
  await close?.();
  rmSync(folder, { recursive: true });
});

/** Resolves to the common name in the certificate that a new connection receives. */
async function nameAt(port: number, protocol: keyof typeof ALPN = 'http'): Promise<string> {
  const options = { port, host: '127.0.0.1', rejectUnauthorized: false };
  const socket = connect({ ...options, ALPNProtocols: [ALPN[protocol]] });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

describe('replaced certificates', () => {
  test('new connections over HTTP and gRPC receive a replaced certificate', async () => {
    const files = writeTlsFiles(folder, 'first');
    const load = (): Promise<Config> => loadConfig([config]);
    const settings = { ...files, grpc: '127.0.0.1:0' };
    const running = await startRunning({ config: await load(), load, settings });
    close = () => running.close();
    const { http, grpc, app } = running.service;
    const others = [files.tlsCert, files.tlsKey];
    watch = await watchConfig({ configuration: app.configuration, log }, [config], { others });
    expect(await nameAt(http.port)).toBe('first');
    expect(await nameAt(grpc!.port, 'grpc')).toBe('first');
    writeTlsFiles(folder, 'second');
    await expect.poll(() => nameAt(http.port), soon).toBe('second');
    await expect.poll(() => nameAt(grpc!.port, 'grpc'), soon).toBe('second');
  });

  test('a certificate that does not match the key is reported and not used', async () => {
    const files = writeTlsFiles(folder, 'first');
    const load = (): Promise<Config> => loadConfig([config]);
    const running = await startRunning({ config: await load(), load, settings: files });
    close = () => running.close();
    const { http, app } = running.service;
    writeFileSync(files.tlsCert, 'no certificate');
    const report = await app.configuration.reload();
    expect(report.ok).toBe(false);
    expect(report.problems[0].message).toContain('Expected a certificate and its private key');
    expect(await nameAt(http.port)).toBe('first');
    writeTlsFiles(folder, 'second');
    expect((await app.configuration.reload()).ok).toBe(true);
    expect(await nameAt(http.port)).toBe('second');
  });

  test('every worker uses a replaced certificate after a reload', { timeout: 60_000 }, async () => {
    const files = writeTlsFiles(folder, 'first');
    const load = (): Promise<Config> => loadConfig([config]);
    const settings = settingsOf({ ...files, workers: 3, grpc: '127.0.0.1:0' });
    const group = await serveWithWorkers({ settings, log, config: await load(), load });
    close = () => group.close();
    const names = async (): Promise<readonly string[]> => {
      const ports = Array.from({ length: 12 }, () => group.http.port);
      const grpcPorts = Array.from({ length: 12 }, () => group.grpc!.port);
      return Promise.all([
        ...ports.map((port) => nameAt(port)),
        ...grpcPorts.map((port) => nameAt(port, 'grpc')),
      ]);
    };
    expect(new Set(await names())).toEqual(new Set(['first']));
    writeTlsFiles(folder, 'second');
    expect((await group.reload()).ok).toBe(true);
    expect(new Set(await names())).toEqual(new Set(['second']));
  });
});
