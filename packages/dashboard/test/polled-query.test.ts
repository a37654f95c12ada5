import { expect, test, vi } from 'vitest';
import { PolledQuery } from '../src/api/polled-query.ts';

test('an answer that comes after a newer question is not looked at', async () => {
  const answers: ((value: string) => void)[] = [];
  const redraw = vi.fn();
  const asked = new PolledQuery<string>(
    () => new Promise((resolve) => answers.push(resolve)),
    redraw,
  );
  const both = [asked.refresh(), asked.refresh()];
  answers[1]('new');
  answers[0]('old');
  await Promise.all(both);
  expect(asked.value).toBe('new');
  expect(redraw).toHaveBeenCalledTimes(1);
});

test('what cannot be asked leaves the last answer, and says why', async () => {
  const ask = vi.fn<() => Promise<number>>().mockResolvedValueOnce(7);
  const asked = new PolledQuery(ask, () => {});
  await asked.refresh();
  ask.mockRejectedValueOnce(new Error('away'));
  await asked.refresh();
  expect(asked).toMatchObject({ value: 7, problem: { message: 'away' } });
  ask.mockResolvedValueOnce(8);
  await asked.refresh();
  expect(asked).toMatchObject({ value: 8, problem: undefined });
});

test('who has left is not drawn again', async () => {
  const redraw = vi.fn();
  const asked = new PolledQuery(async () => 1, redraw);
  const answer = asked.refresh();
  asked.leave();
  await answer;
  expect(asked.value).toBeUndefined();
  expect(redraw).not.toHaveBeenCalled();
});

test('numbers that are drawn every second are drawn at once only when they are new', async () => {
  const redraw = vi.fn();
  const asked = new PolledQuery(async () => 1, redraw);
  await asked.refreshQuietly();
  await asked.refreshQuietly();
  expect(redraw).toHaveBeenCalledTimes(1);
});
