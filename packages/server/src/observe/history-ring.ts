/**
 * The counts of one policy: ten minutes by second and 24 hours by minute, in blocks of 120 steps.
 * Blocks without traffic are not allocated. After a single use, a policy takes 3.5 KB for ten
 * minutes: one block of seconds and one of minutes. Then only the block of minutes stays, for a
 * day. A policy in constant use takes 36 KB, or 70 KB if it has shadow decisions or failures.
 */
import { NO_FULLEST, type PolicyCounters } from './policy-counters.ts';

export const HISTORY_SECONDS = 600;
export const HISTORY_MINUTES = 1440;

/** Number of steps of a block. A step is a second or a minute. */
const BLOCK_STEPS = 120;

/**
 * `fullest` is the largest used part of a limit over all keys in a step. It is stored as an
 * integer, in ten-thousandths. This is the value of a key that has used its whole limit.
 */
const FULL = 10_000;
/** The stored value of `fullest` for a step without decisions. */
const NOT_SET = 65_535;

/** The counts of consecutive steps, oldest first. Plain data, serializable as JSON. */
export interface Counts {
  readonly allowed: number[];
  readonly denied: number[];
  readonly shadowAllowed: number[];
  readonly shadowDenied: number[];
  readonly degraded: number[];
  /** Used part of the limit, from 0 to 1, of the key that has used most; null without decisions. */
  readonly fullest: (number | null)[];
}

export const emptyCounts = (steps: number): Counts => ({
  allowed: new Array(steps).fill(0),
  denied: new Array(steps).fill(0),
  shadowAllowed: new Array(steps).fill(0),
  shadowDenied: new Array(steps).fill(0),
  degraded: new Array(steps).fill(0),
  fullest: new Array(steps).fill(null),
});

/**
 * The recorded steps of a query. The counts of `steps[i]` are added at index `places[i]` of the
 * result.
 */
export interface StepSelection {
  readonly steps: readonly number[];
  readonly places: readonly number[];
}

/** The counts of one step. */
export class StepCounts {
  allowed = 0;
  denied = 0;
  shadowAllowed = 0;
  shadowDenied = 0;
  degraded = 0;
  /** In ten-thousandths, or `NOT_SET`. */
  fullest = NOT_SET;

  add(sums: StepCounts): void {
    this.allowed += sums.allowed;
    this.denied += sums.denied;
    this.shadowAllowed += sums.shadowAllowed;
    this.shadowDenied += sums.shadowDenied;
    this.degraded += sums.degraded;
    if (sums.fullest === NOT_SET) return;
    this.fullest = this.fullest === NOT_SET ? sums.fullest : Math.max(this.fullest, sums.fullest);
  }

  get isQuiet(): boolean {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = this;
    return allowed + denied + shadowAllowed + shadowDenied + degraded === 0 && fullest === NOT_SET;
  }
}

/**
 * The increase of one policy's counters. One object is shared by all policies, to avoid up to 1,000
 * allocations per second.
 */
const increase = new StepCounts();

/**
 * What `activity` adds for a step in which the policy was checked, but another limit denied every
 * check. Above 0, so that the policy is not treated as unused.
 */
const CHECKED_ONLY = 0.001;

/**
 * Number of columns of a block: three that most policies use (`usual`), and three that few policies
 * use (`rare`).
 */
const USUAL = 3;
const RARE = 3;

/** Counts of consecutive steps. Each row holds the columns of one step. */
class Block {
  readonly #usual = new Uint32Array(BLOCK_STEPS * USUAL);
  #rare: Uint32Array | undefined = undefined;

  /** `number` is the number of whole blocks between the epoch and the start of this block. */
  constructor(readonly number: number) {
    for (let at = 0; at < BLOCK_STEPS; at++) this.#usual[at * USUAL + 2] = NOT_SET;
  }

  set(at: number, sums: StepCounts): void {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = sums;
    this.#usual[at * USUAL] = allowed;
    this.#usual[at * USUAL + 1] = denied;
    this.#usual[at * USUAL + 2] = fullest;
    if (shadowAllowed + shadowDenied + degraded > 0) {
      this.#rare ??= new Uint32Array(BLOCK_STEPS * RARE);
    }
    this.#rare?.set([shadowAllowed, shadowDenied, degraded], at * RARE);
  }

  /** Adds counts to the row of a step. */
  add(at: number, sums: StepCounts): void {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = sums;
    const usual = at * USUAL;
    this.#usual[usual] += allowed;
    this.#usual[usual + 1] += denied;
    const known = this.#usual[usual + 2];
    if (fullest !== NOT_SET && (known === NOT_SET || fullest > known)) {
      this.#usual[usual + 2] = fullest;
    }
    if (shadowAllowed + shadowDenied + degraded === 0) return;
    this.#rare ??= new Uint32Array(BLOCK_STEPS * RARE);
    this.#rare[at * RARE] += shadowAllowed;
    this.#rare[at * RARE + 1] += shadowDenied;
    this.#rare[at * RARE + 2] += degraded;
  }

