import { describe, expect, test } from 'vitest';
import type { KeyReport } from '../../src/api/types.ts';
import { KeyHistory } from '../../src/key/key-history.ts';
import { paramsOf } from '../../src/key/key-params.ts';
import { report } from './reports.ts';

const WINDOW_MS = 1000;

/** Takes reports in order. */
function historyOf(...reports: readonly Partial<KeyReport>[]): KeyHistory {
  const history = new KeyHistory();
  for (const fields of reports) {
    const current = report({
      windowMs: WINDOW_MS,
      entryCount: fields.entries?.length ?? 0,
      ...fields,
    });
    history.addReport(current, paramsOf(current, undefined));
  }
  return history;
}

const entry = (atMs: number, cost = 1) => ({ atMs, cost });

describe('the history of a log', () => {
  test('the history of a log keeps entries that have left the window', () => {
    const { entries } = historyOf(
      { atMs: 5100, entries: [entry(5000), entry(5100)] },
      { atMs: 6050, entries: [entry(5100), entry(6000)] },
    );
    expect(entries).toEqual([entry(5000), entry(5100), entry(6000)]);
  });

  test('the history of a log updates the cost of an entry', () => {
    const { entries } = historyOf(
      { atMs: 5100, entries: [entry(5000, 1)] },
      { atMs: 5200, entries: [entry(5000, 4)] },
    );
    expect(entries).toEqual([entry(5000, 4)]);
  });

  test('a reset removes log entries in the window and keeps earlier ones', () => {
    const { entries } = historyOf(
      { atMs: 5100, entries: [entry(4500), entry(5100)] },
      { atMs: 5600, entries: [], held: false },
    );
    expect(entries).toEqual([entry(4500)]);
  });

  test('the history of a log keeps entries that a truncated report omits', () => {
    const { entries } = historyOf(
      { atMs: 5100, entries: [entry(5000), entry(5050)] },
      { atMs: 5200, entries: [entry(5050), entry(5150)], entryCount: 3 },
    );
    expect(entries).toEqual([entry(5000), entry(5050), entry(5150)]);
  });

  test('the history of a log deletes entries older than the drawing', () => {
    const { entries } = historyOf(
      { atMs: 5000, entries: [entry(5000)] },
      { atMs: 9000, entries: [entry(9000)] },
    );
    expect(entries).toEqual([entry(9000)]);
  });

  test('the history of a log has at most 6000 entries', () => {
    const history = new KeyHistory();
    for (let second = 0; second < 20; second++) {
      const entries = Array.from({ length: 1000 }, (_, at) => entry(second * 1000 + at));
      const current = report({ windowMs: 10_000_000, atMs: second * 1000 + 999, entries });
      history.addReport(
        { ...current, entryCount: 1000 * (second + 1) },
        paramsOf(current, undefined),
      );
    }
    expect(history.entries).toHaveLength(6000);
    expect(history.entries.at(-1)).toEqual(entry(19_999));
  });
});

describe('the history of clock-aligned windows', () => {
  const fixed = { algorithm: 'fixed-window' } as const;
  const counter = { algorithm: 'sliding-counter' } as const;

  test('the history of a key keeps the counts of past fixed windows', () => {
    const { windows } = historyOf(
      { ...fixed, atMs: 5100, cells: [6000, 4, 0] },
      { ...fixed, atMs: 6100, cells: [7000, 2, 0] },
    );
    expect(windows).toEqual([
      { startMs: 5000, cost: 4 },
      { startMs: 6000, cost: 2 },
    ]);
  });

  test('the history of a key records admissions between two reports', () => {
    const { increases } = historyOf(
      { ...fixed, atMs: 5100, cells: [6000, 4, 0] },
      { ...fixed, atMs: 5900, cells: [6000, 7, 0] },
      { ...fixed, atMs: 5950, cells: [6000, 7, 0] },
      { ...fixed, atMs: 6100, cells: [7000, 2, 0] },
    );
    expect(increases).toEqual([
      { atMs: 6100, cost: 2, sinceMs: 5950 },
      { atMs: 5900, cost: 3, sinceMs: 5100 },
    ]);
  });

  test('a reset removes the current fixed window and keeps past ones', () => {
    const { windows } = historyOf(
      { ...fixed, atMs: 5900, cells: [6000, 4, 0] },
      { ...fixed, atMs: 6100, cells: [7000, 2, 0] },
      { ...fixed, atMs: 6200, cells: [], held: false },
    );
    expect(windows).toEqual([{ startMs: 5000, cost: 4 }]);
  });

  test('the history of a sliding counter has current and previous windows', () => {
    const { windows } = historyOf(
      { ...counter, atMs: 5100, cells: [7000, 4, 9] },
      { ...counter, atMs: 6100, cells: [8000, 1, 6] },
    );
    expect(windows).toEqual([
      { startMs: 4000, cost: 9 },
      { startMs: 5000, cost: 6 },
      { startMs: 6000, cost: 1 },
    ]);
  });
});

describe('the history of a token bucket', () => {
  const bucket = { algorithm: 'token-bucket', limit: 10 } as const;
  /** `tokens` right after a charge at a time. */
  const cells = (atMs: number, tokens: number) => [
    atMs + (10 - tokens) * 100,
    tokens * WINDOW_MS,
    atMs,
  ];

  test('each charge of a token bucket is recorded with the level before it', () => {
    const { charges, increases } = historyOf(
      { ...bucket, atMs: 5100, cells: cells(5000, 4) },
      { ...bucket, atMs: 5150, cells: cells(5000, 4) },
      { ...bucket, atMs: 5300, cells: cells(5200, 1) },
    );
    expect(charges).toEqual([
      { atMs: 5000, tokens: 4, before: 4 },
      { atMs: 5200, tokens: 1, before: 6 },
    ]);
    expect(increases).toEqual([{ atMs: 5200, cost: 5, sinceMs: 5150 }]);
  });

  test('the history of a token bucket is cleared by a reset, but not by refilling', () => {
    const charged = { ...bucket, atMs: 5100, cells: cells(5000, 4) };
    expect(historyOf(charged, { ...bucket, atMs: 5200, cells: [] }).charges).toEqual([]);
    expect(historyOf(charged, { ...bucket, atMs: 5700, cells: [] }).charges).toHaveLength(1);
  });
});

test('a change of the algorithm clears the history of a key', () => {
  const history = historyOf(
    { atMs: 5100, entries: [entry(5000)] },
    { atMs: 5200, algorithm: 'fixed-window', cells: [6000, 4, 0] },
  );
  expect([history.entries, history.windows.length, history.increases]).toEqual([[], 1, []]);
});
