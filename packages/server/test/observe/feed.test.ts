import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { memoryStore } from 'sluice';
import { describe, expect, test } from 'vitest';
import { DecisionService } from '../../src/decision-service.ts';
import { DenialCollectors, type DenialFilter, MAX_DENIALS } from '../../src/observe/denials.ts';
import { type EndReason, Feed, type FeedSource, type Listener } from '../../src/observe/feed.ts';
import { DecisionCounters } from '../../src/observe/policy-counters.ts';
import type { TickPart, TickRequest } from '../../src/observe/tick.ts';
import { policy } from '../running.ts';
import { PendingClock } from './pending-clock.ts';

const START_MS = 1_763_200_000_000;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A listener that stores what it receives. */
class TestListener implements Listener {
  isAdmitted = true;
  isSlow = false;
  ended: EndReason | undefined = undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of an event.
  readonly events: (readonly [event: string, data: any])[] = [];

  constructor(readonly filter: DenialFilter = {}) {}

  send(event: string, data: string): void {
    this.events.push([event, JSON.parse(data)]);
  }

  end(why: EndReason): void {
    this.ended = why;
  }

  get ticks() {
    return this.events.filter(([event]) => event === 'tick').map(([, data]) => data);
  }
}

/** Returns the tick of a process that allows `second mod 10` calls in each second. */
function partOf({ startMs, seconds, filters }: TickRequest): TickPart {
  const zeros = Array(seconds).fill(0);
  const allowed = zeros.map((_, at) => (startMs / 1000 + at) % 10);
  return {
    policies: [
      {
        ...{ name: 'p', allowed, denied: zeros, shadowDenied: zeros, degraded: zeros },
        ...{ shadowAllowed: zeros },
        fullest: Array(seconds).fill(null),
      },
    ],
    durations: zeros.map(() => Array(15).fill(0)),
    store: { kind: 'memory', up: true },
    denials: filters.map(() => ({ denials: [], omitted: 0 })),
  };
}

function setUp() {
  const clock = new PendingClock(START_MS + 400);
  const requests: TickRequest[] = [];
  const source: FeedSource = {
    listen: async () => [{ startedAtMs: START_MS - 5000 }],
    tick: async (request) => {
      requests.push(request);
      return [partOf(request)];
    },
  };
  const feed = new Feed(source, pino({ level: 'silent' }), clock);
  const join = async (listener = new TestListener()): Promise<TestListener> => {
    feed.join(listener);
    await settled();
    return listener;
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await settled();
  };
  return { clock, requests, source, feed, join, pass };
}

