/**
 * The last ten minutes, per second. Reads the increase of the counters once a second, so it adds no
 * cost to a decision. Decisions between the end of a second and its read count to that second.
 *
 * Each policy with traffic has a ring. The recorded seconds are stored once for all rings, second
 * `s` at index `s mod 600`. Seconds that were not recorded read as 0.
 */
import { type Clock, systemClock } from 'sluice';
import { BUCKETS, type Observations } from './histogram.ts';
import { type Counts, emptyCounts, HISTORY_SECONDS, Ring } from './history-ring.ts';
import { type DecisionCounters, NO_FULLEST, type PolicyCounters } from './policy-counters.ts';

export { type Counts, emptyCounts, HISTORY_SECONDS };

export const STEP_MS = 1000;

/** If the clock is set back by at most this, recording pauses; if by more, it restarts there. */
export const PATIENCE_SECONDS = 5;

export interface PolicyCounts extends Counts {
  /** The policy's label. */
  readonly name: string;
}

/** A range of seconds. */
export interface Span {
  /** Start of the first second. */
  readonly startMs: number;
  readonly seconds: number;
}

export interface HistorySource {
  readonly counters: DecisionCounters;
  readonly durations: ReadonlyMap<string, Observations>;
}

export class History {
  readonly #source: HistorySource;
  readonly #clock: Clock;
  readonly #rings = new Map<string, Ring>();
  /** The second recorded at each index. */
  readonly #seconds = new Float64Array(HISTORY_SECONDS).fill(Number.NaN);
  /** Histogram buckets of decision durations at each index. */
  readonly #durations = new Uint32Array(HISTORY_SECONDS * BUCKETS);
  readonly #seenDurations = new Float64Array(BUCKETS);
  /** The last recorded second. */
  #last: number;
  #cancel: (() => void) | undefined = undefined;

  constructor(source: HistorySource, clock: Clock = systemClock) {
    this.#source = source;
    this.#clock = clock;
    this.#last = this.#lastComplete();
  }

  /** Records at the end of each second. */
  start(): void {
    const nowMs = this.#clock.now();
    this.#cancel = this.#clock.schedule(STEP_MS - (nowMs % STEP_MS), () => {
      this.record();
      this.start();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #lastComplete(): number {
    return Math.floor(this.#clock.now() / STEP_MS) - 1;
  }

  /** Start of the last complete second. */
  get lastMs(): number {
    return this.#lastComplete() * STEP_MS;
  }

  /**
   * Records the increase of the counters if a second has ended since the last call. Readers call it
   * first, so that results do not depend on timers.
   */
  record(): void {
    const complete = this.#lastComplete();
    const ahead = this.#last - complete;
    if (ahead >= 0 && ahead <= PATIENCE_SECONDS) return;
    if (ahead > 0) this.#deleteAfter(complete - 1);
    // A late call means a blocked event loop, so the increase belongs to the first second.
    const first = ahead > 0 ? complete : Math.max(this.#last + 1, complete - HISTORY_SECONDS + 1);
    this.#write(first);
    this.#last = complete;
  }

  /** Deletes seconds that lie in the future after the clock was set back. */
  #deleteAfter(second: number): void {
    for (const [place, each] of this.#seconds.entries()) {
      if (each > second) this.#seconds[place] = Number.NaN;
    }
  }

  #write(second: number): void {
    const place = second % HISTORY_SECONDS;
    this.#seconds[place] = second;
    for (const [label, counters] of this.#source.counters.entries()) {
      let ring = this.#rings.get(label);
      if (ring === undefined) {
        if (!hasTraffic(counters)) continue;
        ring = new Ring(counters);
        this.#rings.set(label, ring);
      }
      ring.write(second);
    }
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      let count = 0;
      for (const { buckets } of this.#source.durations.values()) count += buckets[bucket];
      this.#durations[place * BUCKETS + bucket] = count - this.#seenDurations[bucket];
      this.#seenDurations[bucket] = count;
    }
  }

  /** Calls `use` with each recorded second of a span. */
  #each({ startMs, seconds }: Span, use: (at: number, second: number) => void): void {
    const first = Math.floor(startMs / STEP_MS);
    for (let at = 0; at < seconds; at++) {
      const second = first + at;
      if (this.#seconds[second % HISTORY_SECONDS] === second) use(at, second);
    }
  }

  /** Returns the number of decisions of each policy with traffic. */
  activity(span: Span): readonly (readonly [name: string, count: number])[] {
    const all = [...this.#rings].map(([name, ring]) => {
      let count = 0;
      this.#each(span, (_, second) => {
        count += ring.activity(second);
      });
      return [name, count] as const;
    });
    return all.filter(([, count]) => count > 0);
  }

  /** Returns the counts of all policies together. */
  total(span: Span): Counts {
    const counts = emptyCounts(span.seconds);
    for (const ring of this.#rings.values()) {
      this.#each(span, (at, second) => ring.addTo(counts, at, second));
    }
    return counts;
  }

  /** Returns the counts of those of the named policies that have had traffic. */
  policies(span: Span, names: Iterable<string>): readonly PolicyCounts[] {
    return [...names].flatMap((name) => {
      const ring = this.#rings.get(name);
      if (ring === undefined) return [];
      const counts = emptyCounts(span.seconds);
      this.#each(span, (at, second) => ring.addTo(counts, at, second));
      return [{ name, ...counts }];
    });
  }

  /** Returns the histogram buckets of decision durations of each second. */
  durations({ startMs, seconds }: Span): readonly (readonly number[])[] {
    const all = Array.from({ length: seconds }, () => new Array<number>(BUCKETS).fill(0));
    this.#each({ startMs, seconds }, (at, second) => {
      const place = second % HISTORY_SECONDS;
      all[at] = [...this.#durations.subarray(place * BUCKETS, (place + 1) * BUCKETS)];
    });
    return all;
  }
}

function hasTraffic(counters: PolicyCounters): boolean {
  const { allowed, denied, shadow_allowed, shadow_denied, degradedChecks, fullest } = counters;
  const count = allowed + denied + shadow_allowed + shadow_denied + degradedChecks;
  return count > 0 || fullest !== NO_FULLEST;
}
