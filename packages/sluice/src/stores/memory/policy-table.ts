/**
 * The keys of one policy: a hash table of states, a slab with the entries of sliding logs, and the
 * algorithm that reads and writes both. The `Evictor` limits the keys of all policies together.
 */
import {
  type Algorithm,
  type AlgorithmResult,
  CELLS,
  type LimitParams,
  type State,
} from '../../algorithms/algorithm.ts';
import { algorithms } from '../../algorithms/index.ts';
import { systemClock } from '../../clock.ts';
import { type CheckResult, DecisionRecord, PeekRecord } from '../../decision.ts';
import type { Policy } from '../../policy.ts';
import {
  type Adjustment,
  type KeyState,
  MAX_INSPECTED,
  type SyncPolicyTable,
} from '../../store.ts';
import { EvictedKeys } from './evicted-keys.ts';
import { KeyTable } from './key-table.ts';
import type { Records, TableRecord } from './records.ts';
import { EntrySlab } from './slab.ts';
import { SweepClock } from './sweep-clock.ts';

/** Maximum number of places that one sweep checks, and the number of decisions between sweeps. */
const MAX_SWEPT = 64;

/**
 * Records to delete at most for each place that is swept. A decision adds at most one record. But
 * if decisions are far apart, only every fourth sweep may delete records, see `SweepClock`.
 */
const RECORDS_PER_PLACE = 8;

/** If the window and the limit are below this, the entries fit in 32-bit words. */
const NARROW_BOUND = 2 ** 31;

/**
 * Whether the entries of a policy may need more than 32 bits. If the limit is a function of the
 * key, it has no known bound.
 */
export function isWide({ windowMs, params }: Policy): boolean {
  return windowMs >= NARROW_BOUND || params === undefined || params.limit >= NARROW_BOUND;
}

/** Limits the number of keys over all policies. */
export interface Evictor {
  /** Number of keys of all tables. Each table adds and subtracts its own keys. */
  size: number;
  /** Number of cells in a row of `EvictedKeys`. */
  readonly evictedCells: number;
  /** Called before a key is added to `table`. */
  makeRoom(table: PolicyTable, nowMs: number): void;
  /** Called every 64 decisions, so that expired keys are deleted even if no key is added. */
  sweep(table: PolicyTable, places: number, nowMs: number): void;
}

/** The keys of one policy. The memory store calls these methods. */
export interface LimitTable extends SyncPolicyTable {
  /** The table with the states of the keys. */
  readonly base: PolicyTable;
  adjust(adjustment: TableAdjustment, nowMs: number): number;
  /** Called for a limit that denied a check. Returns the result to report. */
  onDenied?(result: CheckResult): CheckResult;
  inspect(params: LimitParams, key: string, nowMs: number): KeyState | undefined;
  reset(key: string, nowMs: number): void;
}

/** An adjustment without its policy, because the table belongs to the policy. */
type TableAdjustment = Omit<Adjustment, 'policy'>;

/** Number of random keys that are compared to evict one. */
const SAMPLE_SIZE = 16;

export class PolicyTable implements LimitTable {
  readonly name: string;
  /** The holds or blocks of the keys; see `HoldTable` and `BlockTable`. */
  records: Records<TableRecord> | undefined = undefined;
  readonly #policy: Policy;
  readonly #evictor: Evictor;
  readonly #algorithm: Algorithm;
  readonly #table = new KeyTable();
  /** Points at the row that was found last. */
  readonly #state: State;
  /** The state of keys that have no row. */
  readonly #blank: State;
  /** The state that was read last: `#state` or `#blank`. */
  #found: State;
  readonly #result: AlgorithmResult = { free: 0, resetAfterMs: 0 };
  /** The parameters with the largest capacity so far, by which the use of keys is compared. */
  #largestParams: LimitParams | undefined;
  /** Number of places that are due for a sweep. */
  #placesDue = 0;
  /** Upper bounds for evicted keys. Created when a key with unexpired charges is evicted. */
  #evicted: EvictedKeys | undefined = undefined;
  /** Number of decisions until the next sweep. */
  #untilSweep = MAX_SWEPT;
  readonly #sweepClock: SweepClock;