  addTo(counts: Counts, to: number, at: number): void {
    counts.allowed[to] += this.#usual[at * USUAL];
    counts.denied[to] += this.#usual[at * USUAL + 1];
    const full = this.#usual[at * USUAL + 2];
    if (full !== NOT_SET) counts.fullest[to] = Math.max(counts.fullest[to] ?? 0, full / FULL);
    if (this.#rare === undefined) return;
    counts.shadowAllowed[to] += this.#rare[at * RARE];
    counts.shadowDenied[to] += this.#rare[at * RARE + 1];
    counts.degraded[to] += this.#rare[at * RARE + 2];
  }

  activity(at: number): number {
    const usual = this.#usual;
    const rare = this.#rare;
    let count = usual[at * USUAL] + usual[at * USUAL + 1];
    if (rare !== undefined) count += rare[at * RARE] + rare[at * RARE + 1] + rare[at * RARE + 2];
    // If another limit of a check denied, the check changed `fullest` of this policy, but not its
    // counts.
    return count === 0 && usual[at * USUAL + 2] !== NOT_SET ? CHECKED_ONLY : count;
  }
}

/** A ring buffer of the counts of the last steps. */
class CountsRing {
  readonly #blocks: (Block | undefined)[];

  constructor(steps: number) {
    // One block more than the steps need, because the newest block is only partly filled.
    this.#blocks = new Array(steps / BLOCK_STEPS + 1).fill(undefined);
  }

  /** Stores the counts of a step. If the step is not new, adds them to its stored counts. */
  write(step: number, sums: StepCounts, isNew: boolean): void {
    const number = Math.floor(step / BLOCK_STEPS);
    const place = number % this.#blocks.length;
    if (this.#blocks[place]?.number !== number) this.#blocks[place] = undefined;
    if (!sums.isQuiet) this.#blocks[place] ??= new Block(number);
    if (isNew) this.#blocks[place]?.set(step % BLOCK_STEPS, sums);
    else if (!sums.isQuiet) this.#blocks[place]!.add(step % BLOCK_STEPS, sums);
  }

  addTo(counts: Counts, { steps, places }: StepSelection): void {
    for (const [at, step] of steps.entries()) {
      const number = Math.floor(step / BLOCK_STEPS);
      const block = this.#blocks[number % this.#blocks.length];
      if (block?.number === number) block.addTo(counts, places[at], step % BLOCK_STEPS);
    }
  }

  /**
   * Returns the number of decisions. A step without decisions, but with a value of `fullest`,
   * counts as `CHECKED_ONLY`. So the result is above 0 for every policy that was checked.
   */
  activity({ steps }: StepSelection): number {
    let count = 0;
    let number = Number.NaN;
    let block: Block | undefined;
    // Look up each block once for all its steps: there may be 1,000 policies with 1,440 steps each.
    for (let at = 0; at < steps.length; at++) {
      const row = steps[at] - number * BLOCK_STEPS;
      if (!(row >= 0 && row < BLOCK_STEPS)) {
        number = Math.floor(steps[at] / BLOCK_STEPS);
        const found = this.#blocks[number % this.#blocks.length];
        block = found?.number === number ? found : undefined;
      }
      if (block !== undefined) count += block.activity(steps[at] - number * BLOCK_STEPS);
    }
    return count;
  }
}

/** The counts of one policy, or of all policies together, by second and by minute. */
export class CountsHistory {
  readonly second = new CountsRing(HISTORY_SECONDS);
  readonly minute = new CountsRing(HISTORY_MINUTES);

  /** Stores the counts of a second, and adds them to the counts of its minute. */
  store(second: number, sums: StepCounts, isNewMinute: boolean): void {
    this.second.write(second, sums, true);
    this.minute.write(Math.floor(second / 60), sums, isNewMinute);
  }
}

/** The history of one policy, read from its counters. */
export class PolicyHistory extends CountsHistory {
  readonly #counters: PolicyCounters;
  /** Values of the counters at the last read. */
  readonly #seen = new StepCounts();

  constructor(counters: PolicyCounters) {
    super();
    this.#counters = counters;
  }

  /** Stores the increase of the counters since the last read, and adds it to `total`. */
  write(second: number, isNewMinute: boolean, total: StepCounts): void {
    this.#read();
    this.store(second, increase, isNewMinute);
    total.add(increase);
  }

  #read(): void {
    const counters = this.#counters;
    const seen = this.#seen;
    increase.allowed = counters.allowed - seen.allowed;
    increase.denied = counters.denied - seen.denied;
    increase.shadowAllowed = counters.shadow_allowed - seen.shadowAllowed;
    increase.shadowDenied = counters.shadow_denied - seen.shadowDenied;
    increase.degraded = counters.degradedChecks - seen.degraded;
    seen.allowed = counters.allowed;
    seen.denied = counters.denied;
    seen.shadowAllowed = counters.shadow_allowed;
    seen.shadowDenied = counters.shadow_denied;
    seen.degraded = counters.degradedChecks;
    const full = Math.min(Math.max(Math.round(counters.fullest * FULL), 0), FULL);
    increase.fullest = counters.fullest === NO_FULLEST ? NOT_SET : full;
    counters.fullest = NO_FULLEST;
  }
}
