/**
 * The last ten minutes, second by second. Once a second it is looked how much the tallies have
 * grown, so a decision costs nothing for it. What is decided in the moment between the end of a
 * second and that look is counted to the second.
 *
 * Each policy that something has happened to has a ring of numbers, in which second `s` has the
 * place `s mod 600`. Which second a place holds at the moment is kept once for all rings: what was
 * not looked at in its time is nobody's, and reads as nothing.
 */
import { type Clock, systemClock } from 'sluice';
import { BUCKETS, type Observations } from './histogram.ts';
import { NOTHING_DECIDED, type Tallies, type Tally } from './tally.ts';

export const STEP_MS = 1000;
export const HISTORY_SECONDS = 600;

/** A clock that is set back by no more than this is waited for; by more, it begins anew there. */
export const PATIENCE_SECONDS = 5;

/** The fullness of keys is kept in ten-thousandths; this is more than there are. */
const FULL = 10_000;
const NO_KEY = 65_535;

/** What was decided in some seconds, the oldest first. Plain data: it survives JSON. */
export interface Counts {
  readonly allowed: number[];
  readonly denied: number[];
  readonly shadowAllowed: number[];
  readonly shadowDenied: number[];
  readonly degraded: number[];
  /** How full the fullest key was that was decided, from 0 to 1; null if none was. */
  readonly fullest: (number | null)[];
}

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

export const emptyCounts = (seconds: number): Counts => ({
  allowed: new Array(seconds).fill(0),
  denied: new Array(seconds).fill(0),
  shadowAllowed: new Array(seconds).fill(0),
  shadowDenied: new Array(seconds).fill(0),
  degraded: new Array(seconds).fill(0),
  fullest: new Array(seconds).fill(null),
});

class Ring {
  readonly allowed = new Uint32Array(HISTORY_SECONDS);
  readonly denied = new Uint32Array(HISTORY_SECONDS);
  readonly shadowAllowed = new Uint32Array(HISTORY_SECONDS);
  readonly shadowDenied = new Uint32Array(HISTORY_SECONDS);
  readonly degraded = new Uint32Array(HISTORY_SECONDS);
  readonly fullest = new Uint16Array(HISTORY_SECONDS).fill(NO_KEY);
  readonly #tally: Tally;
  /** What the tally said when it was last looked at. */
  readonly #seen = { allowed: 0, denied: 0, shadowAllowed: 0, shadowDenied: 0, degraded: 0 };

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  write(place: number): void {
    const tally = this.#tally;
    const seen = this.#seen;
    this.allowed[place] = tally.allowed - seen.allowed;
    this.denied[place] = tally.denied - seen.denied;
    this.shadowAllowed[place] = tally.shadow_allowed - seen.shadowAllowed;
    this.shadowDenied[place] = tally.shadow_denied - seen.shadowDenied;
    this.degraded[place] = tally.degradedChecks - seen.degraded;
    seen.allowed = tally.allowed;
    seen.denied = tally.denied;
    seen.shadowAllowed = tally.shadow_allowed;
    seen.shadowDenied = tally.shadow_denied;
    seen.degraded = tally.degradedChecks;
    const { fullest } = tally;
    const full = Math.min(Math.max(Math.round(fullest * FULL), 0), FULL);
    this.fullest[place] = fullest === NOTHING_DECIDED ? NO_KEY : full;
    tally.fullest = NOTHING_DECIDED;
  }

  addTo(counts: Counts, at: number, place: number): void {
    counts.allowed[at] += this.allowed[place];
    counts.denied[at] += this.denied[place];
    counts.shadowAllowed[at] += this.shadowAllowed[place];
    counts.shadowDenied[at] += this.shadowDenied[place];
    counts.degraded[at] += this.degraded[place];
    const full = this.fullest[place];
    if (full !== NO_KEY) counts.fullest[at] = Math.max(counts.fullest[at] ?? 0, full / FULL);
  }

  /** How much there was; more than 0 if anything was. */
  activity(place: number): number {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = this;
    const inShadow = shadowAllowed[place] + shadowDenied[place];
    const count = allowed[place] + denied[place] + inShadow + degraded[place];
    // One that was let go because of another limit is in none of them.
    return count === 0 && fullest[place] !== NO_KEY ? 0.001 : count;
  }
}

export interface HistorySource {
  readonly tallies: Tallies;
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
    for (const [label, tally] of this.#source.tallies.entries()) {
      let ring = this.#rings.get(label);
      if (ring === undefined) {
        if (!hasTraffic(tally)) continue;
        ring = new Ring(tally);
        this.#rings.set(label, ring);
      }
      ring.write(place);
    }
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      let count = 0;
      for (const { buckets } of this.#source.durations.values()) count += buckets[bucket];
      this.#durations[place * BUCKETS + bucket] = count - this.#seenDurations[bucket];
      this.#seenDurations[bucket] = count;
    }
  }

  /** Calls `use` with the place of each second of a span that was looked at. */
  #each({ startMs, seconds }: Span, use: (at: number, place: number) => void): void {
    const first = Math.floor(startMs / STEP_MS);
    for (let at = 0; at < seconds; at++) {
      const place = (first + at) % HISTORY_SECONDS;
      if (this.#seconds[place] === first + at) use(at, place);
    }
  }

  /** How much each policy was asked for, if at all. */
  activity(span: Span): readonly (readonly [name: string, count: number])[] {
    const all = [...this.#rings].map(([name, ring]) => {
      let count = 0;
      this.#each(span, (_, place) => {
        count += ring.activity(place);
      });
      return [name, count] as const;
    });
    return all.filter(([, count]) => count > 0);
  }

  /** What was decided, of all policies together. */
  total(span: Span): Counts {
    const counts = emptyCounts(span.seconds);
    for (const ring of this.#rings.values()) {
      this.#each(span, (at, place) => ring.addTo(counts, at, place));
    }
    return counts;
  }

  /** What was decided, of those of the named policies that something has ever happened to. */
  policies(span: Span, names: Iterable<string>): readonly PolicyCounts[] {
    return [...names].flatMap((name) => {
      const ring = this.#rings.get(name);
      if (ring === undefined) return [];
      const counts = emptyCounts(span.seconds);
      this.#each(span, (at, place) => ring.addTo(counts, at, place));
      return [{ name, ...counts }];
    });
  }

  /** For each second, how many waited for a decision for how long, by bucket. */
  durations({ startMs, seconds }: Span): readonly (readonly number[])[] {
    const all = Array.from({ length: seconds }, () => new Array<number>(BUCKETS).fill(0));
    this.#each({ startMs, seconds }, (at, place) => {
      all[at] = [...this.#durations.subarray(place * BUCKETS, (place + 1) * BUCKETS)];
    });
    return all;
  }
}

function hasTraffic(tally: Tally): boolean {
  const { allowed, denied, shadow_allowed, shadow_denied, degradedChecks, fullest } = tally;
  const count = allowed + denied + shadow_allowed + shadow_denied + degradedChecks;
  return count > 0 || fullest !== NOTHING_DECIDED;
}
