import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http2 from 'node:http2';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { memoryStore, type Store } from 'sluice';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { OpenStore } from '../../src/stores/index.ts';
import { startRunning } from '../running.ts';
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

/** A store that replies on demand. */
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
const passed = (verdicts: readonly { overall_code: string }[]): number =>
  verdicts.filter(({ overall_code }) => overall_code === OK).length;

describe('the gRPC server', () => {
  test('allows exactly the limit of 1,000 concurrent calls', async () => {
    served = await serve(CONFIG);
    const { client } = served;
    const calls = Array.from({ length: 1000 }, () => client.ask(fifty('crowded')));
    expect(passed(await Promise.all(calls))).toBe(50);
  });

  test('allows exactly the limit of several clients', async () => {
    served = await serve(CONFIG);
    const address = addressOf(served.running);
    const clients = Array.from({ length: 4 }, () => new RlsClient(address));
    const calls = clients.flatMap((client) =>
      Array.from({ length: 100 }, () => client.ask(fifty('crowded'))),
    );
    expect(passed(await Promise.all(calls))).toBe(50);
    for (const client of clients) client.close();
  });

  test('rejects huge messages and keeps serving', async () => {
    served = await serve(CONFIG);
    const [code] = await failureOf(served.client.ask(fifty('x'.repeat(300_000))));
    expect(code).toBe('RESOURCE_EXHAUSTED');
    expect((await served.client.ask(fifty('x'))).overall_code).toBe(OK);
  });

  test('rejects invalid messages and keeps serving', async () => {
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
    expect((await served.client.ask(fifty('x'))).overall_code).toBe(OK);
  });

  test('loads no gRPC library unless gRPC is on', async () => {
    const running = await startRunning();
    expect(running.service.grpc).toBeUndefined();
    await running.close();
    // Asks another process, which has loaded nothing else, and checks that it would tell.
    const loadedBy = (file: string): number => {
      const url = new URL(`../../dist/${file}`, import.meta.url).href;
      const script = `
        import { createRequire } from 'node:module';
        await import(${JSON.stringify(url)});
        const paths = Object.keys(createRequire(import.meta.url).cache);
        console.log(paths.filter((path) => path.includes('@grpc')).length);`;
      const words = ['--input-type=module', '--eval', script];
      return Number(execFileSync(process.execPath, words).toString());
    };
    expect(loadedBy('service.js')).toBe(0);
    expect(loadedBy('envoy-rls/grpc-server.js')).toBeGreaterThan(0);
  });

  test('start fails if the gRPC port is in use', async () => {
    served = await serve(CONFIG);
    const grpc = addressOf(served.running);
    await expect(startRunning({ settings: { grpc } })).rejects.toThrow(/EADDRINUSE|bind/);
  });

  test('the gRPC port is released if the HTTP port is in use', async () => {
    served = await serve(CONFIG);
    const { http } = served.running.service;
    const taken = { listen: `${http.host}:${http.port}`, grpc: '127.0.0.1:0' };
    await expect(startRunning({ settings: taken })).rejects.toThrow('EADDRINUSE');
  });

  test('applies a new configuration from the next call on', async () => {
    served = await serve(CONFIG);
    const { configuration } = served.running.service.app;
    expect((await served.client.ask(fifty('x'))).statuses[0].limit_remaining).toBe(49);
    const policies = configuration.config.policies.map((each) => ({
      ...each,
      options: { ...each.options, limit: 20 },
    }));
    configuration.use({ ...configuration.config, policies });
    expect((await served.client.ask(fifty('x'))).statuses[0].limit_remaining).toBe(18);
    configuration.use({ ...configuration.config, domains: [] });
    expect((await served.client.ask(fifty('x'))).statuses[0].current_limit).toBeNull();
  });
});

describe('over TLS', () => {
  test('uses the TLS certificate of the service and rejects plaintext', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
    const [tlsKey, tlsCert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    try {
      const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2';
      const words = `req -x509 ${newKey} -subj /CN=localhost -keyout ${tlsKey} -out ${tlsCert}`;
      const names = ['-addext', 'subjectAltName=IP:127.0.0.1'];
      execFileSync('openssl', [...words.split(' '), ...names], { stdio: 'pipe' });
      served = await serve(CONFIG, { settings: { tlsCert, tlsKey } });
      const address = addressOf(served.running);
      const client = new RlsClient(address, credentials.createSsl(readFileSync(tlsCert)));
      expect((await client.ask(fifty('x'))).overall_code).toBe(OK);
      expect((await failureOf(served.client.ask(fifty('x'))))[0]).toBe('UNAVAILABLE');
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

describe('health', () => {
  test.each(['', 'envoy.service.ratelimit.v3.RateLimitService', 'ratelimit'])(
    'of "%s" is received',
    async (service) => {
      served = await serve(CONFIG);
      expect(await served.client.health(service)).toBe('STATE_SERVING');
    },
  );

  test('health of an unknown service is NOT_FOUND', async () => {
    served = await serve(CONFIG);
    expect((await failureOf(served.client.health('other')))[0]).toBe('NOT_FOUND');
  });

  test('Watch reports health until shutdown', async () => {
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

  test('Watch of an unknown service stays open', async () => {
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

describe('stopping', () => {
  test('shutdown completes calls in flight', async () => {
    const { store, release } = slowStore();
    served = await serve(CONFIG, { settings: { drainMs: '10s' }, store });
    const { client, running } = served;
    const call = client.ask(fifty('x'));
    await vi.waitFor(() => expect(release.waiting).toBe(1), 10_000);
    const closed = running.close();
    await vi.waitFor(async () => expect(await isListening(addressOf(running))).toBe(false), 10_000);
    const late = new RlsClient(addressOf(running));
    expect((await failureOf(late.ask(fifty('x'))))[0]).toBe('UNAVAILABLE');
    late.close();
    release.all();
    expect((await call).overall_code).toBe(OK);
    await closed;
    client.close();
    served = undefined;
  });

  test('shutdown ends after the drain time', async () => {
    const { store, release } = slowStore();
    served = await serve(CONFIG, { settings: { drainMs: '50ms' }, store });
    const call = failureOf(served.client.ask(fifty('x')));
    await vi.waitFor(() => expect(release.waiting).toBe(1), 10_000);
    await served.running.close();
    expect((await call)[0]).toMatch(/UNAVAILABLE|CANCELLED|INTERNAL/);
    release.all();
    served.client.close();
    served = undefined;
  });
});
