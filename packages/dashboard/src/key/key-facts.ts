/** The numbers that hold for a key, and what an algorithm makes of its cells at a time. */
import type { AlgorithmName, KeyReport, PolicyDefinition } from '../api/types.ts';

export interface KeyFacts {
  readonly algorithm: AlgorithmName;
  readonly windowMs: number;
  /** The largest cost that could ever fit. */
  readonly capacity: number;
  /** What a token bucket gains in a window; otherwise the capacity. */
  readonly limit: number;
  /** How long a bucket of `sliding-buckets` is. */
  readonly bucketMs: number;
}

const DEFAULT_BUCKETS = 60;

/** An override is a limit of its own, and a burst stays what it is. */
export function factsOf(report: KeyReport, policy: PolicyDefinition | undefined): KeyFacts {
  const { algorithm, windowMs, limit: capacity, override } = report;
  const buckets = Math.min(policy?.buckets ?? DEFAULT_BUCKETS, windowMs);
  return {
    ...{ algorithm, windowMs, capacity },
    limit: override?.limit ?? policy?.limit ?? capacity,
    bucketMs: Math.ceil(windowMs / buckets),
  };
}

/** When the window of the clock began that a time is in. */
export const windowStart = (windowMs: number, timeMs: number): number =>
  Math.floor(timeMs / windowMs) * windowMs;

/** What a counter has in the window of the clock and in the one before. */
export interface CounterParts {
  readonly startMs: number;
  readonly current: number;
  readonly previous: number;
  /** The part of the previous window that is still in sight, from 1 to 0. */
  readonly weight: number;
  /** What the previous window counts for, whole, as the algorithm rounds it. */
  readonly weighed: number;
}

/** Cells: the end of the window after the newest, the cost in the newest, the cost before it. */
export function counterParts(
  { windowMs }: KeyFacts,
  cells: readonly number[],
  nowMs: number,
): CounterParts {
  const [horizonMs = 0, newest = 0, before = 0] = cells;
  const startMs = windowStart(windowMs, nowMs);
  const isNewest = horizonMs === startMs + 2 * windowMs;
  const previous = isNewest ? before : horizonMs === startMs + windowMs ? newest : 0;
  const leftMs = startMs + windowMs - nowMs;
  return {
    ...{ startMs, previous, current: isNewest ? newest : 0 },
    weight: leftMs / windowMs,
    weighed: Math.ceil((previous * leftMs) / windowMs),
  };
}

/** How many tokens there are. Cells: when it is full, tokens x W at the last charge, and when. */
export function tokensAt(
  { windowMs, capacity, limit }: KeyFacts,
  cells: readonly number[],
  nowMs: number,
): number {
  const [fullAtMs = 0, level = 0, chargedAtMs = 0] = cells;
  if (fullAtMs === 0) return capacity;
  return Math.min(capacity, (level + (nowMs - chargedAtMs) * limit) / windowMs);
}

/**
 * What counts at a time since the report, if nothing has come meanwhile: of logs, what has not left
 * of the entries that are told.
 */
export function usedAt(facts: KeyFacts, report: KeyReport, nowMs: number): number {
  const { cells, entries } = report;
  switch (facts.algorithm) {
    case 'fixed-window':
      return (cells[0] ?? 0) > nowMs ? cells[1] : 0;
    case 'sliding-counter': {
      const { current, weighed } = counterParts(facts, cells, nowMs);
      return current + weighed;
    }
    case 'token-bucket':
      return facts.capacity - Math.floor(tokensAt(facts, cells, nowMs));
    default: {
      const left = entries.filter(({ atMs }) => atMs <= nowMs - facts.windowMs);
      return report.used - left.reduce((sum, { cost }) => sum + cost, 0);
    }
  }
}
