/**
 * The counts of one policy in the last ten minutes, per second, in blocks of two minutes. Blocks
 * without traffic are not allocated. A policy that was used once takes 1.5 KB until its block is
 * older than ten minutes.
 */
import { NO_FULLEST, type PolicyCounters } from './policy-counters.ts';

export const HISTORY_SECONDS = 600;

export const BLOCK_SECONDS = 120;
/** Ten minutes, plus one block because the newest is only partly filled. */
const BLOCKS = HISTORY_SECONDS / BLOCK_SECONDS + 1;

/** Fullness of a key is stored in ten-thousandths. */
const FULL = 10_000;
const NO_KEY = 65_535;

/** Decisions per second, oldest first. Plain data, serializable as JSON. */
export interface Counts {
  readonly allowed: number[];
  readonly denied: number[];
  readonly shadowAllowed: number[];
  readonly shadowDenied: number[];
  readonly degraded: number[];
  /** Used part of the limit of the fullest key, from 0 to 1; null without decisions. */
  readonly fullest: (number | null)[];
}

export const emptyCounts = (seconds: number): Counts => ({
  allowed: new Array(seconds).fill(0),
  denied: new Array(seconds).fill(0),
  shadowAllowed: new Array(seconds).fill(0),
  shadowDenied: new Array(seconds).fill(0),
  degraded: new Array(seconds).fill(0),
  fullest: new Array(seconds).fill(null),
});

class Sums {
  allowed = 0;
  denied = 0;
  shadowAllowed = 0;
  shadowDenied = 0;
  degraded = 0;
  /** In ten-thousandths, or NO_KEY. */
  fullest = NO_KEY;

  get isQuiet(): boolean {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = this;
    return allowed + denied + shadowAllowed + shadowDenied + degraded === 0 && fullest === NO_KEY;
  }
}

/** Counts of the second being written. Shared: up to 1,000 rings are written in one turn. */
const passed = new Sums();

/** Columns of a block: three that most policies use, and three that few use. */
const USUAL = 3;
const RARE = 3;

/** Two minutes, row by row: a row holds the columns of one second. */
class Block {
  readonly #usual = new Uint32Array(BLOCK_SECONDS * USUAL);
  #rare: Uint32Array | undefined = undefined;

  /** `number` is the index of the block since the epoch. */
  constructor(readonly number: number) {
    for (let at = 0; at < BLOCK_SECONDS; at++) this.#usual[at * USUAL + 2] = NO_KEY;
  }

  set(at: number, sums: Sums): void {
    const { allowed, denied, shadowAllowed, shadowDenied, degraded, fullest } = sums;
    this.#usual[at * USUAL] = allowed;
    this.#usual[at * USUAL + 1] = denied;
    this.#usual[at * USUAL + 2] = fullest;
    if (shadowAllowed + shadowDenied + degraded > 0) {
      this.#rare ??= new Uint32Array(BLOCK_SECONDS * RARE);
    }
    this.#rare?.set([shadowAllowed, shadowDenied, degraded], at * RARE);
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
    let count = this.#usual[at * USUAL] + this.#usual[at * USUAL + 1];
    for (let column = 0; column < RARE; column++) count += this.#rare?.[at * RARE + column] ?? 0;
    // A limit that was released because another limit of its check denied is in none of the counts.
    return count === 0 && this.#usual[at * USUAL + 2] !== NO_KEY ? 0.001 : count;
  }
}

export class Ring {
  readonly #counters: PolicyCounters;
  readonly #blocks: (Block | undefined)[] = new Array(BLOCKS).fill(undefined);
  /** Values of the counters at the last read. */
  readonly #seen = new Sums();

  constructor(counters: PolicyCounters) {
    this.#counters = counters;
  }

  /** Stores the increase of the counters since the last read under `second`. */
  write(second: number): void {
    const number = Math.floor(second / BLOCK_SECONDS);
    const place = number % BLOCKS;
    this.#read();
    if (this.#blocks[place]?.number !== number) this.#blocks[place] = undefined;
    if (!passed.isQuiet) this.#blocks[place] ??= new Block(number);
    this.#blocks[place]?.set(second % BLOCK_SECONDS, passed);
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

  #blockOf(second: number): Block | undefined {
    const number = Math.floor(second / BLOCK_SECONDS);
    const block = this.#blocks[number % BLOCKS];
    return block?.number === number ? block : undefined;
  }

  addTo(counts: Counts, to: number, second: number): void {
    this.#blockOf(second)?.addTo(counts, to, second % BLOCK_SECONDS);
  }

  /** Returns the number of decisions; a fraction if the policy only released limits. */
  activity(second: number): number {
    return this.#blockOf(second)?.activity(second % BLOCK_SECONDS) ?? 0;
  }
}
