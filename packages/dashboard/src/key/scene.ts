/**
 * What the drawing of a key shows at a time: the visible time span, its content, and which part of
 * it counts. Values are times and costs; `window-view` converts them to pixels.
 */
import type {
  EntriesDescription,
  KeyDescription,
  LevelDescription,
  WindowsDescription,
} from 'sluice/engine';
import type { KeyReport, LimitParams } from '../api/types.ts';
import type { Entry, KeyHistory, WindowCount } from './key-history.ts';

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Common {
  readonly span: Span;
  readonly nowMs: number;
  /** The current window; a token bucket has none. */
  readonly window: Span | undefined;
  /** Admissions before this time no longer count. */
  readonly solidFromMs: number;
  /** Boundaries of clock-aligned windows. */
  readonly boundaries: readonly number[];
  /** The value at the top of the drawing. */
  readonly top: number;
  /** The limit line; entries of single calls have none. */
  readonly limit: number | undefined;
}

/** Admissions at their time, or in buckets that end at it. */
export interface TickScene extends Common {
  readonly kind: 'ticks';
  readonly entries: readonly Entry[];
  /** Length of a bucket; 0 without buckets. */
  readonly bucketMs: number;
  /** Entries before this time are not in the report. */
  readonly unlistedUntilMs: number | undefined;
}

/** Counts of clock-aligned windows. */
export interface BarScene extends Common {
  readonly kind: 'bars';
  readonly bars: readonly WindowCount[];
}

export interface Point {
  readonly atMs: number;
  readonly tokens: number;
}

/** The token level; after `nowMs`, the level without further calls. */
export interface LevelScene extends Common {
  readonly kind: 'level';
  readonly points: readonly Point[];
  readonly level: number;
}

export type Scene = TickScene | BarScene | LevelScene;

/** Part of a window for which expired admissions stay visible. */
const BEHIND = 1 / 3;
const AHEAD = 0.02;

export function buildScene(
  described: KeyDescription,
  params: LimitParams,
  report: KeyReport,
  history: KeyHistory,
  nowMs: number,
): Scene {
  switch (described.shape) {
    case 'entries':
      return tickScene(described, params, report, history, nowMs);
    case 'windows':
      return barScene(described, params, history, nowMs);
    case 'level':
      return levelScene(described, params, history, nowMs);
  }
}

function tickScene(
  { entrySpanMs, countsFromMs }: EntriesDescription,
  { windowMs }: LimitParams,
  report: KeyReport,
  { entries }: KeyHistory,
  nowMs: number,
): TickScene {
  const edgeMs = nowMs - windowMs;
  const isCut = report.entryCount > report.entries.length && (entries[0]?.atMs ?? 0) > edgeMs;
  return {
    kind: 'ticks',
    span: {
      fromMs: edgeMs - BEHIND * windowMs,
      toMs: nowMs + Math.max(entrySpanMs, AHEAD * windowMs),
    },
    nowMs,
    window: { fromMs: edgeMs, toMs: nowMs },
    solidFromMs: countsFromMs,
    boundaries: [],
    top: entries.reduce((most, { cost }) => Math.max(most, cost), 1),
    limit: undefined,
    entries,
    bucketMs: entrySpanMs === 1 ? 0 : entrySpanMs,
    unlistedUntilMs: isCut ? entries[0].atMs : undefined,
  };
}

/** Returns the starts of clock-aligned windows within a time span. */
function boundariesIn({ fromMs, toMs }: Span, windowMs: number): readonly number[] {
  const firstMs = Math.ceil(fromMs / windowMs) * windowMs;
  const count = Math.max(0, Math.floor((toMs - firstMs) / windowMs) + 1);
  return Array.from({ length: count }, (_, at) => firstMs + at * windowMs);
}

/** With several counted windows, the current one slides over them. */
function barScene(
  { windows }: WindowsDescription,
  { windowMs, capacity }: LimitParams,
  history: KeyHistory,
  nowMs: number,
): BarScene {
  const isSliding = windows.length > 1;
  const fromMs = isSliding ? nowMs - windowMs : windows[0].startMs;
  const behind = isSliding ? 2 : 1 + BEHIND;
  const span = { fromMs: nowMs - behind * windowMs, toMs: nowMs + windowMs };
  const counted = windows.filter(({ cost }) => cost > 0);
  return {
    kind: 'bars',
    ...{ span, nowMs },
    bars: [...history.windows.filter(({ startMs }) => startMs < windows[0].startMs), ...counted],
    window: { fromMs, toMs: fromMs + windowMs },
    solidFromMs: fromMs,
    boundaries: boundariesIn(span, windowMs),
    top: history.windows.reduce((most, { cost }) => Math.max(most, cost), capacity),
    limit: capacity,
  };
}

function levelScene(
  { tokens: level, msPerToken }: LevelDescription,
  { windowMs, capacity }: LimitParams,
  { charges }: KeyHistory,
  nowMs: number,
): LevelScene {
  const span = { fromMs: nowMs - windowMs, toMs: nowMs + windowMs / 2 };
  const fullAfter = ({ atMs, tokens }: Point): Point => {
    return { atMs: atMs + (capacity - tokens) * msPerToken, tokens: capacity };
  };
  const points = charges.flatMap(({ atMs, tokens, before }, at): Point[] => {
    const full = at === 0 ? undefined : fullAfter(charges[at - 1]);
    const charge = [
      { atMs, tokens: before },
      { atMs, tokens },
    ];
    return full !== undefined && full.atMs < atMs ? [full, ...charge] : charge;
  });
  const last = points[points.length - 1] ?? { atMs: span.fromMs, tokens: capacity };
  const full = fullAfter(last);
  const begin = points.length === 0 ? [last] : points;
  return {
    kind: 'level',
    ...{ span, nowMs, level, window: undefined, solidFromMs: span.fromMs, boundaries: [] },
    points: [...begin, full, { atMs: Math.max(full.atMs, span.toMs), tokens: capacity }],
    top: capacity,
    limit: capacity,
  };
}