describe('Feed', () => {
  test('the feed does not poll without listeners', async () => {
    const { clock, requests, feed, join, pass } = setUp();
    await pass(5000);
    feed.changed('policies');
    expect([requests.length, clock.pending]).toEqual([0, 0]);
    const listener = await join();
    feed.changed('policies');
    feed.leave(listener);
    expect(clock.pending).toBe(0);
    await pass(5000);
    expect(requests).toEqual([]);
  });

  test('a listener receives hello, then each completed second once', async () => {
    const { join, pass } = setUp();
    const listener = await join();
    expect(listener.events).toEqual([
      [
        'hello',
        {
          ...{ version: expect.any(String), startedAtMs: START_MS - 5000 },
          ...{ atMs: START_MS + 400, processes: 1 },
        },
      ],
    ]);
    await pass(599);
    expect(listener.ticks).toEqual([]);
    await pass(1);
    await pass(1000);
    expect(listener.ticks.map(({ atMs }) => atMs)).toEqual([START_MS, START_MS + 1000]);
    expect(listener.ticks.map(({ total }) => total.allowed)).toEqual([0, 1]);
    // The first second has no decisions.
    expect(listener.ticks.map(({ policies }) => policies.length)).toEqual([0, 1]);
  });

  test('the feed polls once for all listeners, with each distinct filter once', async () => {
    const { requests, join, pass } = setUp();
    const same = { policy: 'p', key: 'a*' };
    const listeners = await Promise.all([
      ...[
        new TestListener(),
        new TestListener(),
        new TestListener(same),
        new TestListener({ ...same }),
      ].map((listener) => join(listener)),
    ]);
    await pass(1000);
    expect(requests).toHaveLength(1);
    expect(requests[0].filters).toEqual([{}, same]);
    for (const { ticks } of listeners) expect(ticks).toHaveLength(1);
  });

  test('delayed seconds are sent once and in order', async () => {
    const { clock, source, requests, join, pass } = setUp();
    const listener = await join();
    const { tick } = source;
    let reply = (): void => {};
    source.tick = (request) => {
      requests.push(request);
      return new Promise((resolve) => {
        reply = () => resolve([partOf(request)]);
      });
    };
    await pass(600);
    // No further poll before the reply.
    await pass(3200);
    expect(requests).toHaveLength(1);
    source.tick = tick;
    reply();
    await settled();
    await pass(800);
    const seconds = listener.ticks.map(({ atMs }) => (atMs - START_MS) / 1000);
    expect(seconds).toEqual([0, 1, 2, 3, 4]);
    expect(clock.pending).toBe(1);
  });

  test('the seconds of a failed tick are sent with the next one', async () => {
    const { source, join, pass } = setUp();
    const listener = await join();
    const { tick } = source;
    source.tick = async () => Promise.reject(new Error('no reply'));
    await pass(600);
    source.tick = async () => [];
    await pass(1000);
    source.tick = tick;
    await pass(1000);
    expect(listener.ticks.map(({ atMs }) => (atMs - START_MS) / 1000)).toEqual([0, 1, 2]);
  });

  test('seconds that are more than ten seconds old are not sent', async () => {
    const { clock, join, pass } = setUp();
    const listener = await join();
    clock.set(START_MS + 60_000);
    await pass(500);
    expect(listener.ticks).toHaveLength(10);
    expect(listener.ticks.at(-1).atMs).toBe(START_MS + 59_000);
  });

  test('the feed pauses if the clock is set back a little, and follows it if far', async () => {
    const { clock, join, pass } = setUp();
    const listener = await join();
    const secondsSentIn = async (seconds: number): Promise<readonly number[]> => {
      const before = listener.ticks.length;
      for (let second = 0; second < seconds; second++) await pass(1000);
      return listener.ticks.slice(before).map(({ atMs }) => (atMs - START_MS) / 1000);
    };
    expect(await secondsSentIn(4)).toEqual([0, 1, 2, 3]);
    clock.offsetMs = -2000;
    expect(await secondsSentIn(2)).toEqual([]);
    expect(await secondsSentIn(2)).toEqual([4, 5]);
    clock.offsetMs = -3_602_000;
    expect(await secondsSentIn(3)).toEqual([-3594, -3593, -3592]);
    clock.offsetMs = -2000;
    expect((await secondsSentIn(1)).at(-1)).toBe(9);
  });

  test('listeners without access and slow listeners are ended', async () => {
    const { clock, feed, join, pass } = setUp();
    const [expired, slow] = [await join(), await join()];
    expired.isAdmitted = false;
    slow.isSlow = true;
    await pass(600);
    expect([expired.ended, slow.ended]).toEqual(['expired', 'slow']);
    expect([feed.listeners, clock.pending]).toEqual([0, 0]);
    expect(slow.ticks).toEqual([]);
  });

  test('changes are sent at once, and equal ones within 50 ms only once', async () => {
    const { feed, join, pass } = setUp();
    const listener = await join();
    for (let change = 0; change < 1000; change++) feed.changed('overrides');
    feed.changed('policies', 'overrides');
    await pass(50);
    expect(listener.events.slice(1)).toEqual([
      ['changed', { what: 'overrides' }],
      ['changed', { what: 'policies' }],
    ]);
    feed.changed('policies');
    await pass(50);
    expect(listener.events.slice(3)).toEqual([['changed', { what: 'policies' }]]);
  });

  test('close ends current and later listeners and cancels all timers', async () => {
    const { clock, feed, join, pass } = setUp();
    const listeners = [await join(), await join()];
    feed.changed('policies');
    feed.close();
    feed.close();
    expect(listeners.map(({ ended }) => ended)).toEqual(['stopping', 'stopping']);
    expect((await join()).ended).toBe('stopping');
    expect(clock.pending).toBe(0);
    await pass(5000);
    expect(clock.pending).toBe(0);
  });

  test('a tick merges all processes and contains the worst store state', async () => {
    const { source, join, pass } = setUp();
    const stores: readonly TickPart['store'][] = [
      { kind: 'redis', up: true, breaker: 'closed', latencyMs: 0.5 },
      { kind: 'redis', up: false, breaker: 'open' },
    ];
    const waits = [Array(15).fill(0), Array(15).fill(0)];
    waits[0][0] = 99;
    waits[1][9] = 1;
    source.tick = async (request) =>
      stores.map((store, at) => ({ ...partOf(request), store, durations: [waits[at]] }));
    const listener = await join();
    await pass(600);
    await pass(1000);
    expect(listener.ticks[1]).toMatchObject({
      total: { allowed: 2 },
      policies: [{ name: 'p', allowed: 2 }],
      store: { kind: 'redis', up: false, breaker: 'open', latencyMs: 0.5 },
      decisions: { p50Ms: 0.051, p99Ms: 0.1 },
      processes: 2,
    });
  });
});

