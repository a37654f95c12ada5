/**
 * History of decisions: the last ten minutes by second, and the last 24 hours by minute. Reads the
 * increase of the counters once a second, so it adds no cost to a decision. A decision after the
 * end of a second, but before the counters are read, counts towards that second.
 *
 * Each policy with traffic has ring buffers of counts. The numbers of the recorded steps are stored
 * once for all policies, step `s` at index `s mod length`. The counts of a step that was not
 * recorded are 0.
 */
import { type Clock, systemClock } from 'sluice';
import { BUCKETS, type Observations } from './histogram.ts';
import {
  type Counts,
  CountsHistory,
  emptyCounts,
  HISTORY_MINUTES,
  HISTORY_SECONDS,
  PolicyHistory,
  StepCounts,
  type StepSelection,
} from './history-ring.ts';
import { type DecisionCounters, NO_FULLEST, type PolicyCounters } from './policy-counters.ts';

export { type Counts, emptyCounts, HISTORY_MINUTES, HISTORY_SECONDS };

export const STEP_MS = 1000;
export const MINUTE_MS = 60_000;

/**
 * If the clock is set back by at most this many seconds, recording pauses until the clock has
 * caught up. If the clock is set back further, recording restarts.
 */
export const MAX_PAUSE_SECONDS = 5;

export interface PolicyCounts extends Counts {
  /** The policy's label. */
  readonly name: string;
}

/** A time range, divided into steps. */
export interface Span {
  /** Start of the first step. */
  readonly startMs: number;
  readonly seconds: number;
  /** Length of a step: a second (default), or a number of minutes. */
  readonly stepMs?: number;
}

export const stepsOf = ({ seconds, stepMs = STEP_MS }: Span): number =>
  (seconds * STEP_MS) / stepMs;

/** The seconds or minutes that were recorded. */
class RecordedSteps {
  /** The step recorded at each index. */
  readonly #steps: Float64Array;

  constructor(length: number) {
    this.#steps = new Float64Array(length).fill(Number.NaN);
  }

  has(step: number): boolean {
    return this.#steps[step % this.#steps.length] === step;
  }

  /** Returns whether the step is new. */
  add(step: number): boolean {
    const isNew = !this.has(step);
    this.#steps[step % this.#steps.length] = step;
    return isNew;
  }

  deleteAfter(step: number): void {
    for (const [place, each] of this.#steps.entries()) {
      if (each > step) this.#steps[place] = Number.NaN;
    }
  }
}

export interface HistorySource {
  readonly counters: DecisionCounters;
  readonly durations: ReadonlyMap<string, Observations>;
}

export class History {
  readonly #source: HistorySource;
  readonly #clock: Clock;
  readonly #policies = new Map<string, PolicyHistory>();
  /** The sums over all policies, which avoid reading the counts of 1,000 policies for a total. */
  readonly #totals = new CountsHistory();
  readonly #seconds = new RecordedSteps(HISTORY_SECONDS);
  readonly #minutes = new RecordedSteps(HISTORY_MINUTES);
  /** Histogram buckets of decision durations, by index of the second. */
  readonly #durations = new Uint32Array(HISTORY_SECONDS * BUCKETS);
  readonly #seenDurations = new Float64Array(BUCKETS);
  /** The last recorded second. */
  #last: number;
  /** The first second of the recording. */
  #first: number;
  #cancel: (() => void) | undefined = undefined;

