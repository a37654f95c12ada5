/**
 * History of a key as seen by this page. The service deletes expired state; the page keeps it as
 * long as it is visible in the drawing.
 */
import type { KeyReport } from '../api/types.ts';
import { type KeyFacts, tokensAt } from './key-facts.ts';

export interface Entry {
  readonly atMs: number;
  readonly cost: number;
}

/** A clock-aligned window and the cost admitted in it. */
export interface CountedWindow {
  readonly startMs: number;
  readonly count: number;
}

/** The token level right after a charge. */
export interface Charge {
  readonly atMs: number;
  readonly tokens: number;
  /** The level right before, estimated from the previous report. */
  readonly before: number;
}

/** An increase of the count between two reports, for algorithms without entries. */
export interface Sighting extends Entry {
  /** The admission was between `sinceMs` and `atMs`. */
  readonly sinceMs: number;
}

/** The drawing shows fewer windows than this. */
const KEPT_WINDOWS = 3;
const MAX_ENTRIES = 6000;
const MAX_CHARGES = 600;
const MAX_SIGHTINGS = 200;

export class WindowMemory {
  /** Oldest first. Replaced, never mutated, so that views can compare by identity. */
  entries: readonly Entry[] = [];
  windows: readonly CountedWindow[] = [];
  charges: readonly Charge[] = [];
  /** Newest first. */
  sightings: readonly Sighting[] = [];
  #last: KeyReport | undefined = undefined;

  take(report: KeyReport, facts: KeyFacts): void {
    const isOther = this.#last !== undefined && this.#last.algorithm !== report.algorithm;
    if (isOther) this.clear();
    switch (facts.algorithm) {
      case 'fixed-window':
        this.#takeWindows(report, facts, 1);
        break;
      case 'sliding-counter':
        this.#takeWindows(report, facts, 2);
        break;
      case 'token-bucket':
        this.#takeTokens(report, facts);
        break;
      default:
        this.#takeEntries(report, facts);
    }
    this.#last = report;
  }

  clear(): void {
    this.entries = [];
    this.windows = [];
    this.charges = [];
    this.sightings = [];
    this.#last = undefined;
  }

  /** Keeps expired entries, and those before the first listed one if the report is truncated. */
  #takeEntries(report: KeyReport, { windowMs }: KeyFacts): void {
    const { entries, entryCount, atMs } = report;
    const edgeMs = atMs - windowMs;
    const isAll = entryCount === entries.length;
    const untilMs = isAll ? edgeMs + 1 : entries[0].atMs;
    const sinceMs = atMs - KEPT_WINDOWS * windowMs;
    const known = this.entries.filter((each) => each.atMs < untilMs && each.atMs > sinceMs);
    this.entries = [...known, ...entries].slice(-MAX_ENTRIES);
  }

  /** `counting`: for how many windows a count is in use, including its own. */
  #takeWindows(report: KeyReport, { windowMs }: KeyFacts, counting: number): void {
    const { cells, atMs } = report;
    const counts = new Map(
      this.windows
        .filter(({ startMs }) => startMs + counting * windowMs <= atMs)
        .map(({ startMs, count }) => [startMs, count]),
    );
    if (cells.length > 0) {
      const newestMs = cells[0] - counting * windowMs;
      if (counting === 2 && cells[2] > 0) counts.set(newestMs - windowMs, cells[2]);
      if (cells[1] > 0) counts.set(newestMs, cells[1]);
      const before = this.windows.find(({ startMs }) => startMs === newestMs)?.count ?? 0;
      this.#record(report, cells[1] - before, this.#last?.atMs ?? newestMs);
    }
    const sinceMs = atMs - (KEPT_WINDOWS + 1) * windowMs;
    this.windows = [...counts]
      .filter(([startMs]) => startMs > sinceMs)
      .sort(([a], [b]) => a - b)
      .map(([startMs, count]) => ({ startMs, count }));
  }

  #takeTokens(report: KeyReport, facts: KeyFacts): void {
    const { cells, atMs } = report;
    const { windowMs } = facts;
    const last = this.#last;
    if (cells.length === 0 || cells[0] === 0) {
      // Full before the refill time means that the key was reset.
      const isReset = last !== undefined && (last.cells[0] ?? 0) > atMs;
      if (isReset) this.charges = [];
      return;
    }
    const [, level, chargedAtMs] = cells;
    const newest = this.charges[this.charges.length - 1];
    const tokens = level / windowMs;
    if (newest?.atMs === chargedAtMs && newest.tokens === tokens) return;
    const before = last === undefined ? tokens : tokensAt(facts, last.cells, chargedAtMs);
    const sinceMs = atMs - KEPT_WINDOWS * windowMs;
    this.charges = [...this.charges, { atMs: chargedAtMs, tokens, before }]
      .filter((each, at, all) => each.atMs > sinceMs || at === all.length - 1)
      .slice(-MAX_CHARGES);
    if (last !== undefined)
      this.#record(report, Math.round(before - tokens), last.atMs, chargedAtMs);
  }

  /** Ignores the first report, which does not show when its count was admitted. */
  #record(report: KeyReport, cost: number, sinceMs: number, atMs = report.atMs): void {
    if (cost <= 0 || this.#last === undefined) return;
    this.sightings = [{ atMs, cost, sinceMs }, ...this.sightings].slice(0, MAX_SIGHTINGS);
  }
}
