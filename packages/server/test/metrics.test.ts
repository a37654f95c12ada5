import { readFileSync } from 'node:fs';
import { memoryStore } from 'sluice';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer, startCluster, startRedis } from '../../../tools/servers/redis.mjs';
import { DecisionService } from '../src/decision-service.ts';
import { jointMetricsText, Metrics } from '../src/observe/metrics.ts';
import { ByPolicy, MAX_LABELS, OF_OTHERS, OF_REQUESTS } from '../src/observe/policy-labels.ts';
import { openStore } from '../src/stores/index.ts';
import { fallibleStore } from './fallible-store.ts';
import { valueIn } from './metric-value.ts';
import { configOf, policy, type Running, settingsOf, startRunning } from './running.ts';

const POLICIES = [
  policy('few', 2, '1h'),
  policy('many', 100, '1h'),
  policy('watched', 1, '1h', { shadow: true }),
  policy('unused', 1, '1h'),
];

describe('the metrics of a service', () => {
  let running: Running;
  let read: (name: string, labels?: Record<string, string>) => Promise<number | undefined>;
  const open: Running[] = [];
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });

  async function start(options: Parameters<typeof startRunning>[0] = {}): Promise<void> {
    running = await startRunning({ config: { policies: POLICIES }, ...options });
    open.push(running);
    read = async (name, labels) => valueIn((await running.get('/metrics')).text, name, labels);
  }
  const check = (...policies: readonly string[]) =>
    running.post('/v1/check', { limits: policies.map((each) => ({ policy: each, key: 'k' })) });
  const decisions = (policy: string, outcome: string) =>
    read('sluice_decisions_total', { policy, outcome });

  test('decisions are counted by policy and outcome', async () => {
    await start();
    for (let call = 0; call < 5; call++) await check('few', 'many');
    expect(await decisions('few', 'allowed')).toBe(2);
    expect(await decisions('few', 'denied')).toBe(3);
    expect(await decisions('many', 'allowed')).toBe(2);
    expect(await decisions('many', 'released')).toBe(3);
    expect(await decisions('many', 'denied')).toBe(0);
  });

  test('denials of blocked keys are counted by policy', async () => {
    const policies = [policy('logins', 1, '1m', { block: '15m' }), policy('few', 1, '1m')];
    await start({ config: { policies } });
    expect(await read('sluice_blocked_total', { policy: 'logins' })).toBe(0);
    for (let call = 0; call < 4; call++) await check('logins');
    for (let call = 0; call < 4; call++) await check('few');
    expect(await read('sluice_blocked_total', { policy: 'logins' })).toBe(3);
    expect(await read('sluice_blocked_total', { policy: 'few' })).toBeUndefined();
  });

  test('shadow decisions are counted separately, and peeks are not counted', async () => {
    await start();
    for (let call = 0; call < 3; call++) await check('many', 'watched');
    await running.post('/v1/peek', { policy: 'many', key: 'k' });
    expect(await decisions('watched', 'shadow_allowed')).toBe(1);
    expect(await decisions('watched', 'shadow_denied')).toBe(2);
    expect(await decisions('watched', 'denied')).toBeUndefined();
    expect(await decisions('many', 'allowed')).toBe(3);
  });

  test('the decisions of every policy are 0 at the start', async () => {
    await start();
    expect(await decisions('unused', 'allowed')).toBe(0);
    expect(await decisions('unused', 'denied')).toBe(0);
    expect(await decisions('watched', 'shadow_denied')).toBe(0);
  });

  test('no metric has a key as label', async () => {
    await start();
    const keys = ['plain-key', 'quo"te', 'new\nline', 'back\\slash'];
    for (const key of keys) await running.post('/v1/check', { policy: 'few', key });
    await running.get('/v1/keys/few/plain-key');
    await running.get('/v1/nothing/plain-key');
    const { text } = await running.get('/metrics');
    expect(text).not.toMatch(/plain-key|quo.?te|new.?.?line|slash/);
    expect(valueIn(text, 'sluice_http_requests_total', { route: 'none', status: '404' })).toBe(1);
  });

  test('requests are counted by route and status, and decision times measured', async () => {
    await start();
    await check('few');
    await check('unknown');
    await running.post('/v1/peek', { policy: 'few', key: 'k' });
    const requests = 'sluice_http_requests_total';
    expect(await read(requests, { route: '/v1/check', status: '200' })).toBe(1);
    expect(await read(requests, { route: '/v1/check', status: '400' })).toBe(1);
    expect(await read(requests, { route: '/v1/peek', status: '200' })).toBe(1);
    const count = 'sluice_decision_duration_seconds_count';
    expect(await read(count, { protocol: 'http' })).toBe(2);
    const bucket = 'sluice_decision_duration_seconds_bucket';
    expect(await read(bucket, { protocol: 'http', le: '+Inf' })).toBe(2);
    expect(await read('sluice_decision_duration_seconds_sum')).toBeGreaterThan(0);
  });

  test('the metrics contain open connections and requests in flight', async () => {
    await start();
    expect(await read('sluice_http_connections')).toBeGreaterThanOrEqual(1);
    expect(await read('sluice_http_requests_in_flight')).toBe(1);
  });

  test('metrics survive reloads of the configuration and count the reloads', async () => {
    let isBad = false;
    const load = async () => {
      if (isBad) throw new Error('Expected something else');
      return configOf({ policies: [...POLICIES, policy('added', 5, '1h')] });
    };
    await start({ load });
    await check('few');
    const time = 'sluice_config_last_reload_success_timestamp_seconds';
    const firstTime = await read(time);
    const { configuration } = running.service.app;
    await configuration.reload();
    await check('few');
    await check('added');
    expect(await decisions('few', 'allowed')).toBe(2);
    expect(await decisions('added', 'allowed')).toBe(1);
    const reloads = 'sluice_config_reloads_total';
    expect(await read(reloads, { result: 'ok' })).toBe(1);
    expect(await read(reloads, { result: 'failed' })).toBe(0);
    expect(await read(time)).toBeGreaterThanOrEqual(firstTime!);
    const lastTime = await read(time);
    isBad = true;
    await configuration.reload();
    expect(await read(reloads, { result: 'failed' })).toBe(1);
    expect(await read('sluice_config_bad')).toBe(1);
    expect(await read(time)).toBe(lastTime);
    isBad = false;
    await configuration.reload();
    expect(await read('sluice_config_bad')).toBe(0);
  });

  test('the metrics contain keys and evictions of the embedded store', async () => {
    await start({ settings: { maxKeys: 3 } });
    expect([await read('sluice_store_up'), await read('sluice_keys')]).toEqual([1, 0]);
    for (const key of ['a', 'b', 'c', 'd', 'e']) {
      await running.post('/v1/check', { policy: 'few', key });
    }
    expect(await read('sluice_keys')).toBe(3);
    expect(await read('sluice_evicted_keys_total')).toBe(2);
    expect(await read('sluice_store_up')).toBe(1);
    expect(await read('sluice_store_breaker')).toBeUndefined();
  });

  test('the metrics contain guaranteed keys if the store reports them', async () => {
    const guaranteed = memoryStore();
    Object.defineProperty(guaranteed, 'guaranteedKeys', { value: 250_000 });
    const without = memoryStore();
    Object.defineProperty(without, 'guaranteedKeys', { value: undefined });
    const found: (number | undefined)[] = [];
    for (const store of [guaranteed, without]) {
      await start({ store: { store, kind: 'memory', close: async () => {} } });
      found.push(await read('sluice_guaranteed_keys'));
    }
    expect(found).toEqual([250_000, undefined]);
  });

  test('the metrics contain the version and process metrics', async () => {
    await start();
    const { version } = JSON.parse(
      readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
    );
    expect(await read('sluice_build_info', { version, node: process.version })).toBe(1);
    expect(await read('process_cpu_seconds_total')).toBeGreaterThan(0);
    expect(await read('process_start_time_seconds')).toBeGreaterThan(0);
  });

  test('/metrics serves the Prometheus text format and requires the token', async () => {
    const adminToken = 'a token of enough letters';
    await start({ settings: { adminToken } });
    expect((await running.get('/metrics')).status).toBe(401);
    const response = await running.get('/metrics', { authorization: `Bearer ${adminToken}` });
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    for (const line of response.text.split('\n').filter((each) => each !== '')) {
      expect(line).toMatch(/^# (HELP|TYPE) [a-z_0-9]+ .|^[a-z_0-9]+(\{[^{}]*\})? [-+0-9.eNanIf]+$/);
    }
    const names = [...response.text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('policy labels', () => {
  test('at most 1,000 policies have a metric label, and the others share one', () => {
    const policies = Array.from({ length: MAX_LABELS + 5 }, (_, at) =>
      policy(`policy-${at}`, 1, '1m'),
    );
    const counts = new ByPolicy(() => ({ count: 0 }));
    for (const { name } of policies) counts.of(name).count++;
    for (const name of ['sluice.override.day', 'sluice.override.minute']) counts.of(name).count++;
    expect(counts.get('policy-0')).toEqual({ count: 1 });
    expect(counts.get(OF_OTHERS)).toEqual({ count: 5 });
    expect(counts.get(OF_REQUESTS)).toEqual({ count: 2 });
    expect([...counts.entries()].length).toBe(MAX_LABELS + 2);
  });

  test('all inline limits share one metric label', () => {
    const counts = new ByPolicy(() => ({ count: 0 }));
    for (let name = 0; name < 5000; name++) counts.of(`sluice.inline-${name}`).count++;
    expect([...counts.entries()]).toEqual([[OF_REQUESTS, { count: 5000 }]]);
  });
});

describe('metrics of an unavailable store', () => {
  test('degraded checks are counted by reason and action', async () => {
    const { store, state } = fallibleStore();
    const running = await startRunning({
      config: { policies: POLICIES },
      store: { store, kind: 'redis', close: async () => {} },
    });
    const metrics = async () => (await running.get('/metrics')).text;
    const breaker = 'sluice_store_breaker';
    expect(valueIn(await metrics(), breaker, { state: 'closed' })).toBe(1);
    state.isUnavailable = true;
    const check = (onFailure: string) =>
      running.post('/v1/check', { policy: 'many', key: 'k', onFailure });
    await check('allow');
    await check('deny');
    expect((await check('throw')).status).toBe(503);
    const reason = 'error';
    const degraded = 'sluice_degraded_total';
    const text = await metrics();
    expect(valueIn(text, degraded, { policy: 'many', reason, action: 'allow' })).toBe(1);
    expect(valueIn(text, degraded, { policy: 'many', reason, action: 'deny' })).toBe(1);
    expect(valueIn(text, degraded, { policy: 'many', action: 'throw' })).toBe(1);
    for (let call = 0; call < 5; call++) await check('allow');
    const later = await metrics();
    expect(valueIn(later, breaker, { state: 'open' })).toBe(1);
    expect(valueIn(later, breaker, { state: 'closed' })).toBe(0);
    await running.close();
  });
});

describe('jointMetricsText', () => {
  const startProcess = () => {
    const decisionService = new DecisionService(memoryStore(), POLICIES);
    const configuration = { problems: [], reloads: { ok: 0, failed: 0 }, onReload: () => {} };
    const health = { breaker: undefined, isStoreUp: async () => true };
    const store = { store: decisionService.store, kind: 'memory', close: async () => {} };
    const metrics = new Metrics({ decisionService, configuration, health, store } as never);
    decisionService.watch(metrics.watch);
    return { decisionService, metrics };
  };

  test('metrics of several processes are summed', async () => {
    const group = [startProcess(), startProcess()];
    for (const { decisionService, metrics } of group) {
      decisionService.decide(decisionService.limits([{ policy: 'few', key: 'a' }]));
      metrics.recordDecision('grpc', 1);
      metrics.recordResponse('/v1/check', 200, 5);
    }
    const parts = await Promise.all(group.map(({ metrics }) => metrics.data()));
    const text = await jointMetricsText(JSON.parse(JSON.stringify(parts)));
    expect(valueIn(text, 'sluice_decisions_total', { policy: 'few', outcome: 'allowed' })).toBe(2);
    const count = 'sluice_decision_duration_seconds_count';
    expect(valueIn(text, count, { protocol: 'grpc' })).toBe(2);
    expect(valueIn(text, count, { protocol: 'http' })).toBe(2);
    const bucket = 'sluice_decision_duration_seconds_bucket';
    expect(valueIn(text, bucket, { protocol: 'grpc', le: '0.001' })).toBe(2);
    expect(valueIn(text, bucket, { protocol: 'http', le: '0.001' })).toBe(0);
    expect(valueIn(text, 'sluice_store_up')).toBe(1);
    expect(valueIn(text, 'sluice_keys')).toBe(1);
    expect(valueIn(text, 'sluice_build_info')).toBe(1);
  });
});

describe('the metrics of Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ args: ['--maxmemory', '3mb', '--maxmemory-policy', 'allkeys-lru'] });
  });
  afterAll(() => redis.stop());

  test('the metrics contain the availability and the evictions of Redis', async () => {
    const settings = settingsOf({ store: redis.url, deadlineMs: '2s' });
    let isUp = false;
    const onConnection = (state: 'up' | 'down') => {
      isUp = state === 'up';
    };
    const store = await openStore(settings, { onWarning: () => {}, onConnection });
    await expect.poll(() => isUp).toBe(true);
    const running = await startRunning({ config: { policies: POLICIES }, store });
    const metrics = async () => (await running.get('/metrics')).text;
    const first = await metrics();
    expect(valueIn(first, 'sluice_store_up')).toBe(1);
    expect(valueIn(first, 'sluice_evicted_keys_total')).toBe(0);
    expect(valueIn(first, 'sluice_keys')).toBeUndefined();
    for (let key = 0; key < 30; key++) {
      await redis.command('SET', `filler-${key}`, 'x'.repeat(100_000));
    }
    expect(valueIn(await metrics(), 'sluice_evicted_keys_total')).toBeGreaterThan(0);
    const known = valueIn(await metrics(), 'sluice_evicted_keys_total');
    await redis.kill();
    await expect
      .poll(async () => valueIn(await metrics(), 'sluice_store_up'), { timeout: 20_000 })
      .toBe(0);
    // A counter that is missing for some time would look like a restart.
    expect(valueIn(await metrics(), 'sluice_evicted_keys_total')).toBe(known);
    await running.close();
  });

  test('the evictions of all masters of a Redis Cluster are summed', async () => {
    const cluster = await startCluster();
    const hosts = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
    let isUp = false;
    const onConnection = (state: 'up' | 'down') => {
      isUp = state === 'up';
    };
    const settings = settingsOf({ store: `redis+cluster://${hosts}`, deadlineMs: '2s' });
    const store = await openStore(settings, { onWarning: () => {}, onConnection });
    await expect.poll(() => isUp, { timeout: 10_000 }).toBe(true);
    const text = await store.info!('stats');
    expect(text.match(/^evicted_keys:/gm)?.length).toBe(3);
    const running = await startRunning({ config: { policies: POLICIES }, store });
    const metrics = (await running.get('/metrics')).text;
    expect(valueIn(metrics, 'sluice_evicted_keys_total')).toBe(0);
    await running.close();
    await cluster.stop();
  });
});
