import { ManualClock, memoryStore, type Store } from 'sluice';
import { describe, expect, test } from 'vitest';
import { startRedis } from '../../../tools/servers/redis.mjs';
import { DecisionService } from '../src/decision-service.ts';
import { EvictionLog, PAUSE_MS } from '../src/observe/eviction-log.ts';
import { DenialLog, makeLog, StoreLog, storeListeners } from '../src/observe/log.ts';
import { openStore } from '../src/stores/index.ts';
import { fallibleStore } from './fallible-store.ts';
import { PendingClock } from './observe/pending-clock.ts';
import { policy, settingsOf, startRunning } from './running.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of a line.
type Line = any;

/** Returns a log, its parsed lines and its text. */
function readableLog(logLevel: 'info' | 'warn' | 'silent' = 'info') {
  const texts: string[] = [];
  const log = makeLog({ logLevel }, { write: (text: string) => void texts.push(text) });
  return {
    log,
    lines: (): Line[] => texts.map((text) => JSON.parse(text)),
    text: () => texts.join(''),
  };
}

describe('log lines', () => {
  test('a log line is JSON with time, level name and message', () => {
    const { log, lines, text } = readableLog();
    log.info({ port: 8080 }, 'listening');
    expect(lines()).toEqual([
      { level: 'info', time: expect.any(String), name: 'sluice', port: 8080, msg: 'listening' },
    ]);
    expect(text().endsWith('\n')).toBe(true);
    expect(Number.isNaN(Date.parse(lines()[0].time))).toBe(false);
  });

  test('log lines below the log level are not written', () => {
    const { log, lines } = readableLog('warn');
    log.info('one');
    log.warn('other');
    expect(lines().map(({ msg }) => msg)).toEqual(['other']);
  });

  test('log lines contain no secrets', () => {
    const { log, text } = readableLog();
    const secret = 'hunter2hunter2';
    log.info({ authorization: secret }, 'a');
    log.info({ headers: { authorization: `Bearer ${secret}`, cookie: secret } }, 'b');
    log.info({ request: { headers: { authorization: secret } } }, 'c');
    log.info({ 'set-cookie': secret, headers: { 'set-cookie': [secret] } }, 'c');
    log.info({ response: { headers: { 'set-cookie': secret }, cookie: secret } }, 'c');
    log.info({ settings: { adminToken: secret, password: secret } }, 'd');
    log.error({ err: new Error(`connect redis://user:${secret}@host:6379 failed`) }, 'e');
    log.error({ err: Object.assign(new Error('x'), { command: { args: [secret] } }) }, 'f');
    log.error({ err: new Error('y', { cause: new Error(`rediss://:${secret}@host`) }) }, 'g');
    expect(text()).not.toContain(secret);
    expect(text()).toContain('redis://***@host:6379');
  });

  test('an error is logged with message, code and stack', () => {
    const { log, lines } = readableLog();
    log.error({ err: Object.assign(new RangeError('too much'), { code: 'ERR_X' }) }, 'failed');
    const [{ err }] = lines();
    expect(err).toMatchObject({ type: 'RangeError', message: 'too much', code: 'ERR_X' });
    expect(err.stack).toContain('log.test.ts');
  });
});

describe('the log of denials', () => {
  function setUp(logDenials: number) {
    const { log, lines } = readableLog();
    const clock = new ManualClock();
    const denials = new DenialLog(log, { logDenials }, clock);
    const decisionService = new DecisionService(memoryStore(), [
      policy('few', 2, '1h'),
      policy('watched', 1, '1h', { shadow: true }),
    ]);
    decisionService.watch(denials.watch);
    const check = (times: number, name = 'few') => {
      for (let call = 0; call < times; call++) {
        decisionService.decide(decisionService.limits([{ policy: name, key: 'a' }]));
      }
    };
    return { lines, clock, denials, check };
  }

  test('the denial log has the first denials of a second and the number of the rest', () => {
    const { lines, clock, check } = setUp(3);
    check(2);
    expect(lines()).toEqual([]);
    check(10);
    expect(lines().length).toBe(3);
    expect(lines()[0]).toMatchObject({
      msg: 'denied',
      policy: 'few',
      key: 'a',
      cost: 1,
      remaining: 0,
      retryAfterMs: expect.any(Number),
    });
    clock.advance(1000);
    expect(lines().length).toBe(4);
    expect(lines()[3]).toMatchObject({ suppressed: 7 });
  });

  test('the limit of logged denials applies per second', () => {
    const { lines, clock, check } = setUp(3);
    check(2 + 3);
    clock.advance(1000);
    expect(lines().length).toBe(3);
    check(1);
    clock.advance(5000);
    check(4);
    clock.advance(1000);
    expect(lines().map(({ suppressed }) => suppressed ?? 0)).toEqual([0, 0, 0, 0, 0, 0, 0, 1]);
  });

  test('with a limit of 0, the denial log has only the number of denials', () => {
    const { lines, clock, check } = setUp(0);
    check(2 + 100_000);
    clock.advance(1000);
    expect(lines().map(({ msg, suppressed }) => [msg, suppressed])).toEqual([
      ['more denials not logged', 100_000],
    ]);
  });

  test('flush of the denial log writes the number of denials that were not logged', () => {
    const { lines, clock, denials, check } = setUp(0);
    check(2 + 5);
    denials.flush();
    expect(lines()[0].suppressed).toBe(5);
    clock.advance(5000);
    expect(lines().length).toBe(1);
  });

  test('shadow denials are not logged', () => {
    const { lines, clock, check } = setUp(5);
    check(5, 'watched');
    clock.advance(1000);
    expect(lines()).toEqual([]);
  });
});