test('a process exits after its services are closed, also with open streams', async () => {
  const program = `
    import { makeLog, openStore, readSettings, startService } from './dist/index.js';
    const { settings } = readSettings({ listen: '127.0.0.1:0', logLevel: 'silent' }, {}, {});
    const none = { policies: [], rules: [], domains: [], overrides: [], warnings: [] };
    const config = { files: [], ...none, settings: {} };
    const store = await openStore(settings, { onWarning() {}, onConnection() {} });
    const load = async () => config;
    const log = makeLog(settings);
    const service = await startService({ settings, store, log, config, load });
    const response = await fetch(service.url + '/v1/events?key=a');
    const reader = response.body.getReader();
    let text = '';
    const decoder = new TextDecoder();
    while (!text.includes('event: tick')) text += decoder.decode((await reader.read()).value);
    await service.close();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      text += decoder.decode(piece.value);
    }
    console.log(text.slice(text.indexOf('event: end')));
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '-e', program],
    { cwd: new URL('../..', import.meta.url) },
  );
  expect(stdout.trim()).toBe('event: end\ndata: {"why":"stopping"}');
});

describe('DenialCollectors', () => {
  function collecting() {
    const clock = new PendingClock(START_MS);
    const policies = [policy('few', 1, '1h'), policy('none', 1, '1m', { shadow: true })];
    const decisionService = new DecisionService(memoryStore(), policies);
    const counters = new DecisionCounters();
    decisionService.watch(counters.watch);
    const collectors = new DenialCollectors(decisionService, counters, clock);
    /** The first call of a key is allowed, all others are denied. */
    const call = (name: string, key: string, times = 1) => {
      for (let at = 0; at < times; at++)
        decisionService.decide(decisionService.limits([{ policy: name, key }]));
    };
    return { clock, decisionService, counters, collectors, call };
  }

  test('no denials are collected without a subscriber', () => {
    const { clock, counters, collectors } = collecting();
    expect(counters.onDenial).toBeUndefined();
    collectors.add('a', {});
    expect(counters.onDenial).toBeDefined();
    clock.advance(15_000);
    expect([counters.onDenial, collectors.isOn, clock.pending]).toEqual([undefined, false, 0]);
    collectors.add('a', {});
    collectors.close();
    expect([counters.onDenial, collectors.isOn, clock.pending]).toEqual([undefined, false, 0]);
  });

  test('denials are collected until the subscriber expires', () => {
    const { clock, collectors, call } = collecting();
    collectors.add('a', {});
    collectors.add('b', {});
    for (let second = 0; second < 30; second++) {
      clock.advance(1000);
      call('few', 'x', 2);
      const [{ denials }] = collectors.take('a', [{}]);
      expect(denials).toHaveLength(second === 0 ? 1 : 2);
    }
    // The other subscriber has expired, so it starts again.
    expect(collectors.take('b', [{}])).toEqual([{ denials: [], omitted: 0 }]);
  });

  test('a flood keeps the first denials and a count, and a filter finds a rare key', () => {
    const { collectors, call } = collecting();
    const filters = [{}, { key: 'rare' }, { key: 'ra*' }, { policy: 'none' }, { key: 'flood' }];
    collectors.take('a', filters);
    call('few', 'flood', 5001);
    call('few', 'rare', 2);
    call('few', 'flood', 4999);
    const [all, rare, pattern, other, flood] = collectors.take('a', filters);
    expect([all.denials.length, all.omitted]).toEqual([MAX_DENIALS, 10_000 - MAX_DENIALS]);
    expect(rare).toMatchObject({ denials: [{ policy: 'few', key: 'rare' }], omitted: 0 });
    expect(pattern.denials).toEqual(rare.denials);
    expect(other).toEqual({ denials: [], omitted: 0 });
    expect(flood.omitted).toBe(9999 - MAX_DENIALS);
    expect(collectors.take('a', filters)[0]).toEqual({ denials: [], omitted: 0 });
  });

  test('a denial describes the limit and its shadow mode', () => {
    const { decisionService, collectors } = collecting();
    collectors.add('a', {});
    const both = decisionService.limits([
      { policy: 'few', key: 'a' },
      { policy: 'none', key: 'b' },
    ]);
    decisionService.decide(decisionService.limits([{ policy: 'none', key: 'b' }]));
    decisionService.decide(both);
    decisionService.decide(both);
    const common = {
      ...{ atMs: expect.any(Number), cost: 1, limit: 1, remaining: 0 },
      ...{ retryAfterMs: expect.any(Number), algorithm: 'sliding-log' },
    };
    expect(collectors.take('a', [{}])[0].denials).toEqual([
      { ...common, policy: 'none', key: 'b', windowMs: 60_000, shadow: true },
      { ...common, policy: 'few', key: 'a', windowMs: 3_600_000 },
    ]);
  });

  test('a denied joint check reports only the limits that denied', () => {
    const { decisionService, collectors, call } = collecting();
    decisionService.use([policy('few', 1, '1h'), policy('more', 2, '1h'), policy('many', 9, '1h')]);
    collectors.add('a', {});
    call('few', 'a');
    call('more', 'a', 2);
    const requests = ['many', 'few', 'more'].map((each) => ({ policy: each, key: 'a' }));
    decisionService.decide(decisionService.limits(requests));
    const [{ denials }] = collectors.take('a', [{}]);
    expect(denials.map((each) => each.policy)).toEqual(['few', 'more']);
  });

  test('denials of inline limits are found by their label', () => {
    const { decisionService, collectors } = collecting();
    const filters = [{ policy: '(request)' }, { policy: 'sluice.inline' }, { policy: 'few' }];
    collectors.take('a', filters);
    const limit = decisionService.inlineLimit('sluice.inline', { limit: 1, window: '10s' }, 'k', 1);
    decisionService.decide([limit]);
    decisionService.decide([limit]);
    const [byLabel, byName, other] = collectors.take('a', filters);
    expect(byLabel.denials).toMatchObject([{ policy: 'sluice.inline', windowMs: 10_000 }]);
    expect(byName).toEqual(byLabel);
    expect(other.denials).toEqual([]);
  });
});
