/**
 * History of a key since the page was opened. The store deletes expired state; this history keeps
 * it as long as the drawing shows it.
 */
import type { LevelDescription, LogEntry, WindowsDescription } from 'sluice/engine';
import type { KeyReport, LimitParams } from '../api/types.ts';
import { describeAt } from './key-params.ts';

export type Entry = LogEntry;

/** A clock-aligned window and the cost admitted in it. */
export interface WindowCount {
  readonly startMs: number;
  readonly cost: number;
}

/** A charge to a token bucket. */
export interface Charge {
  readonly atMs: number;
  /** Tokens right after the charge. */
  readonly tokens: number;
  /** Tokens right before the charge, computed from the previous report. */
  readonly before: number;
}

/** An increase of the used cost between two reports, for algorithms that store no entries. */
export interface Increase extends Entry {
  /** The cost was admitted between `sinceMs` and `atMs`. */
  readonly sinceMs: number;
}

/** Windows of history to keep. The drawing shows fewer. */
const KEPT_WINDOWS = 3;
const MAX_ENTRIES = 6000;
const MAX_CHARGES = 600;
const MAX_INCREASES = 200;

export class KeyHistory {
  /** Entries, oldest first. Each report creates a new array, so that views compare by identity. */
  entries: readonly Entry[] = [];
  windows: readonly WindowCount[] = [];
  charges: readonly Charge[] = [];
  /** Newest first. */
  increases: readonly Increase[] = [];
  #last: KeyReport | undefined = undefined;

  /** Adds the state that the service reported. */
  addReport(report: KeyReport, params: LimitParams): void {
    const hasOtherAlgorithm = this.#last !== undefined && this.#last.algorithm !== report.algorithm;
    if (hasOtherAlgorithm) this.clear();
    const description = describeAt(report, params, report.atMs);
    if (description.shape === 'entries') this.#addEntries(report, params);
    else if (description.shape === 'windows') this.#addWindows(report, params, description);
    else this.#addLevel(report, params, description);
    this.#last = report;
  }

  clear(): void {
    this.entries = [];
    this.windows = [];
    this.charges = [];
    this.increases = [];
    this.#last = undefined;
  }

  /**
   * Replaces the entries that the report lists. Keeps expired entries. If the report is truncated,
   * also keeps the entries older than the first listed entry.
   */
  #addEntries(report: KeyReport, { windowMs }: LimitParams): void {
    const { entries, entryCount, atMs } = report;
    const edgeMs = atMs - windowMs;
    const isComplete = entryCount === entries.length;
    const untilMs = isComplete ? edgeMs + 1 : entries[0].atMs;
    const sinceMs = atMs - KEPT_WINDOWS * windowMs;
    const known = this.entries.filter((each) => each.atMs < untilMs && each.atMs > sinceMs);
    this.entries = [...known, ...entries].slice(-MAX_ENTRIES);
  }

  /** Replaces the windows in the report. Keeps earlier windows, which no longer count. */
  #addWindows(report: KeyReport, { windowMs }: LimitParams, { windows }: WindowsDescription): void {
    const known = new Map(this.windows.map(({ startMs, cost }) => [startMs, cost]));
    const admitted = windows.map(({ startMs, cost }) => cost - (known.get(startMs) ?? 0));
    this.#record(
      report,
      admitted.reduce((sum, cost) => sum + Math.max(0, cost), 0),
    );
    const sinceMs = report.atMs - (KEPT_WINDOWS + 1) * windowMs;
    const past = this.windows.filter(
      ({ startMs }) => startMs < windows[0].startMs && startMs > sinceMs,
    );
    const nonEmpty = windows.filter(({ cost }) => cost > 0);
    this.windows = [...past, ...nonEmpty.map(({ startMs, cost }) => ({ startMs, cost }))];
  }

  #addLevel(report: KeyReport, params: LimitParams, { charged }: LevelDescription): void {
    const last = this.#last;
    const lastTokens = (nowMs: number): number | undefined =>
      last && (describeAt(last, params, nowMs) as LevelDescription).tokens;
    if (charged === undefined) {
      // If the bucket is full earlier than its refill rate allows, the key was reset.
      if ((lastTokens(report.atMs) ?? params.capacity) < params.capacity) this.charges = [];
      return;
    }
    const newest = this.charges[this.charges.length - 1];
    const { atMs, tokens } = charged;
    if (newest?.atMs === atMs && newest.tokens === tokens) return;
    const before = lastTokens(atMs) ?? tokens;
    const sinceMs = report.atMs - KEPT_WINDOWS * params.windowMs;
    this.charges = [...this.charges, { atMs, tokens, before }]
      .filter((each, at, all) => each.atMs > sinceMs || at === all.length - 1)
      .slice(-MAX_CHARGES);
    this.#record(report, Math.round(before - tokens), atMs);
  }

  /** Records an increase. The first report is skipped, because its admission times are unknown. */
  #record(report: KeyReport, cost: number, atMs = report.atMs): void {
    if (cost <= 0 || this.#last === undefined) return;
    const sinceMs = this.#last.atMs;
    this.increases = [{ atMs, cost, sinceMs }, ...this.increases].slice(0, MAX_INCREASES);
  }
}
