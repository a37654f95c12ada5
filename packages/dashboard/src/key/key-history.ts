/**
 * Collects the state of a key from the reports since the page was opened. The store deletes expired
 * entries, windows and charges; the history keeps them, because the drawing also shows the time
 * before the current window.
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

/** The last charge to a token bucket before a report. */
export interface TokenCharge {
  readonly atMs: number;
  /** Tokens right after the charge. */
  readonly tokens: number;
  /** Tokens right before the charge, computed from the previous report. */
  readonly before: number;
}

/** Cost admitted between two reports, for algorithms that store no entries. */
export interface UsageIncrease extends Entry {
  /** The cost was admitted between `sinceMs` and `atMs`. */
  readonly sinceMs: number;
}

/** Length of the history, in windows. The drawing shows less. */
const KEPT_WINDOWS = 3;
const MAX_ENTRIES = 6000;
const MAX_CHARGES = 600;
const MAX_INCREASES = 200;

export class KeyHistory {
  /** Oldest first. */
  entries: readonly Entry[] = [];
  windows: readonly WindowCount[] = [];
  charges: readonly TokenCharge[] = [];
  /** Increases of the used cost, newest first. */
  increases: readonly UsageIncrease[] = [];
  #last: KeyReport | undefined = undefined;

  /** Adds the state of a report. Clears the history first if the policy's algorithm has changed. */
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
   * Adds the entries of the report. They replace the known entries of the same time range. Keeps
   * known entries that have expired. If the report lists only the newest entries, also keeps known
   * entries that are older than these.
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

  /** Adds the windows of the report, and keeps the known windows before them. */
  #addWindows(report: KeyReport, { windowMs }: LimitParams, { windows }: WindowsDescription): void {
    const known = new Map(this.windows.map(({ startMs, cost }) => [startMs, cost]));
    const admitted = windows.map(({ startMs, cost }) => cost - (known.get(startMs) ?? 0));
    this.#addIncrease(
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
    this.#addIncrease(report, Math.round(before - tokens), atMs);
  }

  /**
   * Adds an increase since the previous report. Without a previous report, adds nothing: the cost
   * may have been admitted at any time.
   */
  #addIncrease(report: KeyReport, cost: number, atMs = report.atMs): void {
    if (cost <= 0 || this.#last === undefined) return;
    const sinceMs = this.#last.atMs;
    this.increases = [{ atMs, cost, sinceMs }, ...this.increases].slice(0, MAX_INCREASES);
  }
}
