/**
 * Sorts entries by time. Servers write a line when a response is complete, so a log is almost in
 * order. Entries are buffered until no older one can come within the lateness bound. Later ones are
 * counted, and get the latest time reached, because the time of a limiter must not decrease.
 */
import type { Entry } from './entry.ts';

/** How far a line may be behind the newest one before it. */
export const DEFAULT_LATENESS_MS = 10_000;

/** A line this far ahead of all before it has a wrong clock, unless the next lines confirm it. */
export const FAR_AHEAD_MS = 86_400_000;

/** Number of consecutive lines that confirm a gap. */
export const CONFIRMING_LINES = 100;

/** The most buffered entries, regardless of the lateness bound. */
export const MAX_WAITING = 100_000;

/** Entries between two checks of `MAX_WAITING`. */
const STEP = 4096;

export interface OrderCounts {
  /** Out of order, and sorted. */
  moved: number;
  /** Too late to be sorted; they got the latest time reached. */
  late: number;
  /** More than a day ahead of their neighbours; they got the latest time reached. */
  early: number;
  /** Gaps of more than a day in the log. */
  gaps: number;
}

/** The orderer is the first consumer of an entry, so it may still change the time. */
const setTime = (entry: Entry, timeMs: number): void => {
  (entry as { timeMs: number }).timeMs = timeMs;
};

export class Orderer {
  readonly #latenessMs: number;
  readonly #counts: OrderCounts;
  /** Buffer: entries before `#head` are released, those before `#sorted` are in order. */
  #waiting: Entry[] = [];
  #head = 0;
  #sorted = 0;
  /** The earliest time of the out-of-order entries after `#sorted`. */
  #leastMs = Number.POSITIVE_INFINITY;
  #newestMs = Number.NEGATIVE_INFINITY;
  /** No entry is released with an earlier time. */
  #reachedMs = Number.NEGATIVE_INFINITY;
  /** Entries far ahead that are not confirmed yet. */
  #ahead: Entry[] = [];
  #ready: Entry[] = [];
  #placed = 0;

  constructor(counts: OrderCounts, latenessMs = DEFAULT_LATENESS_MS) {
    if (!(latenessMs >= 0)) {
      throw new RangeError(`Expected \`latenessMs\` to be 0 or more, got \`${latenessMs}\``);
    }
    this.#counts = counts;
    this.#latenessMs = latenessMs;
  }

  /** Adds entries. Returns those that can be released; times never decrease. */
  add(entries: readonly Entry[]): readonly Entry[] {
    for (const entry of entries) this.#add(entry);
    this.#release(0);
    return this.#takeReady();
  }

  /** Returns all buffered entries. */
  end(): readonly Entry[] {
    this.#confirmAhead();
    this.#reachedMs = Number.POSITIVE_INFINITY;
    this.#release(0);
    return this.#takeReady();
  }

  #takeReady(): readonly Entry[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }

  #add(entry: Entry): void {
    if (entry.timeMs - this.#newestMs > FAR_AHEAD_MS && this.#placed > 0) {
      this.#ahead.push(entry);
      if (this.#ahead.length >= CONFIRMING_LINES) this.#confirmAhead();
      return;
    }
    if (this.#ahead.length > 0) this.#rejectAhead();
    this.#place(entry);
  }

  /** The log continues after a gap. */
  #confirmAhead(): void {
    const ahead = this.#ahead;
    this.#ahead = [];
    for (const entry of ahead) {
      if (entry.timeMs - this.#newestMs > FAR_AHEAD_MS) this.#counts.gaps++;
      this.#place(entry);
    }
  }

  #rejectAhead(): void {
    const ahead = this.#ahead;
    this.#ahead = [];
    this.#counts.early += ahead.length;
    for (const entry of ahead) {
      setTime(entry, this.#newestMs);
      this.#place(entry);
    }
  }

  #place(entry: Entry): void {
    const { timeMs } = entry;
    if (timeMs >= this.#newestMs) {
      this.#newestMs = timeMs;
      this.#reachedMs = Math.max(this.#reachedMs, timeMs - this.#latenessMs);
    } else if (timeMs < this.#reachedMs) {
      this.#counts.late++;
      setTime(entry, this.#reachedMs);
      this.#leastMs = Math.min(this.#leastMs, this.#reachedMs);
    } else {
      this.#counts.moved++;
      this.#leastMs = Math.min(this.#leastMs, timeMs);
    }
    this.#waiting.push(entry);
    // Counts entries, not calls, so that the result does not depend on the batches.
    if (++this.#placed % STEP === 0) this.#release(MAX_WAITING);
  }

  /** Releases entries up to the time reached and, if `most` > 0, those above `most`. */
  #release(most: number): void {
    this.#sort();
    const waiting = this.#waiting;
    let end = this.#head;
    while (end < waiting.length && waiting[end].timeMs <= this.#reachedMs) end++;
    if (most > 0 && waiting.length - end > most) {
      end = waiting.length - most;
      this.#reachedMs = waiting[end - 1].timeMs;
    }
    for (let at = this.#head; at < end; at++) this.#ready.push(waiting[at]);
    this.#head = end;
    // Cut rarely, because each cut moves all buffered entries.
    if (end > STEP && end > waiting.length / 2) {
      this.#waiting = waiting.slice(end);
      this.#head = 0;
    }
    this.#sorted = this.#waiting.length;
  }

  /** Sorts from the position of the earliest out-of-order entry. Stable. */
  #sort(): void {
    if (this.#leastMs === Number.POSITIVE_INFINITY) return;
    const tail = this.#waiting.splice(this.#placeAfter(this.#leastMs));
    tail.sort((one, other) => one.timeMs - other.timeMs);
    for (const entry of tail) this.#waiting.push(entry);
    this.#leastMs = Number.POSITIVE_INFINITY;
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