describe('the log of store failures', () => {
  function setUp() {
    const { store, state } = fallibleStore();
    const decisionService = new DecisionService(store, [policy('many', 1000, '1h')]);
    const { log, lines } = readableLog();
    const clock = new ManualClock();
    const storeLog = new StoreLog(log, clock);
    decisionService.watch(storeLog.watch, storeLog.onFailure);
    const check = async (onFailure: 'allow' | 'throw' = 'allow') => {
      const limits = decisionService.limits([{ policy: 'many', key: 'a' }]);
      await Promise.resolve(decisionService.decide(limits, { onFailure })).catch(() => {});
    };
    return { state, lines, clock, check };
  }

  test('a store failure is logged once, and so is the recovery of the store', async () => {
    const { state, lines, clock, check } = setUp();
    await check();
    expect(lines()).toEqual([]);
    state.isUnavailable = true;
    for (let call = 0; call < 4; call++) await check();
    expect(lines()).toMatchObject([
      { level: 'error', msg: 'store unavailable', reason: 'error', action: 'allow' },
    ]);
    state.isUnavailable = false;
    clock.advance(1000);
    for (let call = 0; call < 5; call++) await check();
    expect(lines().map(({ msg }) => msg)).toEqual(['store unavailable', 'store available']);
  });

  test('an unavailable store with the action throw is logged once', async () => {
    const { state, lines, check } = setUp();
    state.isUnavailable = true;
    await check('throw');
    await check('throw');
    expect(lines()).toMatchObject([{ msg: 'store unavailable', action: 'throw' }]);
  });

  test('a flapping store is logged at most once per second', async () => {
    const { state, lines, clock, check } = setUp();
    for (let call = 0; call < 60; call++) {
      state.isUnavailable = call % 4 === 0;
      clock.advance(10);
      await check();
    }
    expect(lines().length).toBe(1);
  });
});

describe('the log of the Redis connection', () => {
  test('Redis connection changes are logged, a wrong password without its text', async () => {
    const redis = await startRedis({ password: 'the real password' });
    const secret = 'not-the-password';
    const { log, lines, text } = readableLog();
    const address = (password: string) =>
      `redis://default:${encodeURIComponent(password)}@127.0.0.1:${redis.port}`;
    const wrong = await openStore(settingsOf({ store: address(secret) }), storeListeners(log));
    await expect.poll(() => text(), { timeout: 10_000 }).toContain('WRONGPASS');
    await wrong.close();
    expect(text()).not.toContain(secret);
    const right = await openStore(
      settingsOf({ store: address('the real password') }),
      storeListeners(log),
    );
    const messages = () => lines().map(({ msg }) => msg);
    await expect.poll(messages, { timeout: 10_000 }).toContain('store connected');
    const before = messages().length;
    await redis.kill();
    await expect
      .poll(() => messages().slice(before), { timeout: 10_000 })
      .toEqual(['store disconnected']);
    await right.close();
    await redis.stop();
  });
});

describe('the log of evictions', () => {
  function setUp(store: Partial<Store>) {
    const { log, lines } = readableLog();
    const clock = new PendingClock(1_763_200_000_000);
    const evictions = new EvictionLog(log, store as Store, clock);
    evictions.start();
    return { clock, evictions, lines };
  }
  const fields = ({ level, msg, evicted, total, keys, guaranteedKeys }: Line) => ({
    ...{ level, msg, evicted, total, keys, guaranteedKeys },
  });

  test('the first eviction is logged, then at most one line per minute with counts', () => {
    const store = { evicted: 0, size: 10, guaranteedKeys: 5 };
    const { clock, evictions, lines } = setUp(store);
    clock.advance(5000);
    expect(lines()).toEqual([]);
    for (let second = 0; second < 2 * (PAUSE_MS / 1000); second++) {
      store.evicted += 3;
      clock.advance(1000);
    }
    expect(lines().map(fields)).toEqual([
      { level: 'warn', msg: 'keys evicted', evicted: 3, total: 3, keys: 10, guaranteedKeys: 5 },
      { level: 'warn', msg: 'keys evicted', evicted: 180, total: 183, keys: 10, guaranteedKeys: 5 },
    ]);
    evictions.stop();
    expect(lines().map(({ evicted }) => evicted)).toEqual([3, 180, 177]);
    evictions.stop();
    expect([lines().length, clock.pending]).toEqual([3, 0]);
  });

  test('a store that does not count evictions is not polled', () => {
    const { clock, evictions } = setUp({});
    expect(clock.pending).toBe(0);
    evictions.stop();
  });

  test('a service with a full store logs evictions', async () => {
    const { log, lines } = readableLog();
    const config = { policies: [policy('few', 2, '1h')] };
    const running = await startRunning({ config, settings: { maxKeys: 3 }, log });
    for (let at = 0; at < 20; at++) {
      await running.post('/v1/check', { policy: 'few', key: `k${at}` });
    }
    await running.close();
    expect(lines().filter(({ msg }) => msg === 'keys evicted')).toEqual([
      expect.objectContaining({ level: 'warn', evicted: expect.any(Number) }),
    ]);
  });
});
