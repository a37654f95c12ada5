import { expect, test, vi } from 'vitest';
import type { Feed } from '../src/api/feed.ts';
import { MinuteSeries } from '../src/api/minute-series.ts';
import type { SeriesReport } from '../src/api/types.ts';

const START_MS = 1_763_200_020_000;

const report = (minutes: number): SeriesReport => {
  const zeros = new Array<number>(minutes).fill(0);
  const shadow = { shadowAllowed: zeros, shadowDenied: zeros };
  return {
    ...{ stepMs: 60_000, startMs: START_MS, sinceMs: START_MS, policies: [], omitted: 0 },
    total: { allowed: zeros, denied: zeros, ...shadow, degraded: zeros, fullest: zeros },
  };
};

function setUp() {
  const listeners = new Set<() => void>();
  let changed = (): void => {};
  const feed = {
    nowMs: START_MS,
    onChanged: (listener: () => void) => {
      changed = listener;
      return () => {};
    },
    listen: (listener: () => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const fetch = vi.fn(async (minutes: number) => report(minutes));
  const series = new MinuteSeries(feed as unknown as Feed, fetch, () => {});
  const tick = async (nowMs: number): Promise<void> => {
    feed.nowMs = nowMs;
    for (const listener of listeners) listener();
    await Promise.resolve();
  };
  return { series, fetch, tick, change: () => changed() };
}

test('the series by minute is loaded only while a page shows it, once per minute', async () => {
  const { series, fetch, tick } = setUp();
  await tick(START_MS + 1000);
  expect(fetch).not.toHaveBeenCalled();
  series.show(60);
  series.show(60);
  await vi.waitFor(() => expect(series.value?.length).toBe(60));
  for (let second = 2; second < 130; second++) await tick(START_MS + second * 1000);
  expect(fetch).toHaveBeenCalledTimes(3);
  series.show(undefined);
  await tick(START_MS + 600_000);
  series.show(1440);
  await vi.waitFor(() => expect(series.value?.length).toBe(1440));
  series.stop();
  await tick(START_MS + 1_200_000);
  expect(fetch).toHaveBeenCalledTimes(4);
});

test('the series by minute is loaded again after an error and after a reconnection', async () => {
  const { series, fetch, tick, change } = setUp();
  fetch.mockRejectedValueOnce(new Error('The service is unreachable'));
  series.show(60);
  await vi.waitFor(() => expect(series.problem?.message).toMatch(/unreachable/));
  await tick(START_MS + 1000);
  await vi.waitFor(() => expect(series.value).toBeDefined());
  expect(series.problem).toBeUndefined();
  await tick(START_MS + 2000);
  expect(fetch).toHaveBeenCalledTimes(2);
  change();
  await tick(START_MS + 3000);
  expect(fetch).toHaveBeenCalledTimes(3);
});

test('the series of the previous range is not shown while a new range loads', async () => {
  const { series } = setUp();
  series.show(60);
  await vi.waitFor(() => expect(series.value).toBeDefined());
  series.show(1440);
  expect(series.value).toBeUndefined();
});
