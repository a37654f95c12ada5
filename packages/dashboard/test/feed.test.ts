/** The event stream against a fake API and a fake EventSource. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Api, ApiError, UnreachableError } from '../src/api/client.ts';
import { Feed } from '../src/api/feed.ts';
import type { Denial, SeriesReport, Tick } from '../src/api/types.ts';

const START_MS = 1_763_200_000_000;

class FakeSource extends EventTarget {
  static opened: FakeSource[] = [];
  isClosed = false;

  constructor(readonly url: string) {
    super();
    FakeSource.opened.push(this);
  }

  close(): void {
    this.isClosed = true;
  }

  emit(event: string, data?: unknown): void {
    if (!this.isClosed) {
      this.dispatchEvent(new MessageEvent(event, { data: JSON.stringify(data) }));
    }
  }

  hello(second: number, startedAtMs = START_MS): void {
    this.emit('hello', { version: '1', startedAtMs, atMs: START_MS + second * 1000, processes: 1 });
  }

  tick(second: number, denials: readonly Denial[] = [], denialsOmitted = 0): void {
    const zeros = { denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 };
    const counts = { allowed: second, ...zeros, fullest: null };
    const tick: Tick = {
      ...{ atMs: START_MS + second * 1000, total: counts, policies: [], omitted: 0 },
      ...{ store: { kind: 'memory', up: true }, decisions: {}, processes: 1 },
      ...{ denials, denialsOmitted },
    };
    this.emit('tick', tick);
  }
}

const source = (): FakeSource => FakeSource.opened.at(-1)!;

const seriesUpTo = (second: number): SeriesReport => {
  const allowed = Array.from({ length: 600 }, (_, at) => Math.max(second - 599 + at, 0));
  const zeros = allowed.map(() => 0);
  const shadow = { shadowAllowed: zeros, shadowDenied: zeros };
  const total = { allowed, denied: zeros, ...shadow, degraded: zeros };
  return {
    ...{ stepMs: 1000, startMs: START_MS + (second - 599) * 1000 },
    sinceMs: START_MS + (second - 599) * 1000,
    ...{ total: { ...total, fullest: zeros.map(() => null) }, policies: [], omitted: 0 },
  };
};

const api = {
  series: vi.fn<Api['series']>(),
  session: vi.fn<Api['session']>(),
  streamError: vi.fn<Api['streamError']>(),
  onSignedOut: vi.fn(),
};

const settled = async (): Promise<void> => {
  await vi.advanceTimersByTimeAsync(0);
};
const newest = (feed: Feed, count: number) => feed.history.total.allowed.slice(-count);
const denial = (key: string): Denial => ({
  ...{ atMs: START_MS, policy: 'p', key, cost: 1, limit: 1, remaining: 0, retryAfterMs: 1 },
});

let feed: Feed;
beforeEach(async () => {
  vi.useFakeTimers({ now: START_MS });
  vi.stubGlobal('EventSource', FakeSource);
  FakeSource.opened = [];
  vi.resetAllMocks();
  api.session.mockResolvedValue({ required: true, signedIn: true });
  api.series.mockImplementation(async () => seriesUpTo(9));
  feed = new Feed(api as unknown as Api);
  feed.start();
  source().hello(10);
  await settled();
});
afterEach(() => {
  feed.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('an open stream', () => {
  test('the feed is live after the first tick, which extends the loaded history', () => {
    expect(feed.state).toBe('connecting');
    source().tick(10);
    expect(feed.state).toBe('live');
    expect(newest(feed, 3)).toEqual([8, 9, 10]);
    expect(api.series).toHaveBeenCalledTimes(1);
  });

  test('the feed uses the clock of the service', () => {
    expect(feed.nowMs).toBe(START_MS + 10_000);
  });

  test('the feed loads seconds for which no tick arrived', async () => {
    source().tick(10);
    api.series.mockResolvedValue(seriesUpTo(14));
    source().tick(14);
    await settled();
    expect(newest(feed, 6)).toEqual([9, 10, 11, 12, 13, 14]);
  });

  test('ticks that arrive while the history is loading are kept', async () => {
    source().tick(10);
    let respond = (_report: SeriesReport): void => {};
    api.series.mockImplementation(() => new Promise((resolve) => (respond = resolve)));
    source().tick(13);
    source().tick(14);
    respond(seriesUpTo(13));
    await settled();
    expect(newest(feed, 5)).toEqual([10, 11, 12, 13, 14]);
  });

  test('listeners are notified of changes until they unsubscribe', () => {
    const listener = vi.fn();
    const stop = feed.onChanged(listener);
    source().emit('changed', { what: 'overrides' });
    stop();
    source().emit('changed', { what: 'policies' });
    expect(listener.mock.calls).toEqual([[{ what: 'overrides' }]]);
  });
});

describe('a lost stream', () => {
  test.each([
    ['an end event', () => source().emit('end', { why: 'stopping' })],
    ['an error', () => source().dispatchEvent(new Event('error'))],
    ['silence', () => vi.advanceTimersByTime(4000)],
  ])('after %s the event stream is opened again and missed seconds are loaded', async (_, end) => {
    source().tick(10);
    end();
    expect(feed.state).toBe('lost');
    expect(feed.lostAtMs).toBe(feed.nowMs);
    const changed = vi.fn();
    feed.onChanged(changed);
    await vi.advanceTimersByTimeAsync(2000);
    expect(FakeSource.opened).toHaveLength(2);
    api.series.mockResolvedValue(seriesUpTo(20));
    source().hello(21);
    await settled();
    source().tick(21);
    expect(feed).toMatchObject({ state: 'live', lostAtMs: undefined });
    expect(newest(feed, 3)).toEqual([19, 20, 21]);
    expect(changed).toHaveBeenCalledWith({ what: 'policies' });
    expect(changed).toHaveBeenCalledWith({ what: 'overrides' });
  });

  test('the event stream is opened again once an unreachable service responds', async () => {
    api.session.mockRejectedValue(new UnreachableError());
    source().dispatchEvent(new Event('error'));
    const { lostAtMs, dataMs } = feed;
    expect(dataMs).toBe(undefined);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(FakeSource.opened).toHaveLength(1);
    expect(api.session.mock.calls.length).toBeGreaterThanOrEqual(4);
    expect(feed).toMatchObject({ state: 'lost', lostAtMs });
    api.session.mockResolvedValue({ required: false, signedIn: true });
    await vi.advanceTimersByTimeAsync(2000);
    expect(FakeSource.opened).toHaveLength(2);
  });

  test('the event stream is not opened again after the session expired', async () => {
    api.session.mockResolvedValue({ required: true, signedIn: false });
    source().emit('end', { why: 'expired' });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(api.onSignedOut).toHaveBeenCalledTimes(1);
    expect(FakeSource.opened).toHaveLength(1);
  });

  test('the event stream stays closed after sign-out, even with a retry pending', async () => {
    let respond = (): void => {};
    api.session.mockImplementation(
      () => new Promise((resolve) => (respond = () => resolve({ required: true, signedIn: true }))),
    );
    source().dispatchEvent(new Event('error'));
    await vi.advanceTimersByTimeAsync(2000);
    feed.close();
    respond();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(FakeSource.opened).toHaveLength(1);
  });

  test('the error response to the stream request is reported after two failures', async () => {
    const error = new ApiError(503, 'ERR_TOO_MANY_STREAMS', 'Expected at most 32 streams');
    api.streamError.mockResolvedValue(error);
    source().dispatchEvent(new Event('error'));
    await vi.advanceTimersByTimeAsync(2000);
    expect(feed.problem).toBeUndefined();
    source().dispatchEvent(new Event('error'));
    await vi.advanceTimersByTimeAsync(2000);
    expect(feed.problem).toBe('Expected at most 32 streams');
    source().hello(20);
    source().tick(20);
    expect(feed.problem).toBeUndefined();
  });
});

describe('denials', () => {
  const listed = () => feed.denials.list().map(({ last, count }) => [last.key, count]);

  test('denials are grouped by key, newest first, with the number of denials per key', () => {
    source().tick(10, [denial('a'), denial('b')]);
    source().tick(11, [{ ...denial('c'), repeats: 4 }]);
    source().tick(12, [{ ...denial('a'), repeats: 1, cost: 9 }]);
    expect(listed()).toEqual([
      ['a', 3],
      ['c', 5],
      ['b', 1],
    ]);
    expect(feed.denials.list()[0].last.cost).toBe(9);
    expect(feed.denials.received).toBe(9);
  });

  test('denials of a key under another policy or in shadow mode are listed separately', () => {
    const other = { ...denial('a'), policy: 'q' };
    source().tick(10, [denial('a'), other, { ...denial('a'), shadow: true }]);
    expect(listed()).toHaveLength(3);
  });

  test('the list of denials keeps at most 500 keys and counts the others', () => {
    for (let second = 10; second < 22; second++) {
      const keys = Array.from({ length: 50 }, (_, at) => denial(`k${second}-${at}`));
      source().tick(second, keys);
    }
    expect(listed()).toHaveLength(500);
    expect(listed()[499]).toEqual(['k12-0', 1]);
    expect(feed.denials).toMatchObject({ received: 600, dropped: 100 });
  });

  test('denials that the service does not attribute to a key are counted', () => {
    const key = { ...denial('a'), repeats: 3 };
    // Of seven further denials, three are repeats of the listed key.
    source().tick(10, [key], 7);
    expect(feed.denialsOmitted).toBe(4);
    expect(feed.denials.received).toBe(4);
  });

  test('a new filter of denials starts with an empty list and a new event stream', () => {
    source().tick(10, [denial('a')]);
    expect(feed.filter({ policy: 'p & q', key: 'user:*' })).toBe(true);
    expect(listed()).toEqual([]);
    expect(feed).toMatchObject({ denialsOmitted: 0, denialsSinceMs: undefined });
    source().hello(12);
    expect(feed.denialsSinceMs).toBe(START_MS + 12_000);
    expect(source().url).toBe('/v1/events?policy=p+%26+q&key=user%3A*');
    expect(FakeSource.opened[0].isClosed).toBe(true);
    expect(feed.state).toBe('live');
  });

  test('denials stay listed when the same filter is set again', () => {
    source().tick(10, [denial('a')]);
    expect(feed.filter({})).toBe(false);
    expect(FakeSource.opened).toHaveLength(1);
    expect(listed()).toHaveLength(1);
  });

  test('denials can be filtered without loading the history again', async () => {
    source().tick(10);
    feed.filter({ key: 'a' });
    source().hello(11);
    await settled();
    expect(api.series).toHaveBeenCalledTimes(1);
  });
});