  constructor(policy: Policy, evictor: Evictor) {
    this.#policy = policy;
    this.#evictor = evictor;
    this.name = policy.name;
    this.#sweepClock = new SweepClock(policy.windowMs);
    this.#algorithm = algorithms[policy.algorithm];
    const cells = new Float64Array(CELLS);
    const words = new Int32Array(cells.buffer);
    const entries = new EntrySlab(isWide(policy));
    this.#blank = { cells, words, at: 0, entries };
    this.#state = { ...this.#blank };
    this.#found = this.#blank;
  }

  get base(): this {
    return this;
  }

  get size(): number {
    return this.#table.size;
  }

  /** Returns 53 bits of the keyed hash of a key. */
  hashOf(key: string): number {
    return this.#table.hash53(key);
  }

  takeSync(params: LimitParams, key: string, cost: number, givenMs?: number): CheckResult {
    const state = this.#state;
    const result = this.#result;
    const algorithm = this.#algorithm;
    const row = this.#table.find(key, state);
    // The clock is read after `find`: while the CPU reads it, the row is loaded from memory.
    const timeMs = givenMs ?? systemClock.now();
    if (row < 0 || --this.#untilSweep < 0 || algorithm.knownMs(state, params) > timeMs) {
      return this.#takeSlowPath(row, params, key, cost, timeMs);
    }
    const waitMs = algorithm.decide(state, params, timeMs, cost, true, result);
    return new DecisionRecord(this.name, key, cost, params.capacity, waitMs, timeMs, result);
  }

