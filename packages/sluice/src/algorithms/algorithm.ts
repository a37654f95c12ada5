/**
 * The contract of the algorithms. Each is a set of pure functions of numbers: no clock, no key, no
 * I/O. The header of each file has its formula, in which `windowMs` is W and `limit` is L.
 *
 * A key's state is three numbers ("cells") and, for the two logs, a list of entries. The store
 * passes it as a `State`. A new key has all cells zero. Cell 0 means the same for every algorithm:
 * the time from which nothing of the key counts any more, so a store can expire keys without
 * knowing the algorithm.
 *
 * Only an admission, a refund or a settlement changes a state. A peek or a denial never writes,
 * even if the clock steps back.
 */

/** The numbers of a policy, as they apply to one key. */
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
  /** The memory of `cells` as 32-bit words, in which the entries keep their pointers. */
  words: Int32Array;
  at: number;
  readonly entries: Entries;
}

/**
 * The entries of a log, oldest first, each a time and a cost above zero. Their summed cost is in
 * cell 1 of the state, and their location in cell 2. Ages are counted back from `knownMs`, the
 * latest time at which an entry was written.
 */
export interface Entries {
  /** Returns the summed cost of the entries that are at least `ageMs` old. */
  costOfAge(state: State, knownMs: number, ageMs: number): number;
  /**
   * Returns the age of the entry with which the summed cost, counted from the oldest, reaches
   * `cost`. That is at most the cost of all entries.
   */
  ageAtCost(state: State, knownMs: number, cost: number): number;
  /** Returns the age of the newest entry, or -1 if there is none. */
  ageOfNewest(state: State, knownMs: number): number;
  /** Adds cost at a time that is not before `knownMs`. */
  append(state: State, knownMs: number, timeMs: number, cost: number): void;
  /** Deletes the entries that are at least `ageMs` old. */
  drop(state: State, knownMs: number, ageMs: number): void;
  /**
   * Changes the cost at a time by up to `delta`: not below zero, and only while the summed cost
   * stays an exact integer. Returns the change made.
   */
  adjust(state: State, knownMs: number, timeMs: number, delta: number): number;
  /** Deletes all entries. */
  clear(state: State): void;
  /**
   * Calls `visitor` for the newest `max` entries that are younger than `ageMs`, oldest first.
   * Returns how many entries are younger, visited or not.
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

/** Output parameter of `decide`, reused for every decision. */
export interface AlgorithmResult {
  /** The largest cost that fits now; negative after an overcharge. */
  free: number;
  /** The time until nothing of the key counts any more. */
  resetAfterMs: number;
}

/** How to compute the earliest turn of a call that queues behind others. */
export interface QueueEstimate {
  /** The cost to peek at. */
  readonly cost: number;
  /** Returns the earliest turn, in ms from now, given the result of that peek. */
  earliestMs(peeked: {
    readonly remaining: number;
    readonly retryAfterMs: number;
    readonly resetAfterMs: number;
  }): number;
}

export interface Algorithm {
  /** The letter that marks the algorithm in the names of Redis keys. Never change one. */
  readonly redisTag: string;
  /** The policy option that only this algorithm has. */
  readonly option?: 'buckets' | 'burst' | undefined;
  /** Whether a state has entries besides its cells. Its third cell then belongs to them. */
  readonly keepsEntries?: true;
  /** Returns the latest time recorded in the state. No decision is made for an earlier time. */
  knownMs(state: State, params: LimitParams): number;
  /**
   * Decides whether `cost`, which is at most the capacity, fits at `timeMs`. If it fits and `take`
   * is set, charges it. Returns 0 if it fits, else the wait in ms until it does. Writes the other
   * figures to `result`.
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
   * counts at `timeMs`. The result is never below zero. Returns the change made.
   */
  adjust(state: State, params: LimitParams, timeMs: number, charge: Charged, delta: number): number;
  /**
   * Turns a new state into one that has used at least `used`, until `untilMs` or later. Used for
   * an evicted key, of which no more than that is known.
   */
  restore(state: State, params: LimitParams, timeMs: number, used: number, untilMs: number): void;
  /** Returns an upper bound, in ms, of how long a refund of a charge of `cost` has an effect. */
  refundableMs(params: LimitParams, cost: number): number;
  /**
   * Estimates the turn of a call of `cost` in a queue: a lower bound, so that no call is denied
   * that would have been admitted in time. `demand` is its cost and that of all calls before it.
   */
  queueEstimate(params: LimitParams, cost: number, demand: number): QueueEstimate;
}

/** The window-based algorithms: a charge counts for at most two windows. */
export const twoWindows = ({ windowMs }: LimitParams): number => 2 * windowMs;

/** Estimates a turn as `beyondMs` after the time at which `cost` fits. */
export const fitsAfter = (cost: number, beyondMs: number): QueueEstimate => ({
  cost,
  earliestMs: ({ retryAfterMs }) => retryAfterMs + beyondMs,
});

/**
 * Changes the cost in a cell by `delta`: not below zero, and only as far as products with
 * `windowMs` stay exact. Settling can charge past the limit; a larger debt is cut to that bound.
 * Returns the change made.
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
