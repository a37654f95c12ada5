/**
 * Puts entries in order. Servers write a line when an answer is done, so a log is nearly in order
 * but not quite. Entries wait until nothing older can come within the bound. What comes later than
 * that is let through at the time reached, because a limiter's time does not run backwards, and is
 * counted.
 */
import type { Entry } from './entry.ts';

/** How far a line may lie behind the newest one before it. */
export const DEFAULT_LATENESS_MS = 10_000;

/** A line that is so far ahead of all before it has a wrong clock, unless the next lines agree. */
export const FAR_AHEAD_MS = 86_400_000;

/** How many lines in a row have to agree. */
export const LINES_THAT_AGREE = 100;

/** More do not wait, whatever the bound: memory counts more than the order of a burst. */
export const MAX_WAITING = 100_000;

/** How often it is looked whether too many wait. */
const STEP = 4096;

export interface OrderCounts {
  /** Not in order, but put there. */
  moved: number;
  /** Too late to be put in their place, so taken at the time reached. */
  late: number;
  /** More than a day ahead of the lines around them, so taken at the time reached. */
  early: number;
  /** How often the log goes on more than a day later. */
  gaps: number;
}

/** Whoever orders an entry is the first to have it, and may still say when it came. */
const takeAt = (entry: Entry, timeMs: number): void => {
  (entry as { timeMs: number }).timeMs = timeMs;
};

export class Orderer {
  readonly #latenessMs: number;
  readonly #counts: OrderCounts;
  /** Those that wait; what lies before `#head` has gone, and up to `#sorted` they are in order. */
  #waiting: Entry[] = [];
  #head = 0;
  #sorted = 0;
  /** The least time among those after `#sorted` that are not in order. */
  #leastMs = Number.POSITIVE_INFINITY;
  #newestMs = Number.NEGATIVE_INFINITY;
  /** Nothing goes before this any more. */
  #reachedMs = Number.NEGATIVE_INFINITY;
  /** Those that nobody has agreed with yet. */
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

  /** Takes entries as they come, and answers those whose turn it is: times never decrease. */
  add(entries: readonly Entry[]): readonly Entry[] {
    for (const entry of entries) this.#take(entry);
    this.#release(0);
    return this.#answer();
  }

  /** All that still wait. */
  end(): readonly Entry[] {
    this.#agree();
    this.#reachedMs = Number.POSITIVE_INFINITY;
    this.#release(0);
    return this.#answer();
  }

  #answer(): readonly Entry[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }

  #take(entry: Entry): void {
    if (entry.timeMs - this.#newestMs > FAR_AHEAD_MS && this.#placed > 0) {
      this.#ahead.push(entry);
      if (this.#ahead.length >= LINES_THAT_AGREE) this.#agree();
      return;
    }
    if (this.#ahead.length > 0) this.#disagree();
    this.#place(entry);
  }

  /** The log does go on there. */
  #agree(): void {
    const ahead = this.#ahead;
    this.#ahead = [];
    for (const entry of ahead) {
      if (entry.timeMs - this.#newestMs > FAR_AHEAD_MS) this.#counts.gaps++;
      this.#place(entry);
    }
  }

  #disagree(): void {
    const ahead = this.#ahead;
    this.#ahead = [];
    this.#counts.early += ahead.length;
    for (const entry of ahead) {
      takeAt(entry, this.#newestMs);
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
      takeAt(entry, this.#reachedMs);
      this.#leastMs = Math.min(this.#leastMs, this.#reachedMs);
    } else {
      this.#counts.moved++;
      this.#leastMs = Math.min(this.#leastMs, timeMs);
    }
    this.#waiting.push(entry);
    // Counted in entries rather than in calls, so that it does not matter how a log is cut up.
    if (++this.#placed % STEP === 0) this.#release(MAX_WAITING);
  }

  /** Those up to the time reached, and with a bound also as many as are too many. */
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
    // The array is cut only now and then, or each cut would move all that wait.
    if (end > STEP && end > waiting.length / 2) {
      this.#waiting = waiting.slice(end);
      this.#head = 0;
    }
    this.#sorted = this.#waiting.length;
  }

  /** Only from where the earliest newcomer belongs. Lines of the same time keep their order. */
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
