/**
 * The interface of the algorithms. Each algorithm is a set of pure functions of numbers: no clock,
 * no key, no I/O. Its file starts with its formula, in which `windowMs` is W and `limit` is L.
 *
 * The state of a key is three numbers ("cells") and, for `sliding-log` and `sliding-buckets`, a
 * list of entries (a "log"). The store passes the state as a `State`. All cells of a new key are
 * zero. Cell 0 has the same meaning for every algorithm: the time from which no charge of the key
 * counts any more. So a store can expire keys without knowing the algorithm.
 *
 * Only an admission, a refund or a settlement changes a state. A peek or a denial never writes,
 * even if the clock steps back.
 */

/** The parameters of a policy for one key. */
export interface LimitParams {
  readonly limit: number;
  readonly windowMs: number;
  /** The length of one bucket of `sliding-buckets`: `ceil(windowMs / buckets)`. */
  readonly bucketMs: number;
  /** The largest cost that could ever fit: `burst` for a token bucket, otherwise `limit`. */
  readonly capacity: number;
}

/** The number of cells in a state. */
export const CELLS = 3;

/** The location of one key's state: `cells[at]` to `cells[at + 2]`. */
export interface State {
  cells: Float64Array;
  /** The memory of `cells` as 32-bit words, in which `Entries` stores its pointers. */
  words: Int32Array;
  at: number;
  readonly entries: Entries;
}

/**
 * The entries of a log, oldest first. Each entry is a time and a cost above zero. Cell 1 of the
 * state is the summed cost of the entries, and cell 2 is their location. `knownMs` is the time of
 * the newest entry that was written. The age of an entry is `knownMs` minus its time.
 */
export interface Entries {
  /** Returns the summed cost of the entries that are at least `ageMs` old. */
  costOfAge(state: State, knownMs: number, ageMs: number): number;
  /**
   * Sums the costs from the oldest entry on, and returns the age of the entry at which the sum
   * reaches `cost`. `cost` is at most the summed cost of all entries.
   */
  ageAtCost(state: State, knownMs: number, cost: number): number;
  /** Returns the age of the newest entry, or -1 if there is none. */
  ageOfNewest(state: State, knownMs: number): number;
  /** Adds `cost` at `timeMs`, which is not before `knownMs`. */
  append(state: State, knownMs: number, timeMs: number, cost: number): void;
  /** Deletes the entries that are at least `ageMs` old. */
  drop(state: State, knownMs: number, ageMs: number): void;
  /**
   * Changes the cost of the entry at `timeMs` by up to `delta`: not below zero, and only while the
   * summed cost of all entries stays an exact integer. Returns the change made.
   */
  adjust(state: State, knownMs: number, timeMs: number, delta: number): number;
  /** Deletes all entries. */
  clear(state: State): void;
  /**
   * Calls `visitor` for the newest `max` entries that are younger than `ageMs`, oldest first.
   * Returns the number of entries younger than `ageMs`, including those not visited.
   */
  visit(
    state: State,
    knownMs: number,
    ageMs: number,
    max: number,
    visitor: (timeMs: number, cost: number) => void,
  ): number;
}

/** A cost that was charged, and when. */
export interface Charged {
  readonly cost: number;
  readonly atMs: number;
}

/** Output parameter of `decide`. Reused for every decision, which avoids allocating it. */
export interface AlgorithmResult {
  /** The largest cost that fits now; negative after an overcharge. */
  free: number;
  /** The time in ms until no charge of the key counts any more. */
  resetAfterMs: number;
}

/**
 * How to compute the turn of a call that waits in a queue of `acquire`: the earliest time at which
 * it can be admitted after the calls before it.
 */
export interface QueueEstimate {
  /** The cost to peek with. `earliestMs` needs the result of this peek. */
  readonly cost: number;
  /** Returns the earliest turn, in ms from now. `peeked` is the result of the peek. */
  earliestMs(peeked: {
    readonly remaining: number;
    readonly retryAfterMs: number;
    readonly resetAfterMs: number;
  }): number;
}

export interface Algorithm {
  /** The letter of the algorithm in the names of Redis keys. Changing it loses all counters. */
  readonly redisTag: string;
  /** The policy option that only this algorithm has. */
  readonly option?: 'buckets' | 'burst' | undefined;
  /** Whether a state has entries besides its cells. If so, `Entries` uses the third cell. */
  readonly keepsEntries?: true;
  /** Returns the latest time recorded in the state. A store never decides at an earlier time. */
  knownMs(state: State, params: LimitParams): number;
  /**
   * Decides whether `cost`, which is at most the capacity, fits at `timeMs`. If it fits and `take`
   * is set, charges it. Returns 0 if the cost fits, else the wait in ms until it fits. Writes the
   * remaining capacity and the reset time to `result`.
   */
  decide(
    state: State,
    params: LimitParams,
    timeMs: number,
    cost: number,
    take: boolean,
    result: AlgorithmResult,
  ): number;
  /**
   * Changes a charge by `delta` in the window, entry or bucket that holds it, if the charge still
   * counts at `timeMs`. The charge never falls below zero. Returns the change made.
   */
  adjust(state: State, params: LimitParams, timeMs: number, charge: Charged, delta: number): number;
  /**
   * Changes the state of a new key so that a cost of at least `used` counts, until `untilMs` or
   * later. Called when an evicted key is used again: the store has kept only these two numbers.
   */
  restore(state: State, params: LimitParams, timeMs: number, used: number, untilMs: number): void;
  /** Returns an upper bound, in ms, of how long a refund of a charge of `cost` has an effect. */
  refundableMs(params: LimitParams, cost: number): number;
  /**
   * Estimates the turn of a call of `cost` in a queue. The estimate is a lower bound, because a
   * call that could be admitted in time must not be denied. `demand` is the summed cost of the call
   * and of all calls before it.
   */
  queueEstimate(params: LimitParams, cost: number, demand: number): QueueEstimate;
}

/** `refundableMs` of the algorithms with windows: a charge counts for at most two windows. */
export const twoWindows = ({ windowMs }: LimitParams): number => 2 * windowMs;

/** Returns the estimate that a turn is `beyondMs` after the time at which `cost` fits. */
export const fitsAfter = (cost: number, beyondMs: number): QueueEstimate => ({
  cost,
  earliestMs: ({ retryAfterMs }) => retryAfterMs + beyondMs,
});

/**
 * Changes the cost in a cell by up to `delta`. The cost stays between zero and the largest number
 * whose product with `windowMs` is an exact integer. Only `settle` can charge past the limit, up to
 * that number. Returns the change made.
 */
export function adjustCell(
  cells: Float64Array,
  cell: number,
  delta: number,
  params: LimitParams,
): number {
  const most = Math.floor(Number.MAX_SAFE_INTEGER / params.windowMs);
  const before = cells[cell];
  cells[cell] = Math.min(Math.max(before + delta, 0), most);
  return cells[cell] - before;
}
