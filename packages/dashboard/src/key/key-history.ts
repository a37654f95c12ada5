/**
 * History of a key as seen by this page. The service deletes expired state; the page keeps it as
 * long as it is visible in the drawing.
 */
import type { LevelDescription, LogEntry, WindowsDescription } from 'sluice/engine';
import type { KeyReport, LimitParams } from '../api/types.ts';
import { describe } from './key-params.ts';

export type Entry = LogEntry;

/** A clock-aligned window and the cost admitted in it. */
export interface WindowCount {
  readonly startMs: number;
  readonly cost: number;
}

/** The token level right after a charge. */
export interface Charge {
  readonly atMs: number;
  readonly tokens: number;
  /** The level right before, estimated from the previous report. */
  readonly before: number;
}

/** An increase of the count between two reports, for algorithms without entries. */
export interface Increase extends Entry {
  /** The admission was between `sinceMs` and `atMs`. */
  readonly sinceMs: number;
}

/** The drawing shows fewer windows than this. */
const KEPT_WINDOWS = 3;
const MAX_ENTRIES = 6000;
const MAX_CHARGES = 600;
const MAX_INCREASES = 200;

export class KeyHistory {
  /** Oldest first. Replaced, never mutated, so that views can compare by identity. */
  entries: readonly Entry[] = [];
  windows: readonly WindowCount[] = [];
  charges: readonly Charge[] = [];
  /** Newest first. */
  increases: readonly Increase[] = [];
  #last: KeyReport | undefined = undefined;

  take(report: KeyReport, params: LimitParams): void {
    const isOther = this.#last !== undefined && this.#last.algorithm !== report.algorithm;
    if (isOther) this.clear();
    const described = describe(report, params, report.atMs);
    if (described.shape === 'entries') this.#takeEntries(report, params);
    else if (described.shape === 'windows') this.#takeWindows(report, params, described);
    else this.#takeLevel(report, params, described);
    this.#last = report;
  }

  clear(): void {
    this.entries = [];
    this.windows = [];
    this.charges = [];
    this.increases = [];
    this.#last = undefined;
  }

  /** Keeps expired entries, and those before the first listed one if the report is truncated. */
  #takeEntries(report: KeyReport, { windowMs }: LimitParams): void {
    const { entries, entryCount, atMs } = report;
    const edgeMs = atMs - windowMs;
    const isAll = entryCount === entries.length;
    const untilMs = isAll ? edgeMs + 1 : entries[0].atMs;
    const sinceMs = atMs - KEPT_WINDOWS * windowMs;
    const known = this.entries.filter((each) => each.atMs < untilMs && each.atMs > sinceMs);
    this.entries = [...known, ...entries].slice(-MAX_ENTRIES);
  }

  /** Keeps the windows that no longer count, and replaces those that do. */
  #takeWindows(
    report: KeyReport,
    { windowMs }: LimitParams,
    { windows }: WindowsDescription,
  ): void {
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
    const counted = windows.filter(({ cost }) => cost > 0);
    this.windows = [...past, ...counted.map(({ startMs, cost }) => ({ startMs, cost }))];
  }

  #takeLevel(report: KeyReport, params: LimitParams, { charged }: LevelDescription): void {
    const last = this.#last;
    const lastTokens = (nowMs: number): number | undefined =>
      last && (describe(last, params, nowMs) as LevelDescription).tokens;
    if (charged === undefined) {
      // Full before the refill time means that the key was reset.
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

  /** Ignores the first report, which does not show when its count was admitted. */
  #record(report: KeyReport, cost: number, atMs = report.atMs): void {
    if (cost <= 0 || this.#last === undefined) return;
    const sinceMs = this.#last.atMs;
    this.increases = [{ atMs, cost, sinceMs }, ...this.increases].slice(0, MAX_INCREASES);
  }
}
