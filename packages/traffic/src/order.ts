/**
 * Sorts entries by time. Lines are out of order because servers write a line when a response is
 * complete, and because logs are sometimes concatenated.
 *
 * Entries are buffered, up to a maximum number of lines and bytes. If the buffer is full, its
 * earliest entries are released. With `latenessMs`, lines are at most that far behind the newest
 * line, so an entry is also released when the newest entry is `latenessMs` later. An entry is late
 * if entries with later times have been released before it arrives. Its time is then set to
 * `#reachedMs`, because the time of a limiter must not decrease.
 */
import type { Entry } from './entry.ts';

/** Maximum buffer of all logs together, without `latenessMs`. */
export const SORT_BOUND: SortBound = { lines: 200_000, bytes: 64 * 2 ** 20 };
/** Maximum buffer of all logs together, with `latenessMs`. */
export const LATENESS_BOUND: SortBound = { lines: 1_000_000, bytes: 256 * 2 ** 20 };

/** Each of several logs may buffer at least this many lines. */
const MIN_LINES = 10_000;

/**
 * If the time of a line differs by more than this from the newest time before it, the time is
 * considered wrong, unless the times of `CONFIRMING_LINES` consecutive lines differ as much.
 */
export const FAR_MS = 86_400_000;

/** Number of consecutive lines that confirm a jump in time. */
export const CONFIRMING_LINES = 100;

/** Number of entries between two checks of the buffer size. */
const STEP = 4096;

export interface SortBound {
  readonly lines: number;
  /** Approximate: only the text of the lines is counted. */
  readonly bytes: number;
}

export interface OrderOptions {
  /** Maximum time that a line may be behind the newest line before it. Default: unlimited. */
  readonly latenessMs?: number | undefined;
  /** Maximum buffer. Default: that of a single log. */
  readonly bound?: SortBound;
}

/** Returns the maximum buffer of one of `logs` logs, which share the memory. */
export function boundOf(logs: number, latenessMs: number | undefined): SortBound {
  const { lines, bytes } = latenessMs === undefined ? SORT_BOUND : LATENESS_BOUND;
  return { lines: Math.max(MIN_LINES, Math.floor(lines / logs)), bytes: Math.floor(bytes / logs) };
}

export interface OrderCounts {
  /** Entries that were out of order and have been sorted. */
  moved: number;
  /**
   * Entries too late to be sorted. Their time was set to the earliest time that keeps the order.
   */
  late: number;
  /**
   * Entries more than a day ahead of the entries around them. Their time was set to the newest time
   * before them.
   */
  early: number;
  /** Gaps of more than a day in the log. */
  gaps: number;
}

/** Changes the time of an entry. Call it only before other code reads the entry. */
export const setTime = (entry: Entry, timeMs: number): void => {
  (entry as { timeMs: number }).timeMs = timeMs;
};

export class Orderer {
  readonly #latenessMs: number;
  readonly #bound: SortBound;
  readonly #counts: OrderCounts;
  /**
   * Entries before index `#head` have been released; entries before index `#sorted` are in order.
   */
  #buffer: Entry[] = [];
  #head = 0;
  #sorted = 0;
  /** Bytes of the buffered entries. When an entry is released, the mean size is subtracted. */
  #bytes = 0;
  /** The earliest time of the out-of-order entries from index `#sorted` on. */
  #leastMs = Number.POSITIVE_INFINITY;
  #newestMs = Number.NEGATIVE_INFINITY;
  /** The newest time since the last confirmed jump. */
  #currentMs = Number.NEGATIVE_INFINITY;
  /**
   * Entries up to this time may be released. An entry that arrives with an earlier time is late.
   */
  #reachedMs = Number.NEGATIVE_INFINITY;
  /** The last consecutive entries farther than `FAR_MS` from `#currentMs`, not confirmed yet. */
  #far: Entry[] = [];
  #ready: Entry[] = [];
  #placed = 0;
  /** Maximum time that a late line was behind the newest line before it. */
  maxLateMs = 0;

  constructor(counts: OrderCounts, { latenessMs, bound }: OrderOptions = {}) {
    if (latenessMs !== undefined && !(latenessMs >= 0)) {
      throw new RangeError(`Expected \`latenessMs\` to be 0 or more, got \`${latenessMs}\``);
    }
    this.#counts = counts;
    this.#latenessMs = latenessMs ?? Number.POSITIVE_INFINITY;
    this.#bound = bound ?? boundOf(1, latenessMs);
  }

  /**
   * Adds entries whose lines have `bytes` bytes in total. Returns the entries released by the call;
   * their times never decrease, also from call to call.
   */
  add(entries: readonly Entry[], bytes = 0): readonly Entry[] {
    this.#bytes += bytes;
    for (const entry of entries) this.#add(entry);
    if (this.#latenessMs < Number.POSITIVE_INFINITY) this.#release();
    return this.#takeReady();
  }

  /** Returns all entries that are still buffered. */
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

  /**
   * Returns true if a time is more than `FAR_MS` from the current time. With `latenessMs`, checks
   * only times that are ahead: a line far behind is late in any case.
   */
  #isFar(timeMs: number): boolean {
    const aheadMs = timeMs - this.#currentMs;
    return aheadMs > FAR_MS || (aheadMs < -FAR_MS && this.#latenessMs === Infinity);
  }

  /**
   * Accepts the times of the far entries: the log continues after a gap, or another log was
   * appended.
   */
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
    this.#buffer.push(entry);
    // Check after a number of entries, not in each `add`, so that the batch size does not change
    // the result.
    if (++this.#placed % STEP === 0) this.#shrink();
  }

  /** Releases the earliest entries if the buffer is too large. */
  #shrink(): void {
    const buffered = this.#buffer.length - this.#head;
    const ofBytes =
      this.#bytes === 0 ? buffered : Math.floor((buffered * this.#bound.bytes) / this.#bytes);
    const most = Math.min(this.#bound.lines, ofBytes);
    if (buffered <= most) return;
    this.#sort();
    this.#reachedMs = Math.max(
      this.#reachedMs,
      this.#buffer[this.#buffer.length - most - 1].timeMs,
    );
    this.#release();
  }

  /** Releases entries up to `#reachedMs`. */
  #release(): void {
    this.#sort();
    const buffer = this.#buffer;
    const buffered = buffer.length - this.#head;
    let end = this.#head;
    while (end < buffer.length && buffer[end].timeMs <= this.#reachedMs) end++;
    for (let at = this.#head; at < end; at++) this.#ready.push(buffer[at]);
    if (buffered > 0) this.#bytes -= (this.#bytes * (end - this.#head)) / buffered;
    this.#head = end;
    // Remove released entries from the array only rarely, because `slice` copies all others.
    if (end > STEP && end > buffer.length / 4) {
      this.#buffer = buffer.slice(end);
      this.#head = 0;
    }
    this.#sorted = this.#buffer.length;
  }

  /** Sorts the entries later than the earliest out-of-order entry. The sort is stable. */
  #sort(): void {
    if (this.#leastMs === Number.POSITIVE_INFINITY) return;
    const start = this.#indexAfter(this.#leastMs);
    const tail = this.#buffer.slice(start).sort((one, other) => one.timeMs - other.timeMs);
    for (const [at, entry] of tail.entries()) this.#buffer[start + at] = entry;
    this.#leastMs = Number.POSITIVE_INFINITY;
    this.#sorted = this.#buffer.length;
  }

  #indexAfter(timeMs: number): number {
    let low = this.#head;
    let high = this.#sorted;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#buffer[middle].timeMs <= timeMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