  constructor(source: HistorySource, clock: Clock = systemClock) {
    this.#source = source;
    this.#clock = clock;
    this.#last = this.#lastComplete();
    this.#first = this.#last + 1;
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

  /** Start of the last complete minute. */
  get lastMinuteMs(): number {
    return Math.floor(this.#clock.now() / MINUTE_MS - 1) * MINUTE_MS;
  }

  /** Start of the recording. The counts of earlier steps are unknown. */
  get sinceMs(): number {
    return this.#first * STEP_MS;
  }

  /**
   * Records the increase of the counters if a second has ended since the last call. Code that reads
   * the history calls this function first, so that results do not depend on timers.
   */
  record(): void {
    const complete = this.#lastComplete();
    const ahead = this.#last - complete;
    if (ahead >= 0 && ahead <= MAX_PAUSE_SECONDS) return;
    if (ahead > 0) this.#deleteAfter(complete - 1);
    // If the call is late, the event loop was blocked. The counted decisions were then made in the
    // first second since the last call.
    const first = ahead > 0 ? complete : Math.max(this.#last + 1, complete - HISTORY_SECONDS + 1);
    this.#write(first);
    this.#last = complete;
    this.#first = Math.min(this.#first, first);
  }

  /** Deletes the steps after `second`. They are in the future if the clock was set back. */
  #deleteAfter(second: number): void {
    this.#seconds.deleteAfter(second);
    this.#minutes.deleteAfter(Math.floor((second + 1) / 60));
  }

  #write(second: number): void {
    const place = second % HISTORY_SECONDS;
    this.#seconds.add(second);
    const isNewMinute = this.#minutes.add(Math.floor(second / 60));
    const total = new StepCounts();
    for (const [label, counters] of this.#source.counters.entries()) {
      let policy = this.#policies.get(label);
      if (policy === undefined) {
        if (!hasTraffic(counters)) continue;
        policy = new PolicyHistory(counters);
        this.#policies.set(label, policy);
      }
      policy.write(second, isNewMinute, total);
    }
    this.#totals.store(second, total, isNewMinute);
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      let count = 0;
      for (const { buckets } of this.#source.durations.values()) count += buckets[bucket];
      this.#durations[place * BUCKETS + bucket] = count - this.#seenDurations[bucket];
      this.#seenDurations[bucket] = count;
    }
  }

  /** Returns the recorded seconds or minutes of a span, and for each the index of its step. */
  #recorded({ startMs, seconds, stepMs = STEP_MS }: Span): StepSelection {
    const [unitMs, recorded] =
      stepMs < MINUTE_MS ? [STEP_MS, this.#seconds] : [MINUTE_MS, this.#minutes];
    const first = Math.floor(startMs / unitMs);
    const unitsPerStep = stepMs / unitMs;
    const units = (seconds * STEP_MS) / unitMs;
    const all = Array.from({ length: units }, (_, unit) => unit).filter((unit) =>
      recorded.has(first + unit),
    );
    return {
      steps: all.map((unit) => first + unit),
      places: all.map((unit) => Math.floor(unit / unitsPerStep)),
    };
  }

  /** Returns the number of decisions of each policy with traffic. */
  activity(span: Span): readonly (readonly [name: string, count: number])[] {
    const unit = unitOf(span);
    const steps = this.#recorded(span);
    const all = [...this.#policies].map(
      ([name, policy]) => [name, policy[unit].activity(steps)] as const,
    );
    return all.filter(([, count]) => count > 0);
  }

  /** Returns the counts of all policies together. */
  total(span: Span): Counts {
    const counts = emptyCounts(stepsOf(span));
    this.#totals[unitOf(span)].addTo(counts, this.#recorded(span));
    return counts;
  }

  /** Returns the counts of the named policies. Leaves out policies without traffic. */
  policies(span: Span, names: Iterable<string>): readonly PolicyCounts[] {
    const unit = unitOf(span);
    const steps = this.#recorded(span);
    return [...names].flatMap((name) => {
      const policy = this.#policies.get(name);
      if (policy === undefined) return [];
      const counts = emptyCounts(stepsOf(span));
      policy[unit].addTo(counts, steps);
      return [{ name, ...counts }];
    });
  }

  /** Returns the histogram buckets of decision durations of each second. */
  durations({ startMs, seconds }: Span): readonly (readonly number[])[] {
    const all = Array.from({ length: seconds }, () => new Array<number>(BUCKETS).fill(0));
    const { steps, places } = this.#recorded({ startMs, seconds });
    for (const [at, second] of steps.entries()) {
      const place = second % HISTORY_SECONDS;
      all[places[at]] = [...this.#durations.subarray(place * BUCKETS, (place + 1) * BUCKETS)];
    }
    return all;
  }
}

const unitOf = ({ stepMs = STEP_MS }: Span): 'second' | 'minute' =>
  stepMs < MINUTE_MS ? 'second' : 'minute';

function hasTraffic(counters: PolicyCounters): boolean {
  const { allowed, denied, shadow_allowed, shadow_denied, degradedChecks, fullest } = counters;
  const count = allowed + denied + shadow_allowed + shadow_denied + degradedChecks;
  return count > 0 || fullest !== NO_FULLEST;
}
