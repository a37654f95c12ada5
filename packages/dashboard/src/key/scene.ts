/**
 * The content of the drawing of a key at the time of a report: the visible time span, the
 * admissions in it, and which of these have expired. Values are times and costs; `window-view.ts`
 * converts them to pixels.
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

interface BaseScene {
  /** The visible time span. */
  readonly span: Span;
  /** The time of the report. */
  readonly nowMs: number;
  /** The current window; a token bucket has none. */
  readonly window: Span | undefined;
  /** Admissions before this time have expired and are drawn pale. */
  readonly solidFromMs: number;
  /** Boundaries of clock-aligned windows. */
  readonly boundaries: readonly number[];
  /** The value at the top of the drawing. */
  readonly top: number;
  /** Value of the limit line. Undefined for entries, which are drawn one by one, not added up. */
  readonly limit: number | undefined;
}

/** The entries of a sliding log as vertical lines, or of sliding buckets as boxes. */
export interface TickScene extends BaseScene {
  readonly kind: 'ticks';
  readonly entries: readonly Entry[];
  /** Length of a bucket in ms; 0 for a sliding log. A bucket ends at the time of its entry. */
  readonly bucketMs: number;
  /** The report does not list entries before this time; undefined if it lists all. */
  readonly unlistedUntilMs: number | undefined;
}

/** The costs of clock-aligned windows as bars. */
export interface BarScene extends BaseScene {
  readonly kind: 'bars';
  readonly bars: readonly WindowCount[];
}

export interface Point {
  readonly atMs: number;
  readonly tokens: number;
}

/** The tokens of a bucket as a curve. After `nowMs`, it shows the refill without further calls. */
export interface LevelScene extends BaseScene {
  readonly kind: 'level';
  readonly points: readonly Point[];
  /** Tokens at `nowMs`. */
  readonly level: number;
}

export type Scene = TickScene | BarScene | LevelScene;

/** Visible time before the window, in windows. Admissions in it have expired. */
const BEHIND_WINDOWS = 1 / 3;
/** Visible time after `nowMs`, in windows. */
const AHEAD_WINDOWS = 0.02;

export function buildScene(
  description: KeyDescription,
  params: LimitParams,
  report: KeyReport,
  history: KeyHistory,
): Scene {
  const nowMs = report.atMs;
  switch (description.shape) {
    case 'entries':
      return tickScene(description, params, report, history, nowMs);
    case 'windows':
      return barScene(description, params, history, nowMs);
    case 'level':
      return levelScene(description, params, history, nowMs);
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
  const isTruncated = report.entryCount > report.entries.length && (entries[0]?.atMs ?? 0) > edgeMs;
  return {
    kind: 'ticks',
    span: {
      fromMs: edgeMs - BEHIND_WINDOWS * windowMs,
      toMs: nowMs + Math.max(entrySpanMs, AHEAD_WINDOWS * windowMs),
    },
    nowMs,
    window: { fromMs: edgeMs, toMs: nowMs },
    solidFromMs: countsFromMs,
    boundaries: [],
    top: entries.reduce((most, { cost }) => Math.max(most, cost), 1),
    limit: undefined,
    entries,
    bucketMs: entrySpanMs === 1 ? 0 : entrySpanMs,
    unlistedUntilMs: isTruncated ? entries[0].atMs : undefined,
  };
}

/** Returns the starts of clock-aligned windows within a time span. */
function boundariesIn({ fromMs, toMs }: Span, windowMs: number): readonly number[] {
  const firstMs = Math.ceil(fromMs / windowMs) * windowMs;
  const count = Math.max(0, Math.floor((toMs - firstMs) / windowMs) + 1);
  return Array.from({ length: count }, (_, at) => firstMs + at * windowMs);
}

/**
 * Returns the clock-aligned windows as bars. With fixed-window, the current one is shaded. With
 * sliding-counter, two of them count, and the shaded window slides over them.
 */
function barScene(
  { windows }: WindowsDescription,
  { windowMs, capacity }: LimitParams,
  history: KeyHistory,
  nowMs: number,
): BarScene {
  const isSliding = windows.length > 1;
  const fromMs = isSliding ? nowMs - windowMs : windows[0].startMs;
  const behindWindows = isSliding ? 2 : 1 + BEHIND_WINDOWS;
  const span = { fromMs: nowMs - behindWindows * windowMs, toMs: nowMs + windowMs };
  const nonEmpty = windows.filter(({ cost }) => cost > 0);
  return {
    kind: 'bars',
    ...{ span, nowMs },
    bars: [...history.windows.filter(({ startMs }) => startMs < windows[0].startMs), ...nonEmpty],
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
