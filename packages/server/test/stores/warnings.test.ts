import { Writable } from 'node:stream';
import { afterEach, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { makeLog, storeListeners } from '../../src/observe/log.ts';
import { openStore } from '../../src/stores/index.ts';
import { RunningGroup } from '../cluster/running-group.ts';
import { policy, type Running, settingsOf, startRunning } from '../running.ts';

const EVICTING = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'];
const EVICTS = 'WARN_REDIS_EVICTS';
const soon = { timeout: 20_000 };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Line = Record<string, unknown>;

async function redisOf(args: readonly string[], port?: number): Promise<RedisServer> {
  const redis = await startRedis({ args, ...(port !== undefined && { port }) });
  closing.push(() => redis.stop());
  return redis;
}

async function start(address: string): Promise<{ running: Running; lines: readonly Line[] }> {
  const lines: Line[] = [];
  const write = (line: Buffer, _encoding: string, done: () => void): void => {
    lines.push(JSON.parse(String(line)));
    done();
  };
  const settings = { store: address, onFailure: 'deny' };
  const log = makeLog(settingsOf(settings), new Writable({ write }));
  const store = await openStore(settingsOf(settings), storeListeners(log));
  const config = { policies: [policy('few', 2, '1m')] };
  const running = await startRunning({ config, settings, store, log });
  closing.push(() => running.close());
  return { running, lines };
}

const codes = (lines: readonly Line[]): readonly unknown[] =>
  lines.flatMap(({ code }) => code ?? []);

describe('warnings about a Redis that evicts keys', () => {
  test('a service on a Redis that evicts keys logs a warning once, before requests', async () => {
    const { url } = await redisOf(EVICTING);
    const { running, lines } = await start(url);
    await expect.poll(() => codes(lines), soon).toEqual([EVICTS]);
    for (let call = 0; call < 3; call++) {
      await running.post('/v1/check', { policy: 'few', key: 'a' });
    }
    expect(codes(lines)).toEqual([EVICTS]);
  });

  test('a service that starts without Redis warns about evictions when it connects', async () => {
    const before = await startRedis();
    await before.stop();
    const { running, lines } = await start(before.url);
    const { json } = await running.post('/v1/check', { policy: 'few', key: 'a' });
    expect(json).toMatchObject({ allowed: false, degraded: { action: 'deny' } });
    expect(lines.some(({ code }) => code === EVICTS)).toBe(false);
    await redisOf(EVICTING, before.port);
    await expect.poll(() => codes(lines), soon).toContain(EVICTS);
  });

  test('each worker warns about a Redis that evicts keys', async () => {
    const { url } = await redisOf(EVICTING);
    const group = await RunningGroup.start({ config: {}, settings: { workers: 2, store: url } });
    closing.push(() => group.stop());
    const warned = (): readonly unknown[] =>
      group.log.filter(({ code }) => code === EVICTS).map(({ worker }) => worker);
    await expect.poll(() => warned().toSorted(), soon).toEqual([1, 2]);
  });
});

test('a service on a Redis that evicts no keys logs no warning', async () => {
  const { url } = await redisOf(['--maxmemory', '100mb', '--maxmemory-policy', 'noeviction']);
  const { running, lines } = await start(url);
  const isReady = async (): Promise<number> => (await running.get('/readyz')).status;
  await expect.poll(isReady, soon).toBe(200);
  expect(codes(lines)).toEqual([]);
});
