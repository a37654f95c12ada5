import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import http2 from 'node:http2';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { memoryStore, type Store } from 'sluice';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { OpenStore } from '../../src/stores/index.ts';
import { startRunning } from '../running.ts';
import { certOf, writeTlsFiles } from '../tls-pair.ts';
import { addressOf, entries, failureOf, OK, RlsClient, type Served, serve } from './client.ts';

const CONFIG = `
domain: shop
descriptors:
  - { key: fifty, rate_limit: { unit: hour, requests_per_unit: 50 } }
`;
const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';

let served: Served | undefined;
afterEach(async () => {
  await served?.close();
  served = undefined;
});

/** Resolves to whether an address accepts connections. */
function isListening(address: string): Promise<boolean> {
  const { hostname: host, port } = new URL(`tcp://${address}`);
  return new Promise((resolve) => {
    const socket = connect(Number(port), host);
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

/** Returns a store that replies when `release.all` is called. */
function slowStore() {
  const store = memoryStore();
  const waiting: (() => void)[] = [];
  const release = {
    get waiting() {
      return waiting.length;
    },
    all: () => {
      for (const wake of waiting.splice(0)) wake();
    },
  };
  const slow: Store = {
    decide: async (checks) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return store.decide(checks);
    },
    adjust: (adjustments) => store.adjust(adjustments),
    adjustOnce: (id, adjustments) => store.adjustOnce!(id, adjustments),
    reset: (policy, key) => store.reset(policy, key),
    close: () => store.close(),
  };
  const open: OpenStore = { store: slow, kind: 'memory', close: async () => {} };
  return { store: open, release };
}

const fifty = (value: string) => ({ domain: 'shop', descriptors: [entries('fifty', value)] });
const passed = (responses: readonly { overall_code: string }[]): number =>
  responses.filter(({ overall_code }) => overall_code === OK).length;

describe('the gRPC server', () => {
  test('1,000 concurrent gRPC calls are allowed exactly up to the limit', async () => {
    served = await serve(CONFIG);
    const { client } = served;
    const calls = Array.from({ length: 1000 }, () => client.shouldRateLimit(fifty('crowded')));
    expect(passed(await Promise.all(calls))).toBe(50);
  });

  test('concurrent gRPC calls of several clients are allowed exactly up to the limit', async () => {
    served = await serve(CONFIG);
    const address = addressOf(served.running);
    const clients = Array.from({ length: 4 }, () => new RlsClient(address));
    const calls = clients.flatMap((client) =>
      Array.from({ length: 100 }, () => client.shouldRateLimit(fifty('crowded'))),
    );
    expect(passed(await Promise.all(calls))).toBe(50);
    for (const client of clients) client.close();
  });

  test('a gRPC message of 300 kB is rejected, and the next call succeeds', async () => {
    served = await serve(CONFIG);
    const [code] = await failureOf(served.client.shouldRateLimit(fifty('x'.repeat(300_000))));
    expect(code).toBe('RESOURCE_EXHAUSTED');
    expect((await served.client.shouldRateLimit(fifty('x'))).overall_code).toBe(OK);
  });

  test('an invalid gRPC message is rejected, and the next call succeeds', async () => {
    served = await serve(CONFIG);
    const session = http2.connect(`http://${addressOf(served.running)}`);
    const trailers = await new Promise<http2.IncomingHttpHeaders>((resolve, reject) => {
      const request = session.request({
        ':method': 'POST',
        ':path': PATH,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      request.on('trailers', resolve);
      request.on('response', (headers) => headers['grpc-status'] && resolve(headers));
      request.on('error', reject);
      request.resume();
      request.end(Buffer.from([0, 0, 0, 0, 4, 0x0a, 0x7f, 1, 2]));
    });
    session.close();
    expect(trailers['grpc-status']).not.toBe('0');
    expect((await served.client.shouldRateLimit(fifty('x'))).overall_code).toBe(OK);
  });

  test('the gRPC library is loaded only if gRPC is enabled', async () => {
    const running = await startRunning();
    expect(running.service.grpc).toBeUndefined();
    await running.close();
    // Runs in another process, which has loaded nothing else. The second case checks the method.
    const loadedBy = (file: string): number => {
      const url = new URL(`../../dist/${file}`, import.meta.url).href;
      const script = `
        import { createRequire } from 'node:module';
        await import(${JSON.stringify(url)});
        const paths = Object.keys(createRequire(import.meta.url).cache);
        console.log(paths.filter((path) => path.includes('@grpc')).length);`;
      const args = ['--input-type=module', '--eval', script];
      return Number(execFileSync(process.execPath, args).toString());
    };
    expect(loadedBy('service.js')).toBe(0);
    expect(loadedBy('envoy-rls/grpc-server.js')).toBeGreaterThan(0);
  });

  test('the service does not start if the gRPC port is in use', async () => {
    served = await serve(CONFIG);
    const grpc = addressOf(served.running);
    await expect(startRunning({ settings: { grpc } })).rejects.toThrow(/EADDRINUSE|bind/);
  });

  test('a service with gRPC does not start if the HTTP port is in use', async () => {
    served = await serve(CONFIG);
    const { http } = served.running.service;
    const taken = { listen: `${http.host}:${http.port}`, grpc: '127.0.0.1:0' };
    await expect(startRunning({ settings: taken })).rejects.toThrow('EADDRINUSE');
  });

  test('a new configuration applies to the next gRPC call', async () => {
    served = await serve(CONFIG);
    const { configuration } = served.running.service.app;
    expect((await served.client.shouldRateLimit(fifty('x'))).statuses[0].limit_remaining).toBe(49);
    const policies = configuration.config.policies.map((each) => ({
      ...each,
      options: { ...each.options, limit: 20 } as typeof each.options,
    }));
    configuration.use({ ...configuration.config, policies });
    expect((await served.client.shouldRateLimit(fifty('x'))).statuses[0].limit_remaining).toBe(18);
    configuration.use({ ...configuration.config, domains: [] });
    expect((await served.client.shouldRateLimit(fifty('x'))).statuses[0].current_limit).toBeNull();
  });
});

describe('gRPC over TLS', () => {
  test('gRPC uses the TLS certificate of the service and rejects plaintext', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
    try {
      const files = writeTlsFiles(folder);
      served = await serve(CONFIG, { settings: files });
      const address = addressOf(served.running);
      const client = new RlsClient(address, credentials.createSsl(certOf(files)));
      expect((await client.shouldRateLimit(fifty('x'))).overall_code).toBe(OK);
      expect((await failureOf(served.client.shouldRateLimit(fifty('x'))))[0]).toBe('UNAVAILABLE');
      client.close();
      // A silent connection does not delay shutdown.
      const silent = connect(served.running.service.grpc!.port, '127.0.0.1');
      await new Promise((resolve) => silent.once('connect', resolve));
      await served.close();
      served = undefined;
      silent.destroy();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('gRPC health service', () => {
  test.each(['', 'envoy.service.ratelimit.v3.RateLimitService', 'ratelimit'])(
    'the gRPC health of the service "%s" is SERVING',
    async (service) => {
      served = await serve(CONFIG);
      expect(await served.client.health(service)).toBe('STATE_SERVING');
    },
  );

  test('a gRPC health check of an unknown service fails with NOT_FOUND', async () => {
    served = await serve(CONFIG);
    expect((await failureOf(served.client.health('other')))[0]).toBe('NOT_FOUND');
  });

  test('the gRPC health method Watch sends SERVING, and NOT_SERVING at shutdown', async () => {
    served = await serve(CONFIG, { settings: { drainMs: '10s' } });
    const received: string[] = [];
    const watch = served.client.watchHealth();
    watch.on('data', ({ status }) => received.push(status));
    const ended = new Promise((resolve) => watch.on('end', resolve));
    await vi.waitFor(() => expect(received).toEqual(['STATE_SERVING']), 10_000);
    await served.close();
    served = undefined;
    await ended;
    expect(received).toEqual(['STATE_SERVING', 'STATE_NOT_SERVING']);
  });

  test('the gRPC health method Watch sends SERVICE_UNKNOWN for an unknown service', async () => {
    served = await serve(CONFIG);
    const watch = served.client.watchHealth('other');
    const first = await new Promise<{ readonly status: string }>((resolve) =>
      watch.once('data', resolve),
    );
    expect(first.status).toBe('STATE_SERVICE_UNKNOWN');
    watch.on('error', () => {});
    watch.cancel();
  });
});

describe('shutdown of the gRPC server', () => {
  test('shutdown completes gRPC calls in flight and accepts no new connections', async () => {
    const { store, release } = slowStore();
    served = await serve(CONFIG, { settings: { drainMs: '10s' }, store });
    const { client, running } = served;
    const call = client.shouldRateLimit(fifty('x'));
    await vi.waitFor(() => expect(release.waiting).toBe(1), 10_000);
    const closed = running.close();
    await vi.waitFor(async () => expect(await isListening(addressOf(running))).toBe(false), 10_000);
    const late = new RlsClient(addressOf(running));
    expect((await failureOf(late.shouldRateLimit(fifty('x'))))[0]).toBe('UNAVAILABLE');
    late.close();
    release.all();
    expect((await call).overall_code).toBe(OK);
    await closed;
    client.close();
    served = undefined;
  });

  test('shutdown ends after the drain time although a gRPC call is in flight', async () => {
    const { store, release } = slowStore();
    served = await serve(CONFIG, { settings: { drainMs: '50ms' }, store });
    const call = failureOf(served.client.shouldRateLimit(fifty('x')));
    await vi.waitFor(() => expect(release.waiting).toBe(1), 10_000);
    await served.running.close();
    expect((await call)[0]).toMatch(/UNAVAILABLE|CANCELLED|INTERNAL/);
    release.all();
    served.client.close();
    served = undefined;
  });
});
