import { memoryStore, type Store } from 'sluice';
import { withFailurePolicy } from 'sluice/failure';
import { afterEach, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from '../../../tools/servers/redis.mjs';
import { ConfigError } from '../src/config/model.ts';
import { DecisionService } from '../src/decision-service.ts';
import { Health } from '../src/observe/health.ts';
import { openStore } from '../src/stores/index.ts';
import { configOf, policy, type Running, settingsOf, startRunning } from './running.ts';

const POLICIES = [policy('few', 2, '1m')];
const adminToken = 'a token of enough letters';
const asAdmin = { authorization: `Bearer ${adminToken}` };

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function start(options: Parameters<typeof startRunning>[0] = {}): Promise<Running> {
  const running = await startRunning({ config: { policies: POLICIES }, ...options });
  open.push(running);
  return running;
}

describe('/healthz', () => {
  test('/healthz responds 200 to every client', async () => {
    const running = await start({ settings: { adminToken } });
    const { status, json } = await running.get('/healthz');
    expect([status, json]).toEqual([200, { alive: true }]);
    expect((await running.request('HEAD', '/healthz')).status).toBe(200);
  });
});

describe('/readyz', () => {
  test('/readyz responds 200 if the store is available', async () => {
    const { status, json } = await (await start()).get('/readyz');
    expect([status, json]).toEqual([
      200,
      { ready: true, store: { up: true }, config: { ok: true } },
    ]);
  });

  test('/readyz responds 503 during shutdown', async () => {
    const running = await start();
    running.service.app.health.isDraining = true;
    const { status, json } = await running.get('/readyz');
    expect(status).toBe(503);
    expect(json).toMatchObject({ ready: false, draining: true, store: { up: true } });
    expect((await running.get('/readyz?store=optional')).status).toBe(503);
  });

  test('/readyz responds 200 after a failed reload, and lists problems for admins', async () => {
    const problem = { file: '/etc/sluice.yaml', line: 3, column: 5, message: 'Expected a limit' };
    let isBad = true;
    const load = async () => {
      if (isBad) throw new ConfigError([problem]);
      return configOf({ policies: POLICIES });
    };
    const running = await start({ load, settings: { adminToken } });
    const { configuration } = running.service.app;
    await configuration.reload();
    const forAll = await running.get('/readyz');
    expect([forAll.status, forAll.json.config]).toEqual([200, { ok: false }]);
    expect(forAll.text).not.toContain('/etc');
    const forAdmins = await running.get('/readyz', asAdmin);
    expect(forAdmins.json.config).toEqual({
      ok: false,
      problems: ['/etc/sluice.yaml:3:5: Expected a limit'],
    });
    isBad = false;
    await configuration.reload();
    expect((await running.get('/readyz', asAdmin)).json.config).toEqual({ ok: true });
  });

  test('/readyz lists problems when the service listens on loopback', async () => {
    const load = async () => Promise.reject(new Error('Expected something else'));
    const running = await start({ load });
    await running.service.app.configuration.reload();
    const { json } = await running.get('/readyz');
    expect(json.config.problems).toEqual([':1:1: Expected something else']);
  });

  test.each(['/readyz?store=no', '/readyz?stroe=optional', '/readyz?store'])(
    'GET %s is rejected with 400',
    async (path) => {
      const { status, json } = await (await start()).get(path);
      expect([status, json.code]).toEqual([400, 'ERR_INVALID_OPTION']);
    },
  );
});

describe('/readyz with Redis', () => {
  let redis: RedisServer;

  async function startOnRedis(): Promise<Running> {
    redis = await startRedis();
    open.push({ close: () => redis.stop() });
    let isUp = false;
    const onConnection = (state: 'up' | 'down') => {
      isUp = state === 'up';
    };
    const settings = settingsOf({ store: redis.url, deadlineMs: '1s' });
    const store = await openStore(settings, { onWarning: () => {}, onConnection });
    await expect.poll(() => isUp).toBe(true);
    return start({ store });
  }

  test('/readyz responds 503 without Redis, but 200 with store=optional', async () => {
    const running = await startOnRedis();
    const { status, json } = await running.get('/readyz');
    expect([status, json.store]).toEqual([200, { up: true, breaker: 'closed' }]);
    await redis.kill();
    const statusOf = async () => (await running.get('/readyz')).status;
    await expect.poll(statusOf, { timeout: 20_000 }).toBe(503);
    const optional = await running.get('/readyz?store=optional');
    expect([optional.status, optional.json.store.up]).toEqual([200, false]);
    expect((await running.get('/healthz')).status).toBe(200);
    await redis.restart();
    await expect.poll(statusOf, { timeout: 30_000, interval: 250 }).toBe(200);
  });

  test('/readyz responds 503 if Redis rejects writes', async () => {
    const running = await startOnRedis();
    expect((await running.get('/readyz')).status).toBe(200);
    await redis.command('CONFIG', 'SET', 'min-replicas-to-write', '1');
    const statusOf = async () => (await running.get('/readyz')).status;
    await expect.poll(statusOf, { timeout: 20_000, interval: 250 }).toBe(503);
  });
});

describe('store probes', () => {
  function countingStore(): { store: Store; calls: () => number } {
    const inner = memoryStore();
    let count = 0;
    const store = withFailurePolicy({
      decide: async (checks) => {
        count++;
        return inner.decide(checks);
      },
      adjust: (adjustments) => inner.adjust(adjustments),
      adjustOnce: (id, adjustments) => inner.adjustOnce!(id, adjustments),
      reset: (...key) => inner.reset(...key),
      close: () => inner.close(),
    });
    return { store, calls: () => count };
  }

  test('concurrent readiness requests share one store probe', async () => {
    const { store, calls } = countingStore();
    const health = new Health(new DecisionService(store));
    const results = await Promise.all(Array.from({ length: 500 }, () => health.isStoreUp()));
    expect(results.every((isUp) => isUp)).toBe(true);
    expect(await health.isStoreUp()).toBe(true);
    expect(calls()).toBe(1);
  });

  test('a store probe is not reported to decision listeners', async () => {
    const running = await start();
    const seen: unknown[] = [];
    running.service.app.decisionService.watch((decision) => seen.push(decision));
    await running.get('/readyz');
    expect(seen).toEqual([]);
  });
});
