/**
 * Sorts entries by time. Lines are out of order because servers write a line when a response is
 * complete, and because logs are sometimes concatenated.
 *
 * Entries are buffered, up to a bound in lines and bytes. With a lateness bound, an entry is
 * released as soon as no earlier entry within that bound can follow. An entry that arrives after
 * later entries were released is counted as late. It gets the latest time reached, because the time
 * of a limiter must not decrease.
 */
import type { Entry } from './entry.ts';

/** Maximum buffer of all logs together, without and with a lateness bound. */
export const SORT_BOUND: SortBound = { lines: 200_000, bytes: 64 * 2 ** 20 };
export const LATENESS_BOUND: SortBound = { lines: 1_000_000, bytes: 256 * 2 ** 20 };

/** Minimum bound in lines for each of several logs. */
const MIN_LINES = 10_000;

/**
 * If a line is farther than this from the current time of the log, its time is considered wrong,
 * unless the next lines confirm the jump.
 */
export const FAR_MS = 86_400_000;

/** Number of consecutive lines that confirm a jump. */
export const CONFIRMING_LINES = 100;

/** Number of entries between two checks of the bound. */
const STEP = 4096;

export interface SortBound {
  readonly lines: number;
  /** Approximate: only the text of the lines is counted. */
  readonly bytes: number;
}

export interface OrderOptions {
  /** How far a line may be behind the newest line before it. Default: any time. */
  readonly latenessMs?: number | undefined;
  readonly bound?: SortBound;
}

/** Returns the bound of each of several logs. */
export function boundOf(logs: number, latenessMs: number | undefined): SortBound {
  const { lines, bytes } = latenessMs === undefined ? SORT_BOUND : LATENESS_BOUND;
  return { lines: Math.max(MIN_LINES, Math.floor(lines / logs)), bytes: Math.floor(bytes / logs) };
}

export interface OrderCounts {
  /** Entries that were out of order and have been sorted. */
  moved: number;
  /** Entries too late to be sorted. They got the latest time reached. */
  late: number;
  /** Entries more than a day ahead of the entries around them. They got the latest time reached. */
  early: number;
  /** Gaps of more than a day in the log. */
  gaps: number;
}

/** Changes the time of an entry. Safe, because nothing has used the entry before the orderer. */
export const setTime = (entry: Entry, timeMs: number): void => {
  (entry as { timeMs: number }).timeMs = timeMs;
};

export class Orderer {
  readonly #latenessMs: number;
  readonly #bound: SortBound;
  readonly #counts: OrderCounts;
  /** Buffer. Entries before `#head` have been released; entries before `#sorted` are in order. */
  #waiting: Entry[] = [];
  #head = 0;
  #sorted = 0;
  /** Bytes of the buffered entries. A released entry is subtracted with the mean size. */
  #bytes = 0;
  /** The earliest time of the out-of-order entries after `#sorted`. */
  #leastMs = Number.POSITIVE_INFINITY;
  #newestMs = Number.NEGATIVE_INFINITY;
  /** The newest time since the last jump. */
  #currentMs = Number.NEGATIVE_INFINITY;
  /** No entry is released with an earlier time. */
  #reachedMs = Number.NEGATIVE_INFINITY;
  /** Entries far from the current time that are not confirmed yet. */
  #far: Entry[] = [];
  #ready: Entry[] = [];
  #placed = 0;
  /** Maximum delay of a late line behind the newest line before it. */
  maxLateMs = 0;

  constructor(counts: OrderCounts, { latenessMs, bound }: OrderOptions = {}) {
    if (latenessMs !== undefined && !(latenessMs >= 0)) {
      throw new RangeError(`Expected \`latenessMs\` to be 0 or more, got \`${latenessMs}\``);
    }
    this.#counts = counts;
    this.#latenessMs = latenessMs ?? Number.POSITIVE_INFINITY;
    this.#bound = bound ?? boundOf(1, latenessMs);
  }

