/**
 * Puts entries in order. Servers write a line when an answer is done, so a log is nearly in order but
 * not quite. Entries wait until nothing older can come within the bound; whatever is later than that
 * is let through at the time reached, because a limiter's time does not run backwards, and counted.
 */
import type { Entry } from './entry.ts';

/** How far a line may lie behind the newest one before it. */
export const DEFAULT_LATENESS_MS = 10_000;

export class Orderer {
  readonly #latenessMs: number;
  /** Those that wait, oldest first; what lies before `#head` has gone. */
  #waiting: Entry[] = [];
  #head = 0;
  #newestMs = Number.NEGATIVE_INFINITY;
  #releasedMs = Number.NEGATIVE_INFINITY;
  /** How many came too late to be put in their place. */
  late = 0;
  /** How many were not in order, but could be put there. */
  moved = 0;

  constructor(latenessMs = DEFAULT_LATENESS_MS) {
    this.#latenessMs = latenessMs;
  }

  /** Takes entries as they come, and answers those whose turn it is. */
  add(entries: readonly Entry[]): Entry[] {
    for (const entry of entries) this.#place(entry);
    return this.#release(this.#newestMs - this.#latenessMs);
  }

  /** All that still wait. */
  end(): Entry[] {
    return this.#release(Number.POSITIVE_INFINITY);
  }

  #place(entry: Entry): void {
    const { timeMs } = entry;
    if (timeMs >= this.#newestMs) {
      this.#newestMs = timeMs;
      this.#waiting.push(entry);
      return;
    }
    if (timeMs < this.#releasedMs) this.late++;
    else this.moved++;
    this.#waiting.splice(this.#placeOf(timeMs), 0, entry);
  }

  /** After all that are as old: lines of the same time keep their order. */
  #placeOf(timeMs: number): number {
    let low = this.#head;
    let high = this.#waiting.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#waiting[middle].timeMs <= timeMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #release(untilMs: number): Entry[] {
    let end = this.#head;
    while (end < this.#waiting.length && this.#waiting[end].timeMs <= untilMs) end++;
    const released = this.#waiting.slice(this.#head, end);
    if (released.length > 0) {
      this.#releasedMs = Math.max(this.#releasedMs, released[released.length - 1].timeMs);
    }
    this.#head = end;
    // The array is cut only now and then, or each cut would move all that wait.
    if (this.#head > 4096 && this.#head > this.#waiting.length / 2) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
    return released;
  }
}
