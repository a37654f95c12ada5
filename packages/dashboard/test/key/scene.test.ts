import { describe, expect, test } from 'vitest';
import type { KeyReport, PolicyDefinition } from '../../src/api/types.ts';
import { KeyHistory } from '../../src/key/key-history.ts';
import { describeAt, paramsOf } from '../../src/key/key-params.ts';
import { type BarScene, buildScene, type LevelScene, type TickScene } from '../../src/key/scene.ts';
import { createScale, heightOf, ticksPath } from '../../src/key/window-shapes.ts';
import { report } from './reports.ts';

const WINDOW_MS = 6000;
const NOW_MS = 600_000;

function scene<S>(
  fields: Partial<KeyReport>,
  nowMs = NOW_MS,
  policy?: Partial<PolicyDefinition>,
  earlierMs = nowMs,
): S {
  const current = report({
    ...{ windowMs: WINDOW_MS, atMs: nowMs, entryCount: fields.entries?.length ?? 0 },
    ...fields,
  });
  const params = paramsOf(current, policy as PolicyDefinition);
  const history = new KeyHistory();
  if (earlierMs !== nowMs) history.addReport({ ...current, atMs: earlierMs }, params);
  history.addReport(current, params);
  return buildScene(describeAt(current, params), params, current, history) as S;
}

describe('the scene of a log', () => {
  const entries = [
    { atMs: NOW_MS - 5000, cost: 2 },
    { atMs: NOW_MS - 1000, cost: 8 },
  ];

  test('a log scene spans the window and a margin on both sides', () => {
    const { span, window, solidFromMs, top, limit } = scene<TickScene>({ entries });
    expect(window).toEqual({ fromMs: NOW_MS - WINDOW_MS, toMs: NOW_MS });
    expect(solidFromMs).toBe(NOW_MS - WINDOW_MS + 1);
    expect(span.fromMs).toBe(NOW_MS - 8000);
    expect(span.toMs).toBeGreaterThan(NOW_MS);
    expect([top, limit]).toEqual([8, undefined]);
  });

  test('a log scene slides with time and keeps expired entries', () => {
    const later = scene<TickScene>({ entries }, NOW_MS + 1500);
    expect(later.solidFromMs).toBe(NOW_MS + 1500 - WINDOW_MS + 1);
    // The first entry has expired and is still visible.
    expect(later.entries).toEqual(entries);
    expect(later.entries[0].atMs).toBeLessThan(later.solidFromMs);
    expect(later.entries[0].atMs).toBeGreaterThan(later.span.fromMs);
  });

  test('a log scene marks the part without listed entries', () => {
    expect(scene<TickScene>({ entries }).unlistedUntilMs).toBeUndefined();
    const cut = scene<TickScene>({ entries, entryCount: 10_000 });
    expect(cut.unlistedUntilMs).toBe(NOW_MS - 5000);
  });

  test('sliding-buckets counts a whole bucket while its last millisecond is in the window', () => {
    const fields = { algorithm: 'sliding-buckets', entries: [] } as const;
    const policy = { buckets: 6 };
    const edges = [0, 998, 999, 1000].map(
      (afterMs) => scene<TickScene>(fields, NOW_MS + afterMs, policy).solidFromMs,
    );
    const edgeMs = NOW_MS - WINDOW_MS;
    expect(edges).toEqual([edgeMs, edgeMs, edgeMs + 1000, edgeMs + 1000]);
  });
});

describe('the scene of clock-aligned windows', () => {
  test('a fixed window is drawn as counting until its end', () => {
    const fields = { algorithm: 'fixed-window', cells: [NOW_MS + WINDOW_MS, 7, 0] } as const;
    const now = scene<BarScene>(fields, NOW_MS + 2000);
    expect(now.bars).toMatchObject([{ startMs: NOW_MS, cost: 7 }]);
    expect([now.solidFromMs, now.limit, now.top]).toEqual([NOW_MS, 10, 10]);
    expect(now.boundaries).toEqual([NOW_MS - WINDOW_MS, NOW_MS, NOW_MS + WINDOW_MS]);
    const next = scene<BarScene>(fields, NOW_MS + WINDOW_MS, undefined, NOW_MS);
    expect(next.solidFromMs).toBe(NOW_MS + WINDOW_MS);
    expect(next.bars).toEqual([{ startMs: NOW_MS, cost: 7 }]);
  });

  test('the window of a sliding counter slides over the previous window', () => {
    const cells = [NOW_MS + 2 * WINDOW_MS, 3, 8];
    const { bars, window, solidFromMs } = scene<BarScene>(
      { algorithm: 'sliding-counter', cells },
      NOW_MS + 1500,
    );
    expect(bars).toMatchObject([
      { startMs: NOW_MS - WINDOW_MS, cost: 8 },
      { startMs: NOW_MS, cost: 3 },
    ]);
    expect(window).toEqual({ fromMs: NOW_MS + 1500 - WINDOW_MS, toMs: NOW_MS + 1500 });
    expect(solidFromMs).toBe(window!.fromMs);
  });

  test('the bars of a fixed window scale to a count above the limit', () => {
    const cells = [NOW_MS + WINDOW_MS, 25, 0];
    expect(scene<BarScene>({ algorithm: 'fixed-window', cells }).top).toBe(25);
  });
});

describe('the scene of a token bucket', () => {
  const cells = [NOW_MS + 3000, 4 * WINDOW_MS, NOW_MS - 600];
  const fields: Partial<KeyReport> = { algorithm: 'token-bucket', limit: 10, cells };

  test('the token level rises to the capacity and stays there', () => {
    const { points, level, top } = scene<LevelScene>(fields);
    expect(level).toBe(5);
    expect(top).toBe(10);
    expect(points).toEqual([
      { atMs: NOW_MS - 600, tokens: 4 },
      { atMs: NOW_MS - 600, tokens: 4 },
      { atMs: NOW_MS + 3000, tokens: 10 },
      { atMs: NOW_MS + 3000, tokens: 10 },
    ]);
  });

  test('the level of a full token bucket is drawn as a constant line', () => {
    const { points, level } = scene<LevelScene>({ ...fields, cells: [] });
    expect(level).toBe(10);
    expect(points.every(({ tokens }) => tokens === 10)).toBe(true);
  });
});

describe('pixel coordinates', () => {
  test('the pixel coordinates of a key page are linear in time', () => {
    const { x, perMs } = createScale({ fromMs: 1000, toMs: 3000 }, 500);
    expect([x(1000), x(2000), x(3000), perMs]).toEqual([0, 250, 500, 0.25]);
  });

  test('the path of log ticks is relative to the newest entry', () => {
    const entries = [
      { atMs: 1000, cost: 1 },
      { atMs: 2000, cost: 4 },
    ];
    const drawn = { entries, bucketMs: 0, top: 4 } as unknown as TickScene;
    expect(ticksPath(drawn, 0.1)).toBe('M-100 158v-33M0 158v-132');
    expect(ticksPath({ ...drawn, entries: [] }, 0.1)).toBe('');
    const buckets = ticksPath({ ...drawn, bucketMs: 500 }, 0.1);
    expect(buckets.match(/z/g)).toHaveLength(2);
  });

  test('positive values are drawn with a minimum height', () => {
    expect([heightOf(0, 10), heightOf(1, 1000, 5), heightOf(30, 10)]).toEqual([0, 5, 132]);
  });
});