  /** Adds entries with their size in bytes. Returns the released entries; times never decrease. */
  add(entries: readonly Entry[], bytes = 0): readonly Entry[] {
    this.#bytes += bytes;
    for (const entry of entries) this.#add(entry);
    if (this.#latenessMs < Number.POSITIVE_INFINITY) this.#release();
    return this.#takeReady();
  }

  /** Returns all buffered entries. */
  end(): readonly Entry[] {
    this.#confirmFar();
    this.#reachedMs = Number.POSITIVE_INFINITY;
    this.#release();
    return this.#takeReady();
  }

  #takeReady(): readonly Entry[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }

  #add(entry: Entry): void {
    if (this.#placed > 0 && this.#isFar(entry.timeMs)) {
      this.#far.push(entry);
      if (this.#far.length >= CONFIRMING_LINES) this.#confirmFar();
      return;
    }
    if (this.#far.length > 0) this.#rejectFar();
    this.#currentMs = Math.max(this.#currentMs, entry.timeMs);
    this.#place(entry);
  }

  /** With a lateness bound, only lines far ahead are far: lines far behind are late anyway. */
  #isFar(timeMs: number): boolean {
    const aheadMs = timeMs - this.#currentMs;
    return aheadMs > FAR_MS || (aheadMs < -FAR_MS && this.#latenessMs === Infinity);
  }

  /** Accepts the far entries: the log continues after a gap, or another log was appended. */
  #confirmFar(): void {
    const far = this.#far;
    this.#far = [];
    for (const entry of far) {
      if (entry.timeMs - this.#newestMs > FAR_MS) this.#counts.gaps++;
      this.#currentMs = entry.timeMs;
      this.#place(entry);
    }
  }

  #rejectFar(): void {
    const far = this.#far;
    this.#far = [];
    for (const entry of far) {
      if (entry.timeMs > this.#currentMs) this.#counts.early++;
      else this.#countLate(entry.timeMs);
      setTime(entry, this.#currentMs);
      this.#place(entry);
    }
  }

  #countLate(timeMs: number): void {
    this.#counts.late++;
    this.maxLateMs = Math.max(this.maxLateMs, this.#newestMs - timeMs);
  }

  #place(entry: Entry): void {
    const { timeMs } = entry;
    if (timeMs >= this.#newestMs) {
      this.#newestMs = timeMs;
      this.#reachedMs = Math.max(this.#reachedMs, timeMs - this.#latenessMs);
    } else if (timeMs < this.#reachedMs) {
      this.#countLate(timeMs);
      setTime(entry, this.#reachedMs);
      this.#leastMs = Math.min(this.#leastMs, this.#reachedMs);
    } else {
      this.#counts.moved++;
      this.#leastMs = Math.min(this.#leastMs, timeMs);
    }
    this.#waiting.push(entry);
    // Count entries, not calls of `add`, so that the result does not depend on the batch size.
    if (++this.#placed % STEP === 0) this.#shrink();
  }

  /** Releases the earliest entries if more than the bound are buffered. */
  #shrink(): void {
    const held = this.#waiting.length - this.#head;
    const ofBytes = this.#bytes === 0 ? held : Math.floor((held * this.#bound.bytes) / this.#bytes);
    const most = Math.min(this.#bound.lines, ofBytes);
    if (held <= most) return;
    this.#sort();
    this.#reachedMs = Math.max(
      this.#reachedMs,
      this.#waiting[this.#waiting.length - most - 1].timeMs,
    );
    this.#release();
  }

  /** Releases entries up to the time reached. */
  #release(): void {
    this.#sort();
    const waiting = this.#waiting;
    const held = waiting.length - this.#head;
    let end = this.#head;
    while (end < waiting.length && waiting[end].timeMs <= this.#reachedMs) end++;
    for (let at = this.#head; at < end; at++) this.#ready.push(waiting[at]);
    if (held > 0) this.#bytes -= (this.#bytes * (end - this.#head)) / held;
    this.#head = end;
    // Drop released entries rarely, because each `slice` copies all buffered entries.
    if (end > STEP && end > waiting.length / 4) {
      this.#waiting = waiting.slice(end);
      this.#head = 0;
    }
    this.#sorted = this.#waiting.length;
  }

  /** Sorts from the position of the earliest out-of-order entry. The sort is stable. */
  #sort(): void {
    if (this.#leastMs === Number.POSITIVE_INFINITY) return;
    const start = this.#placeAfter(this.#leastMs);
    const tail = this.#waiting.slice(start).sort((one, other) => one.timeMs - other.timeMs);
    for (const [at, entry] of tail.entries()) this.#waiting[start + at] = entry;
    this.#leastMs = Number.POSITIVE_INFINITY;
    this.#sorted = this.#waiting.length;
  }

  #placeAfter(timeMs: number): number {
    let low = this.#head;
    let high = this.#sorted;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#waiting[middle].timeMs <= timeMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
