import { expect, test, vi } from 'vitest';
import { PolledQuery } from '../src/api/polled-query.ts';

test('a polled query discards the result of an older request', async () => {
  const resolvers: ((value: string) => void)[] = [];
  const redraw = vi.fn();
  const query = new PolledQuery<string>(
    () => new Promise((resolve) => resolvers.push(resolve)),
    redraw,
  );
  const both = [query.refresh(), query.refresh()];
  resolvers[1]('new');
  resolvers[0]('old');
  await Promise.all(both);
  expect(query.value).toBe('new');
  expect(redraw).toHaveBeenCalledTimes(1);
});

test('a polled query keeps its last value and reports the error if a request fails', async () => {
  const fetch = vi.fn<() => Promise<number>>().mockResolvedValueOnce(7);
  const query = new PolledQuery(fetch, () => {});
  await query.refresh();
  fetch.mockRejectedValueOnce(new Error('unreachable'));
  await query.refresh();
  expect(query).toMatchObject({ value: 7, problem: { message: 'unreachable' } });
  fetch.mockResolvedValueOnce(8);
  await query.refresh();
  expect(query).toMatchObject({ value: 8, problem: undefined });
});

test('a cancelled polled query sets no value and does not redraw the page', async () => {
  const redraw = vi.fn();
  const query = new PolledQuery(async () => 1, redraw);
  const refreshed = query.refresh();
  query.cancel();
  await refreshed;
  expect(query.value).toBeUndefined();
  expect(redraw).not.toHaveBeenCalled();
});

test('refreshQuietly redraws the page only for the first value', async () => {
  const redraw = vi.fn();
  const query = new PolledQuery(async () => 1, redraw);
  await query.refreshQuietly();
  await query.refreshQuietly();
  expect(redraw).toHaveBeenCalledTimes(1);
});
