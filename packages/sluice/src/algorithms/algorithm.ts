/**
 * The contract of the five algorithms. Each is a set of functions of numbers: no clock, no key,
 * no I/O. What they mean is written at the top of each file; `windowMs` is W and `limit` is L.
 *
 * A key's state is three numbers ("cells") and, for the two logs, a list of entries. Whoever holds
 * the state lends it through a `State`; all cells zero is a new key. Cell 0 means the same for
 * every algorithm: the time from which the key is certainly as good as new. So a store can tell
 * what may be forgotten without knowing the algorithm.
 *
 * Reading functions never write. A state is only ever changed by an admission, a refund or a
 * settlement: a peek or a denial in between leaves no trace, whatever the clock does.
 */

export type AlgorithmName =
  | 'fixed-window'
  | 'sliding-log'
  | 'sliding-counter'
  | 'sliding-buckets'
  | 'token-bucket';

/** The numbers of a policy, as they apply to one key. */
export interface LimitParams {
  readonly limit: number;
  readonly windowMs: number;
  /** The length of one bucket of `sliding-buckets`: `ceil(windowMs / buckets)`. */
  readonly bucketMs: number;
  /** The largest cost that could ever fit: `burst` for a token bucket, otherwise `limit`. */
  readonly capacity: number;
}

/** How many cells a state has. */
export const CELLS = 3;

/** A place where one key's state lies: `cells[at]` to `cells[at + 2]`. */
export interface State {
  cells: Float64Array;
  /** The same memory as `cells`, as 32-bit words: where the entries keep their pointers. */
  words: Int32Array;
  at: number;
  readonly entries: Entries;
}

/**
 * The entries of a log, oldest first, each a time and a cost above zero. They keep their summed
 * cost in cell 1 of the state and where they are in cell 2. Ages are counted back from `knownMs`,
 * the latest time that an entry was written at.
 */
export interface Entries {
  /** Returns the summed cost of the entries that are at least `ageMs` old. */
  costOfAge(state: State, knownMs: number, ageMs: number): number;
  /**
   * Returns the age of the entry with which the summed cost, counted from the oldest, reaches
   * `cost`, which is at most the cost of all.
   */
  ageAtCost(state: State, knownMs: number, cost: number): number;
  /** Returns the age of the newest entry, or -1 if there is none. */
  ageOfNewest(state: State, knownMs: number): number;
  /** Adds cost at a time that is not before `knownMs`. */
  append(state: State, knownMs: number, timeMs: number, cost: number): void;
  /** Deletes the entries that are at least `ageMs` old. */
  drop(state: State, knownMs: number, ageMs: number): void;
  /**
   * Changes the cost at a time by up to `delta`: not below zero, and not beyond what keeps the
   * summed cost an exact integer. Returns the change made.
   */
  adjust(state: State, knownMs: number, timeMs: number, delta: number): number;
  /** Deletes all entries. */
  clear(state: State): void;
  /**
   * Visits the newest `most` of the entries that are younger than `ageMs`, oldest first. Returns
   * how many are younger, visited or not.
   */
  visit(
    state: State,
    knownMs: number,
    ageMs: number,
    most: number,
    see: (timeMs: number, cost: number) => void,
  ): number;
}

/** A cost that was charged, and when. */
export interface Charged {
  readonly cost: number;
  readonly atMs: number;
}

/** What a decision says of the state that it leaves. One object is used over and over. */
export interface AlgorithmResult {
  /** The largest cost that fits now; negative after an overcharge. */
  free: number;
  /** After how long the key is as good as new. */
  resetAfterMs: number;
}

export interface Algorithm {
  /** Whether a state has entries besides its cells; then its third cell belongs to them. */
  readonly keepsEntries: boolean;
  /** The latest time that the state knows of. A decision is never taken before it. */
  knownMs(state: State, params: LimitParams): number;
  /**
   * 0 if `cost`, which is at most the capacity, fits at `timeMs`; else after how long it first
   * will. If it fits and `take` is set, charges it. What else there is to say goes into `answer`.
   */
  decide(
    state: State,
    params: LimitParams,
    timeMs: number,
    cost: number,
    take: boolean,
    answer: AlgorithmResult,
  ): number;
  /**
   * Changes a charge by `delta`, in the window, entry or bucket that holds it, as far as the charge
   * still counts at `timeMs` and never below zero. Returns the change made.
   */
  adjust(state: State, params: LimitParams, timeMs: number, charge: Charged, delta: number): number;
  /**
   * Makes a new state one that has used at least `used`, until `untilMs` or later: for a key that
   * was evicted, of which no more is known.
   */
  restore(state: State, params: LimitParams, timeMs: number, used: number, untilMs: number): void;
}

/**
 * Changes the cost in a cell by `delta`, and answers the change made: never below zero, and never
 * beyond what keeps products with `windowMs` exact. Settling can charge past the limit; a debt
 * larger than that is cut to it.
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
