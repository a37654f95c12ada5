import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import type { DenialFilter } from '../../src/observe/denials.ts';
import { type EndReason, Feed, type FeedSource, type Listener } from '../../src/observe/feed.ts';
import type { TickPart, TickRequest } from '../../src/observe/tick-data.ts';
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

  test('the feed sends delayed seconds once and in order', async () => {
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

  test('the feed sends the seconds of a failed poll with the next one', async () => {
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

  test('the feed does not send seconds that are more than ten seconds old', async () => {
    const { clock, join, pass } = setUp();
    const listener = await join();
    clock.set(START_MS + 60_000);
    await pass(500);
    expect(listener.ticks).toHaveLength(10);
    expect(listener.ticks.at(-1).atMs).toBe(START_MS + 59_000);
  });

  test('a clock set back by 2 s pauses the feed, and one set back by 1 h resets it', async () => {
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

  test('the feed ends listeners without access and slow listeners', async () => {
    const { clock, feed, join, pass } = setUp();
    const [expired, slow] = [await join(), await join()];
    expired.isAdmitted = false;
    slow.isSlow = true;
    await pass(600);
    expect([expired.ended, slow.ended]).toEqual(['expired', 'slow']);
    expect([feed.listeners, clock.pending]).toEqual([0, 0]);
    expect(slow.ticks).toEqual([]);
  });

  test('the feed sends changes in order, and equal ones within 50 ms only once', async () => {
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

  test('close of the feed ends current and later listeners and cancels all timers', async () => {
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
