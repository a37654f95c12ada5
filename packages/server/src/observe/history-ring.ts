/**
 * The counts of one policy in the last ten minutes, second by second. They lie in blocks of two
 * minutes that exist only if something happened in them. A policy that was used once takes 1.5 KB,
 * until its block is older than ten minutes.
 */
import { type PolicyCounters, ZERO_COUNTERS } from './policy-counters.ts';

export const HISTORY_SECONDS = 600;

export const BLOCK_SECONDS = 120;
/** One more than ten minutes fill, because the newest block begins before the oldest has ended. */
const BLOCKS = HISTORY_SECONDS / BLOCK_SECONDS + 1;

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

/** What happened in the second that is being written: 1,000 rings are written in one turn. */
const passed = new Sums();

/** Columns of a block: three that most policies fill, and three that few do. */
const USUAL = 3;
const RARE = 3;

/** Two minutes. A second has its numbers side by side. */
class Block {
  readonly #usual = new Uint32Array(BLOCK_SECONDS * USUAL);
  #rare: Uint32Array | undefined = undefined;

  /** `number` counts blocks since the epoch. */
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
    // A limit that was released because of another limit of its check is in none of the counts.
    return count === 0 && this.#usual[at * USUAL + 2] !== NO_KEY ? 0.001 : count;
  }
}

export class Ring {
  readonly #tally: PolicyCounters;
  readonly #blocks: (Block | undefined)[] = new Array(BLOCKS).fill(undefined);
  /** What the tally said when it was last read. */
  readonly #seen = new Sums();

  constructor(tally: PolicyCounters) {
    this.#tally = tally;
  }

  /** Stores what the tally has counted since it was last read as what happened in `second`. */
  write(second: number): void {
    const number = Math.floor(second / BLOCK_SECONDS);
    const place = number % BLOCKS;
    this.#read();
    if (this.#blocks[place]?.number !== number) this.#blocks[place] = undefined;
    if (!passed.isQuiet) this.#blocks[place] ??= new Block(number);
    this.#blocks[place]?.set(second % BLOCK_SECONDS, passed);
  }

  #read(): void {
    const tally = this.#tally;
    const seen = this.#seen;
    passed.allowed = tally.allowed - seen.allowed;
    passed.denied = tally.denied - seen.denied;
    passed.shadowAllowed = tally.shadow_allowed - seen.shadowAllowed;
    passed.shadowDenied = tally.shadow_denied - seen.shadowDenied;
    passed.degraded = tally.degradedChecks - seen.degraded;
    seen.allowed = tally.allowed;
    seen.denied = tally.denied;
    seen.shadowAllowed = tally.shadow_allowed;
    seen.shadowDenied = tally.shadow_denied;
    seen.degraded = tally.degradedChecks;
    const full = Math.min(Math.max(Math.round(tally.fullest * FULL), 0), FULL);
    passed.fullest = tally.fullest === ZERO_COUNTERS ? NO_KEY : full;
    tally.fullest = ZERO_COUNTERS;
  }

  #blockOf(second: number): Block | undefined {
    const number = Math.floor(second / BLOCK_SECONDS);
    const block = this.#blocks[number % BLOCKS];
    return block?.number === number ? block : undefined;
  }

  addTo(counts: Counts, to: number, second: number): void {
    this.#blockOf(second)?.addTo(counts, to, second % BLOCK_SECONDS);
  }

  /** How many decisions there were; more than 0 if there was anything. */
  activity(second: number): number {
    return this.#blockOf(second)?.activity(second % BLOCK_SECONDS) ?? 0;
  }
}
