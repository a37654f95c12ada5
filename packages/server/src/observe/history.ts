/**
 * The last ten minutes, second by second. Once a second it is looked how much the tallies have
 * grown, so a decision costs nothing for it. What is decided in the moment between the end of a
 * second and that look is counted to the second.
 *
 * Each policy that something has happened to has a ring of its own. Which seconds were looked at is
 * kept once for all rings, where second `s` has the place `s mod 600`: a second that was not looked
 * at in its time reads as nothing.
 */
import { type Clock, systemClock } from 'sluice';
import { BUCKETS, type Observations } from './histogram.ts';
import { type Counts, emptyCounts, HISTORY_SECONDS, Ring } from './history-ring.ts';
import { type DecisionCounters, type PolicyCounters, ZERO_COUNTERS } from './policy-counters.ts';

export { type Counts, emptyCounts, HISTORY_SECONDS };

export const STEP_MS = 1000;

/** A clock that is set back by no more than this is waited for; by more, it begins anew there. */
export const PATIENCE_SECONDS = 5;

export interface PolicyCounts extends Counts {
  /** The policy's label. */
  readonly name: string;
}

/** The seconds that something is asked about. */
export interface Span {
  /** The start of the first. */
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
  /** The second that each place holds. */
  readonly #seconds = new Float64Array(HISTORY_SECONDS).fill(Number.NaN);
  /** How long those waited who asked for decisions: the buckets of each place. */
  readonly #durations = new Uint32Array(HISTORY_SECONDS * BUCKETS);
  readonly #seenDurations = new Float64Array(BUCKETS);
  /** The last second that was looked at. */
  #last: number;
  #cancel: (() => void) | undefined = undefined;

  constructor(source: HistorySource, clock: Clock = systemClock) {
    this.#source = source;
    this.#clock = clock;
    this.#last = this.#lastOver();
  }

  /** Looks at the end of each second from now on. */
  start(): void {
    const nowMs = this.#clock.now();
    this.#cancel = this.#clock.schedule(STEP_MS - (nowMs % STEP_MS), () => {
      this.look();
      this.start();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #lastOver(): number {
    return Math.floor(this.#clock.now() / STEP_MS) - 1;
  }

  /** The start of the last second that is over. */
  get lastMs(): number {
    return this.#lastOver() * STEP_MS;
  }

  /**
   * Takes over what has been counted since the last look, if a second has ended since. Who asks
   * about a second looks first, so that it does not depend on timers what is answered.
   */
  look(): void {
    const over = this.#lastOver();
    const ahead = this.#last - over;
    if (ahead >= 0 && ahead <= PATIENCE_SECONDS) return;
    if (ahead > 0) this.#forgetAfter(over - 1);
    // When it is late, hardly anything was served since: what was counted is of the first second.
    const first = ahead > 0 ? over : Math.max(this.#last + 1, over - HISTORY_SECONDS + 1);
    this.#write(first);
    this.#last = over;
  }

  /** What a clock that was set back has yet to come to has not been. */
  #forgetAfter(second: number): void {
    for (const [place, each] of this.#seconds.entries()) {
      if (each > second) this.#seconds[place] = Number.NaN;
    }
  }

  #write(second: number): void {
    const place = second % HISTORY_SECONDS;
    this.#seconds[place] = second;
    for (const [label, tally] of this.#source.counters.entries()) {
      let ring = this.#rings.get(label);
      if (ring === undefined) {
        if (!hasTraffic(tally)) continue;
        ring = new Ring(tally);
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

  /** Calls `use` with each second of a span that was looked at. */
  #each({ startMs, seconds }: Span, use: (at: number, second: number) => void): void {
    const first = Math.floor(startMs / STEP_MS);
    for (let at = 0; at < seconds; at++) {
      const second = first + at;
      if (this.#seconds[second % HISTORY_SECONDS] === second) use(at, second);
    }
  }

  /** How much each policy was asked for, if at all. */
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

  /** What was decided, of all policies together. */
  total(span: Span): Counts {
    const counts = emptyCounts(span.seconds);
    for (const ring of this.#rings.values()) {
      this.#each(span, (at, second) => ring.addTo(counts, at, second));
    }
    return counts;
  }

  /** What was decided, of those of the named policies that something has ever happened to. */
  policies(span: Span, names: Iterable<string>): readonly PolicyCounts[] {
    return [...names].flatMap((name) => {
      const ring = this.#rings.get(name);
      if (ring === undefined) return [];
      const counts = emptyCounts(span.seconds);
      this.#each(span, (at, second) => ring.addTo(counts, at, second));
      return [{ name, ...counts }];
    });
  }

  /** For each second, how many waited for a decision for how long, by bucket. */
  durations({ startMs, seconds }: Span): readonly (readonly number[])[] {
    const all = Array.from({ length: seconds }, () => new Array<number>(BUCKETS).fill(0));
    this.#each({ startMs, seconds }, (at, second) => {
      const place = second % HISTORY_SECONDS;
      all[at] = [...this.#durations.subarray(place * BUCKETS, (place + 1) * BUCKETS)];
    });
    return all;
  }
}

function hasTraffic(tally: PolicyCounters): boolean {
  const { allowed, denied, shadow_allowed, shadow_denied, degradedChecks, fullest } = tally;
  const count = allowed + denied + shadow_allowed + shadow_denied + degradedChecks;
  return count > 0 || fullest !== ZERO_COUNTERS;
}
