/**
 * The counts of one policy: ten minutes by second and 24 hours by minute, in blocks of 120 steps.
 * Blocks without traffic are not allocated. A policy that was used once takes 3.5 KB for ten
 * minutes, and then half of it for a day. A policy that is always used takes 36 KB, or 70 KB if it
 * has shadow decisions or failures.
 */
import { NO_FULLEST, type PolicyCounters } from './policy-counters.ts';

export const HISTORY_SECONDS = 600;
export const HISTORY_MINUTES = 1440;

/** Number of steps of a block. A step is a second or a minute. */
const BLOCK_STEPS = 120;

/** The stored value of `fullest` for a full key: it is stored in ten-thousandths. */
const FULL = 10_000;
const NO_KEY = 65_535;

/** Decisions of consecutive steps, oldest first. Plain data, serializable as JSON. */
export interface Counts {
  readonly allowed: number[];
  readonly denied: number[];
  readonly shadowAllowed: number[];
  readonly shadowDenied: number[];
  readonly degraded: number[];
  /** Used part of the limit of the fullest key, from 0 to 1; null without decisions. */
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

/** Recorded steps, and for each the index in the result to which its counts are added. */
export interface Steps {
  readonly steps: readonly number[];
  readonly places: readonly number[];
}

export class Sums {
  allowed = 0;
  denied = 0;
  shadowAllowed = 0;
  shadowDenied = 0;
  degraded = 0;
  /** In ten-thousandths, or NO_KEY. */
  fullest = NO_KEY;

  add(sums: Sums): void {
    this.allowed += sums.allowed;
    this.denied += sums.denied;
    this.shadowAllowed += sums.shadowAllowed;
    this.shadowDenied += sums.shadowDenied;
    this.degraded += sums.degraded;
    if (sums.fullest === NO_KEY) return;
    this.fullest = this.fullest === NO_KEY ? sums.fullest : Math.max(this.fullest, sums.fullest);
  }

  get isQuiet(): boolean {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = this;
    return allowed + denied + shadowAllowed + shadowDenied + degraded === 0 && fullest === NO_KEY;
  }
}

/** Counts of the second being written. Shared, to avoid an object for each of up to 1,000 rings. */
const passed = new Sums();

/** Number of columns of a block: three that most policies use, and three that few policies use. */
const USUAL = 3;
const RARE = 3;

/** Counts of consecutive steps. Each row holds the columns of one step. */
class Block {
  readonly #usual = new Uint32Array(BLOCK_STEPS * USUAL);
  #rare: Uint32Array | undefined = undefined;

  /** `number` is the index of the block since the epoch. */
  constructor(readonly number: number) {
    for (let at = 0; at < BLOCK_STEPS; at++) this.#usual[at * USUAL + 2] = NO_KEY;
  }

  set(at: number, sums: Sums): void {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = sums;
    this.#usual[at * USUAL] = allowed;
    this.#usual[at * USUAL + 1] = denied;
    this.#usual[at * USUAL + 2] = fullest;
    if (shadowAllowed + shadowDenied + degraded > 0) {
      this.#rare ??= new Uint32Array(BLOCK_STEPS * RARE);
    }
    this.#rare?.set([shadowAllowed, shadowDenied, degraded], at * RARE);
  }

  /** Adds to a row that `set` has written. */
  add(at: number, sums: Sums): void {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = sums;
    const usual = at * USUAL;
    this.#usual[usual] += allowed;
    this.#usual[usual + 1] += denied;
    const known = this.#usual[usual + 2];
    if (fullest !== NO_KEY && (known === NO_KEY || fullest > known)) {
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
    if (full !== NO_KEY) counts.fullest[to] = Math.max(counts.fullest[to] ?? 0, full / FULL);
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
    // A released limit (another limit of its check denied) only changes `fullest`, not the counts.
    return count === 0 && usual[at * USUAL + 2] !== NO_KEY ? 0.001 : count;
  }
}

/** The last steps of one policy. */
class BlockRing {
  readonly #blocks: (Block | undefined)[];

  constructor(steps: number) {
    // One more block, because the newest is only partly filled.
    this.#blocks = new Array(steps / BLOCK_STEPS + 1).fill(undefined);
  }

  /** Stores `sums` for a new step. If the step is not new, adds `sums` to its stored counts. */
  write(step: number, sums: Sums, isNew: boolean): void {
    const number = Math.floor(step / BLOCK_STEPS);
    const place = number % this.#blocks.length;
    if (this.#blocks[place]?.number !== number) this.#blocks[place] = undefined;
    if (!sums.isQuiet) this.#blocks[place] ??= new Block(number);
    if (isNew) this.#blocks[place]?.set(step % BLOCK_STEPS, sums);
    else if (!sums.isQuiet) this.#blocks[place]!.add(step % BLOCK_STEPS, sums);
  }

  addTo(counts: Counts, { steps, places }: Steps): void {
    for (const [at, step] of steps.entries()) {
      const number = Math.floor(step / BLOCK_STEPS);
      const block = this.#blocks[number % this.#blocks.length];
      if (block?.number === number) block.addTo(counts, places[at], step % BLOCK_STEPS);
    }
  }

  /** Returns the number of decisions; a number below 1 if the policy only had released limits. */
  activity({ steps }: Steps): number {
    let count = 0;
    let number = Number.NaN;
    let block: Block | undefined;
    // Looks up a block once for all its steps: there may be 1,440 steps of 1,000 policies.
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

/** Seconds and minutes of one policy, or of all policies together. */
export class Rings {
  readonly second = new BlockRing(HISTORY_SECONDS);
  readonly minute = new BlockRing(HISTORY_MINUTES);

  /** Stores `sums` under `second` and its minute. */
  store(second: number, sums: Sums, isNewMinute: boolean): void {
    this.second.write(second, sums, true);
    this.minute.write(Math.floor(second / 60), sums, isNewMinute);
  }
}

/** The history of one policy, read from its counters. */
export class Ring extends Rings {
  readonly #counters: PolicyCounters;
  /** Values of the counters at the last read. */
  readonly #seen = new Sums();

  constructor(counters: PolicyCounters) {
    super();
    this.#counters = counters;
  }

  /** Stores the increase of the counters since the last read, and adds it to `total`. */
  write(second: number, isNewMinute: boolean, total: Sums): void {
    this.#read();
    this.store(second, passed, isNewMinute);
    total.add(passed);
  }

  #read(): void {
    const counters = this.#counters;
    const seen = this.#seen;
    passed.allowed = counters.allowed - seen.allowed;
    passed.denied = counters.denied - seen.denied;
    passed.shadowAllowed = counters.shadow_allowed - seen.shadowAllowed;
    passed.shadowDenied = counters.shadow_denied - seen.shadowDenied;
    passed.degraded = counters.degradedChecks - seen.degraded;
    seen.allowed = counters.allowed;
    seen.denied = counters.denied;
    seen.shadowAllowed = counters.shadow_allowed;
    seen.shadowDenied = counters.shadow_denied;
    seen.degraded = counters.degradedChecks;
    const full = Math.min(Math.max(Math.round(counters.fullest * FULL), 0), FULL);
    passed.fullest = counters.fullest === NO_FULLEST ? NO_KEY : full;
    counters.fullest = NO_FULLEST;
  }
}
