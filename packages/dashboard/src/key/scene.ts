/**
 * What there is to be drawn of a key at a time: the stretch of time that is shown, what lies in it,
 * and from where on it counts. Times are times and values are costs; pixels come later.
 */
import type { KeyReport } from '../api/types.ts';
import { counterParts, type KeyFacts, tokensAt, usedAt, windowStart } from './key-facts.ts';
import type { CountedWindow, Entry, WindowMemory } from './memory.ts';

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Common {
  readonly span: Span;
  readonly nowMs: number;
  /** The window that counts; of a token bucket there is none. */
  readonly window: Span | undefined;
  /** What lies before this counts no more. */
  readonly solidFromMs: number;
  /** Where windows of the clock meet. */
  readonly boundaries: readonly number[];
  /** The value that is drawn as high as the picture. */
  readonly top: number;
  /** The limit as a line; ticks of single calls have none to be held against. */
  readonly limit: number | undefined;
}

/** Admissions, each at its time, or in a bucket that ends with it. */
export interface TickScene extends Common {
  readonly kind: 'ticks';
  readonly entries: readonly Entry[];
  /** How long a bucket is; 0 if there are none. */
  readonly bucketMs: number;
  /** Up to here there may be more than is told. */
  readonly unlistedUntilMs: number | undefined;
}

/** Counts of windows of the clock. */
export interface BarScene extends Common {
  readonly kind: 'bars';
  readonly bars: readonly CountedWindow[];
}

export interface Point {
  readonly atMs: number;
  readonly tokens: number;
}

/** A level that rises and is taken from; right of now is what comes if nobody takes. */
export interface LevelScene extends Common {
  readonly kind: 'level';
  readonly points: readonly Point[];
  readonly level: number;
}

export type Scene = TickScene | BarScene | LevelScene;

/** What has left the window is seen for another third of it. */
const BEHIND = 1 / 3;
const AHEAD = 0.02;

export function sceneOf(
  facts: KeyFacts,
  report: KeyReport,
  memory: WindowMemory,
  nowMs: number,
): Scene {
  switch (facts.algorithm) {
    case 'fixed-window':
      return fixedScene(facts, report, memory, nowMs);
    case 'sliding-counter':
      return counterScene(facts, report, memory, nowMs);
    case 'token-bucket':
      return levelScene(facts, report, memory, nowMs);
    default:
      return logScene(facts, report, memory, nowMs);
  }
}

function logScene(
  { algorithm, windowMs, bucketMs }: KeyFacts,
  report: KeyReport,
  { entries }: WindowMemory,
  nowMs: number,
): TickScene {
  const isBuckets = algorithm === 'sliding-buckets';
  const edgeMs = nowMs - windowMs;
  const isCut = report.entryCount > report.entries.length && (entries[0]?.atMs ?? 0) > edgeMs;
  const aheadMs = isBuckets ? Math.max(bucketMs, AHEAD * windowMs) : AHEAD * windowMs;
  return {
    kind: 'ticks',
    span: { fromMs: edgeMs - BEHIND * windowMs, toMs: nowMs + aheadMs },
    nowMs,
    window: { fromMs: edgeMs, toMs: nowMs },
    // A bucket counts whole while its last millisecond is inside.
    solidFromMs: isBuckets ? Math.floor((edgeMs + 1) / bucketMs) * bucketMs : edgeMs,
    boundaries: [],
    top: entries.reduce((most, { cost }) => Math.max(most, cost), 1),
    limit: undefined,
    entries,
    bucketMs: isBuckets ? bucketMs : 0,
    unlistedUntilMs: isCut ? entries[0].atMs : undefined,
  };
}

const topOf = (limit: number, counts: readonly CountedWindow[]): number =>
  counts.reduce((most, { count }) => Math.max(most, count), limit);

/** Where windows of the clock begin in a stretch of time. */
function boundariesIn({ fromMs, toMs }: Span, windowMs: number): readonly number[] {
  const firstMs = Math.ceil(fromMs / windowMs) * windowMs;
  const count = Math.max(0, Math.floor((toMs - firstMs) / windowMs) + 1);
  return Array.from({ length: count }, (_, at) => firstMs + at * windowMs);
}

function fixedScene(
  facts: KeyFacts,
  report: KeyReport,
  { windows }: WindowMemory,
  nowMs: number,
): BarScene {
  const { windowMs, capacity } = facts;
  const startMs = windowStart(windowMs, nowMs);
  const span = { fromMs: nowMs - (1 + BEHIND) * windowMs, toMs: nowMs + windowMs };
  const used = usedAt(facts, report, nowMs);
  const bars = windows.filter((each) => each.startMs !== startMs);
  return {
    kind: 'bars',
    ...{ span, nowMs, bars: used > 0 ? [...bars, { startMs, count: used }] : bars },
    window: { fromMs: startMs, toMs: startMs + windowMs },
    solidFromMs: startMs,
    boundaries: boundariesIn(span, windowMs),
    top: topOf(capacity, windows),
    limit: capacity,
  };
}

function counterScene(
  facts: KeyFacts,
  report: KeyReport,
  { windows }: WindowMemory,
  nowMs: number,
): BarScene {
  const { windowMs, capacity } = facts;
  const { startMs, current, previous } = counterParts(facts, report.cells, nowMs);
  const span = { fromMs: nowMs - 2 * windowMs, toMs: nowMs + windowMs };
  const known = windows.filter((each) => each.startMs < startMs - windowMs);
  const counted = [
    { startMs: startMs - windowMs, count: previous },
    { startMs, count: current },
  ].filter(({ count }) => count > 0);
  return {
    kind: 'bars',
    ...{ span, nowMs, bars: [...known, ...counted] },
    window: { fromMs: nowMs - windowMs, toMs: nowMs },
    solidFromMs: nowMs - windowMs,
    boundaries: boundariesIn(span, windowMs),
    top: topOf(capacity, windows),
    limit: capacity,
  };
}

function levelScene(
  facts: KeyFacts,
  report: KeyReport,
  { charges }: WindowMemory,
  nowMs: number,
): LevelScene {
  const { windowMs, capacity } = facts;
  const span = { fromMs: nowMs - windowMs, toMs: nowMs + windowMs / 2 };
  const points = charges.flatMap(({ atMs, tokens, before }, at): Point[] => {
    const full = at === 0 ? undefined : fullAt(facts, charges[at - 1]);
    const taken = [
      { atMs, tokens: before },
      { atMs, tokens },
    ];
    return full !== undefined && full.atMs < atMs ? [full, ...taken] : taken;
  });
  const last = points[points.length - 1] ?? { atMs: span.fromMs, tokens: capacity };
  const full = fullAt(facts, last);
  const level = tokensAt(facts, report.cells, nowMs);
  const begin = points.length === 0 ? [last] : points;
  return {
    kind: 'level',
    ...{ span, nowMs, level, window: undefined, solidFromMs: span.fromMs, boundaries: [] },
    points: [...begin, full, { atMs: Math.max(full.atMs, span.toMs), tokens: capacity }],
    top: capacity,
    limit: capacity,
  };
}

/** When a level that rises has reached the capacity. */
function fullAt({ limit, windowMs, capacity }: KeyFacts, { atMs, tokens }: Point): Point {
  return { atMs: atMs + ((capacity - tokens) * windowMs) / limit, tokens: capacity };
}
