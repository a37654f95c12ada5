/** The stream as the pages get it, with a service and a browser's EventSource that are made up. */
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

  say(event: string, data?: unknown): void {
    if (!this.isClosed) {
      this.dispatchEvent(new MessageEvent(event, { data: JSON.stringify(data) }));
    }
  }

  hello(second: number, startedAtMs = START_MS): void {
    this.say('hello', { version: '1', startedAtMs, atMs: START_MS + second * 1000, processes: 1 });
  }

  tick(second: number, denials: readonly Denial[] = []): void {
    const zeros = { denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 };
    const counts = { allowed: second, ...zeros, fullest: null };
    const tick: Tick = {
      ...{ atMs: START_MS + second * 1000, total: counts, policies: [], omitted: 0 },
      ...{ store: { kind: 'memory', up: true }, decisions: {}, processes: 1 },
      ...{ denials, denialsOmitted: denials.length },
    };
    this.say('tick', tick);
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
    ...{ total: { ...total, fullest: zeros.map(() => null) }, policies: [], omitted: 0 },
  };
};

const api = {
  series: vi.fn<Api['series']>(),
  session: vi.fn<Api['session']>(),
  whyNotEvents: vi.fn<Api['whyNotEvents']>(),
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

describe('a stream that is there', () => {
  test('is live with its first tick, and follows what the service remembers', () => {
    expect(feed.state).toBe('connecting');
    source().tick(10);
    expect(feed.state).toBe('live');
    expect(newest(feed, 3)).toEqual([8, 9, 10]);
    expect(api.series).toHaveBeenCalledTimes(1);
  });

  test('knows what time it is for the service', () => {
    expect(feed.nowMs).toBe(START_MS + 10_000);
  });

  test('has seconds filled in that it was not told', async () => {
    source().tick(10);
    api.series.mockResolvedValue(seriesUpTo(14));
    source().tick(14);
    await settled();
    expect(newest(feed, 6)).toEqual([9, 10, 11, 12, 13, 14]);
  });

  test('loses no second that is told while it asks for those before', async () => {
    source().tick(10);
    let answer = (_report: SeriesReport): void => {};
    api.series.mockImplementation(() => new Promise((resolve) => (answer = resolve)));
    source().tick(13);
    source().tick(14);
    answer(seriesUpTo(13));
    await settled();
    expect(newest(feed, 5)).toEqual([10, 11, 12, 13, 14]);
  });

  test('tells changes', () => {
    const heard = vi.fn();
    const stop = feed.onChanged(heard);
    source().say('changed', { what: 'overrides' });
    stop();
    source().say('changed', { what: 'policies' });
    expect(heard.mock.calls).toEqual([[{ what: 'overrides' }]]);
  });
});

describe('a stream that ends', () => {
  test.each([
    ['says so', () => source().say('end', { why: 'stopping' })],
    ['breaks', () => source().dispatchEvent(new Event('error'))],
    ['says nothing more', () => vi.advanceTimersByTime(4000)],
  ])('because it %s is lost since then, opened again and filled in', async (_, end) => {
    source().tick(10);
    end();
    expect(feed.state).toBe('lost');
    expect(feed.lostAtMs).toBe(Date.now());
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

  test('is tried again as long as the service is away', async () => {
    api.session.mockRejectedValue(new UnreachableError());
    source().dispatchEvent(new Event('error'));
    const { lostAtMs } = feed;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(FakeSource.opened).toHaveLength(1);
    expect(api.session.mock.calls.length).toBeGreaterThanOrEqual(4);
    expect(feed).toMatchObject({ state: 'lost', lostAtMs });
    api.session.mockResolvedValue({ required: false, signedIn: true });
    await vi.advanceTimersByTimeAsync(2000);
    expect(FakeSource.opened).toHaveLength(2);
  });

  test('with the session is not opened again', async () => {
    api.session.mockResolvedValue({ required: true, signedIn: false });
    source().say('end', { why: 'expired' });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(api.onSignedOut).toHaveBeenCalledTimes(1);
    expect(FakeSource.opened).toHaveLength(1);
  });

  test('because somebody signs out stays closed, also if an answer is on its way', async () => {
    let answer = (): void => {};
    api.session.mockImplementation(
      () => new Promise((resolve) => (answer = () => resolve({ required: true, signedIn: true }))),
    );
    source().dispatchEvent(new Event('error'));
    await vi.advanceTimersByTimeAsync(2000);
    feed.close();
    answer();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(FakeSource.opened).toHaveLength(1);
  });

  test('before it began says why it was refused', async () => {
    const refusal = new ApiError(503, 'ERR_TOO_MANY_STREAMS', 'Expected at most 32 streams');
    api.whyNotEvents.mockResolvedValue(refusal);
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
  test('are the newest first, and counted beyond those that are kept', () => {
    source().tick(10, [denial('a'), denial('b')]);
    source().tick(11, [denial('c')]);
    expect(feed.denials.map(({ key }) => key)).toEqual(['c', 'b', 'a']);
    for (let second = 12; second < 32; second++) {
      source().tick(
        second,
        Array.from({ length: 50 }, () => denial('x')),
      );
    }
    expect(feed.denials).toHaveLength(500);
    expect(feed).toMatchObject({ denialsTold: 1003, denialsOmitted: 1003 });
  });

  test('are filtered by the service, and those before the filter are gone', () => {
    source().tick(10, [denial('a')]);
    expect(feed.filter({ policy: 'p & q', key: 'user:*' })).toBe(true);
    expect(feed).toMatchObject({ denials: [], denialsTold: 0, denialsOmitted: 0 });
    expect(source().url).toBe('/v1/events?policy=p+%26+q&key=user%3A*');
    expect(FakeSource.opened[0].isClosed).toBe(true);
    expect(feed.state).toBe('live');
  });

  test('stay as they are when the filter is the same again', () => {
    source().tick(10, [denial('a')]);
    expect(feed.filter({})).toBe(false);
    expect(FakeSource.opened).toHaveLength(1);
    expect(feed.denials).toHaveLength(1);
  });

  test('that are filtered anew cost no asking for the history', async () => {
    source().tick(10);
    feed.filter({ key: 'a' });
    source().hello(11);
    await settled();
    expect(api.series).toHaveBeenCalledTimes(1);
  });
});