  /** The slow path of `takeSync`, in a function of its own so that V8 can inline the fast path. */
  #takeSlowPath(
    row: number,
    params: LimitParams,
    key: string,
    cost: number,
    nowMs: number,
  ): CheckResult {
    if (this.#untilSweep < 0) {
      this.#untilSweep = MAX_SWEPT;
      this.#evictor.sweep(this, MAX_SWEPT, nowMs);
      return this.takeSync(params, key, cost, nowMs);
    }
    if (row < 0 && this.#evicted !== undefined) {
      // A key that is denied because of its upper bound in `#evicted` gets no row.
      const peeked = this.peekSync(params, key, cost, nowMs);
      if (!peeked.allowed) return peeked;
    }
    const timeMs = this.#prepare(row, params, nowMs);
    const result = this.#result;
    const waitMs = this.#algorithm.decide(this.#state, params, timeMs, cost, true, result);
    return new DecisionRecord(this.name, key, cost, params.capacity, waitMs, timeMs, result);
  }

  peekSync(params: LimitParams, key: string, cost: number, nowMs: number): CheckResult {
    const result = this.#result;
    const algorithm = this.#algorithm;
    const timeMs = this.#read(key, params, nowMs);
    const waitMs = algorithm.decide(this.#found, params, timeMs, cost, false, result);
    return new PeekRecord(this.name, key, cost, params.capacity, waitMs, timeMs, result);
  }

  /** Charges a cost, even past the limit. Returns the time at which it was charged. */
  charge(params: LimitParams, key: string, cost: number, nowMs: number): number {
    const timeMs = this.#prepare(this.#table.find(key, this.#state), params, nowMs);
    const unlimited = { ...params, limit: Number.MAX_SAFE_INTEGER };
    this.#algorithm.decide(this.#state, unlimited, timeMs, cost, true, this.#result);
    return timeMs;
  }

  adjust({ params, charge, delta }: TableAdjustment, nowMs: number): number {
    const timeMs = this.#timeOf(this.#table.find(charge.key, this.#state), params, nowMs);
    if (timeMs < 0) return 0;
    return this.#algorithm.adjust(this.#state, params, timeMs, charge, delta);
  }

  /** With `isKept`, returns a state even if no charge of the key counts. */
  inspect(params: LimitParams, key: string, nowMs: number, isKept = false): KeyState | undefined {
    const result = this.#result;
    const algorithm = this.#algorithm;
    const timeMs = this.#read(key, params, nowMs);
    const state = this.#found;
    algorithm.decide(state, params, timeMs, 0, false, result);
    const { free, resetAfterMs } = result;
    if (resetAfterMs === 0 && !isKept) return undefined;
    const entries: { atMs: number; cost: number }[] = [];
    let entryCount = 0;
    const cells = [...state.cells.slice(state.at, state.at + CELLS)];
    if (algorithm.keepsEntries) {
      // The last cell is the location of the entries in the slab, which callers cannot use.
      cells[CELLS - 1] = 0;
      const knownMs = cells[0] - params.windowMs;
      const collect = (atMs: number, cost: number) => entries.push({ atMs, cost });
      entryCount = state.entries.visit(state, knownMs, cells[0] - timeMs, MAX_INSPECTED, collect);
    }
    return {
      policy: this.name,
      algorithm: this.#policy.algorithm,
      used: params.capacity - free,
      remaining: Math.max(free, 0),
      resetAfterMs,
      cells,
      entries,
      entryCount,
    };
  }

  /** Deletes a key. */
  reset(key: string, nowMs: number): void {
    const table = this.#table;
    const state = this.#state;
    const row = table.find(key, state);
    if (row >= 0) this.delete(row);
    table.dropText(key);
    table.hash(key);
    if (this.#evicted?.find(table.low, table.high, nowMs)) {
      const { untilMs } = this.#evicted;
      // A single key cannot be deleted from the sketch. But a row takes precedence over the sketch,
      // so add a row that has used nothing.
      this.#insert(nowMs);
      this.#algorithm.restore(state, this.#largestParams!, nowMs, 0, untilMs);
    }
  }

  /** Adds a row for the key that was hashed last, and points `#state` at it. */
  #insert(nowMs: number): void {
    const table = this.#table;
    const { low, high } = table;
    this.#evictor.makeRoom(this, nowMs);
    table.low = low;
    table.high = high;
    table.point(this.#state, table.insert());
    this.#evictor.size++;
  }

  delete(row: number): void {
    this.#table.point(this.#state, row);
    this.#clear(this.#state);
    this.#table.remove(row);
    this.#evictor.size--;
  }

  /**
   * Evicts one key of a table that is not empty. Returns whether the key had unexpired charges.
   *
   * Selects the least used key of a random sample; the use of an expired key is 0. If all keys of
   * the sample are at their limit, a recently added key is compared too. Of keys with equal use,
   * the key that expires first is evicted. `#evicted` keeps an upper bound of its use.
   */
  evict(nowMs: number): boolean {
    const table = this.#table;
    const state = this.#state;
    let victim = -1;
    let least = Number.POSITIVE_INFINITY;
    let soonestMs = Number.POSITIVE_INFINITY;
    const consider = (row: number): void => {
      if (row < 0) return;
      const use = Math.min(this.#usedOf(row, nowMs) / this.#largestParams!.capacity, 1);
      const untilMs = state.cells[state.at];
      if (use > least || (use === least && untilMs >= soonestMs)) return;
      victim = row;
      least = use;
      soonestMs = untilMs;
    };
    for (let drawn = 0; drawn < SAMPLE_SIZE; drawn++) consider(table.draw());
    if (least >= 1) consider(table.recent());
    const used = this.#usedOf(victim, nowMs);
    if (used > 0) {
      this.#evicted ??= new EvictedKeys(this.#evictor.evictedCells);
      table.readHash(state);
      this.#evicted.add(table.low, table.high, used, state.cells[state.at], nowMs);
    }
    this.delete(victim);
    return used > 0;
  }

  /** Returns the cost that the key of a row has used, and points `#state` at the row. */
  #usedOf(row: number, nowMs: number): number {
    const state = this.#state;
    const result = this.#result;
    const algorithm = this.#algorithm;
    const params = this.#largestParams!;
    this.#table.point(state, row);
    const knownMs = algorithm.knownMs(state, params);
    // If the limit is a function of the key, `params` may belong to another key. With those
    // parameters, a decision at `nowMs` could return less than the key has used. A decision at the
    // latest time in the state cannot.
    const timeMs = this.#policy.params === undefined ? knownMs : Math.max(nowMs, knownMs);
    if (state.cells[state.at] <= nowMs) return 0;
    algorithm.decide(state, params, timeMs, 0, false, result);
    return params.capacity - result.free;
  }

  /** Checks the next `places` places, at most `MAX_SWEPT`, and deletes expired rows. */
  sweep(places: number, nowMs: number): void {
    const table = this.#table;
    const state = this.#state;
    const floorMs = this.#sweepClock.floorMs(nowMs);
    const { latestMs = Number.POSITIVE_INFINITY, addedMs = 0 } = this.#evicted ?? {};
    // Deletes the sketch if all its cells have expired, or if a clock far ahead has written it.
    if (latestMs <= floorMs || addedMs - nowMs > this.#policy.windowMs) this.#evicted = undefined;
    this.#placesDue = Math.min(this.#placesDue + places, table.size);
    if (floorMs === 0) return;
    this.records?.expire(RECORDS_PER_PLACE * places, floorMs);
    // Also checks places that were due while no key could be deleted, a few at a time.
    for (let visited = 0; visited < MAX_SWEPT && this.#placesDue > 0; visited++) {
      this.#placesDue--;
      const row = table.nextSwept();
      if (row < 0) continue;
      table.point(state, row);
      if (state.cells[state.at] <= floorMs) this.delete(row);
    }
  }

  /**
   * Returns the time to use for a decision about the row at `#state`. It is never before `knownMs`,
   * the latest time in the state. Returns -1 if there is no row. Also returns -1 if `knownMs` is
   * more than a window ahead: the clock that wrote the state was wrong, so the state is ignored.
   */
  #timeOf(row: number, params: LimitParams, nowMs: number): number {
    if (row < 0) return -1;
    const knownMs = this.#algorithm.knownMs(this.#state, params);
    if (knownMs - nowMs > params.windowMs) return -1;
    return Math.max(knownMs, nowMs);
  }

  /**
   * Returns the time to use for a decision. If the key of the last `find` has no row, adds one. If
   * a wrong clock has written the row, clears it.
   */
  #prepare(row: number, params: LimitParams, nowMs: number): number {
    const timeMs = this.#timeOf(row, params, nowMs);
    if (timeMs >= 0) return timeMs;
    if (params.capacity > (this.#largestParams?.capacity ?? 0)) this.#largestParams = params;
    if (row >= 0) {
      this.#clear(this.#state);
      return nowMs;
    }
    this.#insert(nowMs);
    return this.#restore(this.#state, params, nowMs);
  }

  /**
   * Sets `#found` to the state of a key. If the key has no row, the state is that of a new key, or
   * an upper bound if the key may have been evicted. Returns the time to use for a decision.
   */
  #read(key: string, params: LimitParams, nowMs: number): number {
    const timeMs = this.#timeOf(this.#table.find(key, this.#state), params, nowMs);
    this.#found = timeMs < 0 ? this.#blank : this.#state;
    if (timeMs >= 0) return timeMs;
    if (this.#evicted !== undefined) this.#table.hash(key);
    return this.#restore(this.#blank, params, nowMs);
  }

  /**
   * Sets `state` to that of a new key, or to an upper bound if the key that was hashed last may
   * have been evicted. Returns the time to use for a decision.
   */
  #restore(state: State, params: LimitParams, nowMs: number): number {
    const table = this.#table;
    this.#clear(state);
    if (!this.#evicted?.find(table.low, table.high, nowMs)) return nowMs;
    const { used, untilMs } = this.#evicted;
    this.#algorithm.restore(state, params, nowMs, used, untilMs);
    return Math.max(nowMs, this.#algorithm.knownMs(state, params));
  }

  #clear(state: State): void {
    if (this.#algorithm.keepsEntries) state.entries.clear(state);
    state.cells.fill(0, state.at, state.at + CELLS);
  }
}
