import { PassThrough, Writable } from 'node:stream';
import type { Explanation } from 'sluice-traffic';
import { expect, test } from 'vitest';
import { keyLines } from '../src/key-report.ts';
import { loadLines } from '../src/load/summary.ts';
import { columns, Output, visible } from '../src/output.ts';
import { windowLines } from '../src/traffic/window-text.ts';

test('writeChunks waits for a slow reader and removes its listeners', async () => {
  let most = 0;
  const read: string[] = [];
  const slow = new Writable({
    highWaterMark: 1,
    write(chunk, _, done) {
      most = Math.max(most, slow.listenerCount('drain'), slow.listenerCount('close'));
      read.push(String(chunk));
      setImmediate(() => setImmediate(done));
    },
  });
  const pieces = Array.from({ length: 30 }, (_, number) => `line ${number}\n`);
  await new Output(slow, new PassThrough(), {}).writeChunks(pieces);
  expect(read).toEqual(pieces);
  expect(most).toBeLessThanOrEqual(1);
  expect([slow.listenerCount('drain'), slow.listenerCount('close')]).toEqual([0, 0]);
});

test('visible escapes control characters and keeps other text', () => {
  expect(visible('a\u001b[2Jb\nc\u009b1m\u202e')).toBe('a\\u{1b}[2Jb\\u{a}c\\u{9b}1m\\u{202e}');
  expect(visible('user:42 é 漢 🚰')).toBe('user:42 é 漢 🚰');
});

test('columns are as wide as their longest cell', () => {
  expect(columns([])).toEqual([]);
  expect(
    columns([
      ['a', 'bb', 'c'],
      ['aaa', 'b', 'cc'],
    ]),
  ).toEqual(['a    bb  c', 'aaa  b   cc']);
});

test('inspect states how many entries of a long log are shown', () => {
  const entries = Array.from({ length: 1000 }, (_, at) => ({ atMs: 99_000 + at, cost: 1 }));
  const report = {
    ...{ policy: 'long', key: 'k', algorithm: 'sliding-log', limit: 200_000 },
    ...{ windowMs: 100_000, used: 100_000, remaining: 100_000, resetAfterMs: 99_999, entries },
    atMs: 100_000,
  };
  const plain = (_: string, text: string) => text;
  const cut = keyLines({ ...report, entryCount: 100_000 }, plain);
  expect(cut).toContain('1,000 of 100,000 entries shown');
  expect(cut.at(-1)).toBe('and 99,990 older');
  const whole = keyLines({ ...report, entryCount: 1000 }, plain);
  expect(whole.join('\n')).not.toContain('entries shown');
});

test('an explanation states how many entries of a long log are shown', () => {
  const explained = {
    ...{ kind: 'explain', policy: 'long', key: 'k', algorithm: 'sliding-log', capacity: 200_000 },
    ...{ limit: 200_000, windowMs: 100_000, bucketMs: 1, atMs: 100_000, cost: 1, allowed: true },
    ...{ remaining: 100_000, retryAfterMs: 0, resetAfterMs: 99_999, inLog: false, cells: [] },
    ...{ used: 100_000, entries: [{ atMs: 99_000, cost: 1 }], requests: [] },
  } as unknown as Explanation;
  const lines = (entryCount: number) =>
    windowLines({ ...explained, entryCount }, (_, text) => text).join('\n');
  expect(lines(100_000)).toContain('1 of 100,000 entries shown');
  expect(lines(1)).not.toContain('entries shown');
});

test('inspect labels an entry of the current bucket instead of stating its age', () => {
  const report = {
    ...{ policy: 'daily', key: 'team:7', algorithm: 'sliding-buckets', limit: 10 },
    ...{ windowMs: 86_400_000, used: 3, remaining: 7, resetAfterMs: 86_400_000 + 500_000 },
    entries: [
      { atMs: 900_000, cost: 1 },
      { atMs: 1_800_000, cost: 2 },
    ],
    atMs: 1_300_000,
  };
  const rows = keyLines(report, (_, text) => text).slice(-2);
  expect(rows.map((row) => row.split(/ {2,}/))).toEqual([
    ['current bucket', '2', 'in 1 d 1 h'],
    ['6 min 40 s ago', '1', 'in 23 h 54 min'],
  ]);
});

test('the summary of a load run warns if the last request was more than 250 ms late', () => {
  const report = {
    ...{ sent: 10, responses: 10, statuses: { 200: 10 }, failures: {}, clients: 2 },
    ...{ hasMoreClients: false, tookMs: 1000, firstDeniedMs: undefined, denied: [] },
  };
  const summary = (lateMs: number) => loadLines({ ...report, lateMs }, (_, text) => text);
  const warning = 'Sending fell behind: the last request was 251 ms late.';
  expect(summary(251)).toEqual([...summary(250), warning]);
});
