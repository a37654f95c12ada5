/**
 * The keys of one policy: a table of rows, the slab their logs lie in, and the algorithm that reads
 * and writes them. Knows nothing of other policies; whoever caps the keys of all lends it room.
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
import { EntrySlab } from './slab.ts';

/** Places looked at in one sweep at the most. */
const MAX_SWEPT = 64;

/** The largest window, and the largest limit, whose entries fit 32-bit words. */
const NARROW = 2 ** 31;

/** Whether the entries of a policy need more than 32 bits. A limit by key might. */
export function isWide({ windowMs, params }: Policy): boolean {
  return windowMs >= NARROW || params === undefined || params.limit >= NARROW;
}

/** The cap on the keys of all policies. */
export interface Evictor {
  /** How many keys all spaces hold; each space counts its own in and out. */
  size: number;
  /** How many cells a sketch of evicted keys has in a row. */
  readonly evictedCells: number;
  /** Called before a key is added to `space`. */
  makeRoom(table: PolicyTable, nowMs: number): void;
  /** Called once in a while, so that expired keys go also if no new ones come. */
  sweep(table: PolicyTable, places: number, nowMs: number): void;
}

/** Keys compared when one is evicted. */
const SAMPLED = 16;

export class PolicyTable implements SyncPolicyTable {
  readonly name: string;
  readonly #policy: Policy;
  readonly #evictor: Evictor;
  readonly #algorithm: Algorithm;
  readonly #table = new KeyTable();
  /** Points at the row that is being worked on. */
  readonly #state: State;
  /** A key that has no row, to read from. */
  readonly #blank: State;
  /** The state that was read last: that of a row, or the blank one. */
  #found: State;
  readonly #answer: AlgorithmResult = { free: 0, resetAfterMs: 0 };
  /** The largest terms seen, against which the use of a key is measured. */
  #largest: LimitParams | undefined;
  /** How many places are still to be looked at. */
  #looks = 0;
  /** Evicted keys that still count; made when there is the first. */
  #evicted: EvictedKeys | undefined = undefined;
  /** After how many decisions to sweep: there is a place to look at for each. */
  #untilSweep = MAX_SWEPT;
  /** The time of the last sweep, and how far the clock has to run on before the next. */
  #lastMs = 0;
  #holdMs = 0;

  constructor(policy: Policy, evictor: Evictor) {
    this.#policy = policy;
    this.#evictor = evictor;
    this.name = policy.name;
    this.#algorithm = algorithms[policy.algorithm];
    const cells = new Float64Array(CELLS);
    const words = new Int32Array(cells.buffer);
    const entries = new EntrySlab(isWide(policy));
    this.#blank = { cells, words, at: 0, entries };
    this.#state = { ...this.#blank };
    this.#found = this.#blank;
  }

  /** How many keys it holds. */
  get size(): number {
    return this.#table.size;
  }

  takeSync(params: LimitParams, key: string, cost: number, givenMs?: number): CheckResult {
    const state = this.#state;
    const answer = this.#answer;
    const algorithm = this.#algorithm;
    const row = this.#table.find(key, state);
    // Not before: the row may come from far away, and does so while the clock is read.
    const timeMs = givenMs ?? systemClock.now();
    if (row < 0 || --this.#untilSweep < 0 || algorithm.knownMs(state, params) > timeMs) {
      return this.#takePrepared(row, params, key, cost, timeMs);
    }
    const waitMs = algorithm.decide(state, params, timeMs, cost, true, answer);
    return new DecisionRecord(this.name, key, cost, params.capacity, waitMs, timeMs, answer);
  }

  /** The rarer case of `takeSync`, apart so that the other one is compiled in one piece. */
  #takePrepared(
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
      // A key that is denied for what evicted keys have used gets no row.
      const result = this.peekSync(params, key, cost, nowMs);
      if (!result.allowed) return result;
    }
    const timeMs = this.#prepare(row, params, nowMs);
    const answer = this.#answer;
    const waitMs = this.#algorithm.decide(this.#state, params, timeMs, cost, true, answer);
    return new DecisionRecord(this.name, key, cost, params.capacity, waitMs, timeMs, answer);
  }

  peekSync(params: LimitParams, key: string, cost: number, nowMs: number): CheckResult {
    const answer = this.#answer;
    const algorithm = this.#algorithm;
    const timeMs = this.#read(key, params, nowMs);
    const waitMs = algorithm.decide(this.#found, params, timeMs, cost, false, answer);
    return new PeekRecord(this.name, key, cost, params.capacity, waitMs, timeMs, answer);
  }

  adjust({ params, charge, delta }: Adjustment, nowMs: number): number {
    const timeMs = this.#timeOf(this.#table.find(charge.key, this.#state), params, nowMs);
    if (timeMs < 0) return 0;
    return this.#algorithm.adjust(this.#state, params, timeMs, charge, delta);
  }

  inspect(params: LimitParams, key: string, nowMs: number): KeyState | undefined {
    const answer = this.#answer;
    const algorithm = this.#algorithm;
    const timeMs = this.#read(key, params, nowMs);
    const state = this.#found;
    algorithm.decide(state, params, timeMs, 0, false, answer);
    const { free, resetAfterMs } = answer;
    if (resetAfterMs === 0) return undefined;
    const entries: { atMs: number; cost: number }[] = [];
    let entryCount = 0;
    const cells = [...state.cells.slice(state.at, state.at + CELLS)];
    if (algorithm.keepsEntries) {
      // Its pointers mean nothing to anybody else.
      cells[CELLS - 1] = 0;
      const knownMs = cells[0] - params.windowMs;
      const see = (atMs: number, cost: number) => entries.push({ atMs, cost });
      entryCount = state.entries.visit(state, knownMs, cells[0] - timeMs, MAX_INSPECTED, see);
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
    if (row >= 0) this.forget(row);
    table.dropText(key);
    table.hash(key);
    if (this.#evicted?.find(table.low, table.high, nowMs)) {
      const { untilMs } = this.#evicted;
      // A row that has used nothing stands between the key and what others have used.
      this.#insert(nowMs);
      this.#algorithm.restore(state, this.#largest!, nowMs, 0, untilMs);
    }
  }

  /** Adds a row for the key that was hashed last, and lets `state` point at it. */
  #insert(nowMs: number): void {
    const table = this.#table;
    const { low, high } = table;
    this.#evictor.makeRoom(this, nowMs);
    table.low = low;
    table.high = high;
    table.point(this.#state, table.insert());
    this.#evictor.size++;
  }

  forget(row: number): void {
    this.#table.point(this.#state, row);
    this.#clear(this.#state);
    this.#table.remove(row);
    this.#evictor.size--;
  }

  /**
   * Evicts one key, of which there must be one. Returns whether it still counted.
   *
   * Of a sample, the key goes that has used the least of its limit, expired keys first. If all of
   * them are at their limit, a key that was added lately and is not goes instead, else the one that
   * resets soonest. What an evicted key has used is kept in `#evicted`.
   */
  evict(nowMs: number): boolean {
    const table = this.#table;
    const state = this.#state;
    let victim = -1;
    let least = Number.POSITIVE_INFINITY;
    let soonestMs = Number.POSITIVE_INFINITY;
    const consider = (row: number): void => {
      if (row < 0) return;
      const use = Math.min(this.#usedOf(row, nowMs) / this.#largest!.capacity, 1);
      const untilMs = state.cells[state.at];
      if (use > least || (use === least && untilMs >= soonestMs)) return;
      victim = row;
      least = use;
      soonestMs = untilMs;
    };
    for (let drawn = 0; drawn < SAMPLED; drawn++) consider(table.draw());
    if (least >= 1) consider(table.recent());
    const used = this.#usedOf(victim, nowMs);
    if (used > 0) {
      this.#evicted ??= new EvictedKeys(this.#evictor.evictedCells);
      table.readHash(state);
      this.#evicted.add(table.low, table.high, used, state.cells[state.at], nowMs);
    }
    this.forget(victim);
    return used > 0;
  }

  /** Returns what a key has used, and lets `state` point at it. */
  #usedOf(row: number, nowMs: number): number {
    const state = this.#state;
    const answer = this.#answer;
    const algorithm = this.#algorithm;
    const params = this.#largest!;
    this.#table.point(state, row);
    const knownMs = algorithm.knownMs(state, params);
    // With a limit by key the terms are not the key's own, and may forget sooner than those would.
    const timeMs = this.#policy.params === undefined ? knownMs : Math.max(nowMs, knownMs);
    if (state.cells[state.at] <= nowMs) return 0;
    algorithm.decide(state, params, timeMs, 0, false, answer);
    return params.capacity - answer.free;
  }

  /** Looks at the next few places in turn and deletes the rows that have expired. */
  sweep(places: number, nowMs: number): void {
    const table = this.#table;
    const state = this.#state;
    const floorMs = this.#floorMs(nowMs);
    const { latestMs = Number.POSITIVE_INFINITY, addedMs = 0 } = this.#evicted ?? {};
    // All of it has expired, or the clock that wrote it was wrong by more than a window.
    if (latestMs <= floorMs || addedMs - nowMs > this.#policy.windowMs) this.#evicted = undefined;
    this.#looks = Math.min(this.#looks + places, table.size);
    if (floorMs === 0) return;
    // What was put off while forgetting was held is made up for, but not all at once.
    for (let looked = 0; looked < MAX_SWEPT && this.#looks > 0; looked++) {
      this.#looks--;
      const row = table.turn();
      if (row < 0) continue;
      table.point(state, row);
      // Its first cell says from when on it is as good as new.
      if (state.cells[state.at] <= floorMs) this.forget(row);
    }
  }

  /**
   * Until when keys may be forgotten by a clock that is not always right. A clock that jumps a day
   * ahead makes every key look expired, and when it is set right again they must still be there.
   * So after a jump, ahead or back, nothing is forgotten until the clock has run on for a quarter
   * of a window; and however far it jumps, that counts as a small step. And a key is kept for a
   * window after it has expired, so that a clock may step back by less than that.
   */
  #floorMs(nowMs: number): number {
    const { windowMs } = this.#policy;
    const stepMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    const isJump = stepMs < 0 || stepMs > windowMs / 4;
    if (isJump && this.#holdMs <= 0) this.#holdMs = windowMs / 4;
    this.#holdMs -= Math.min(Math.max(stepMs, 0), windowMs / 16);
    return this.#holdMs > 0 ? 0 : nowMs - windowMs;
  }

  /**
   * The time of a decision about the row that `state` points at: never before what it knows. -1 if
   * there is no row, or if it lies more than a window ahead: then the clock that wrote it was
   * wrong, and the key counts as new.
   */
  #timeOf(row: number, params: LimitParams, nowMs: number): number {
    if (row < 0) return -1;
    const knownMs = this.#algorithm.knownMs(this.#state, params);
    if (knownMs - nowMs > params.windowMs) return -1;
    return Math.max(knownMs, nowMs);
  }

  /** Gives the key that was looked for last a row if it has none; answers the time to decide at. */
  #prepare(row: number, params: LimitParams, nowMs: number): number {
    const timeMs = this.#timeOf(row, params, nowMs);
    if (timeMs >= 0) return timeMs;
    if (params.capacity > (this.#largest?.capacity ?? 0)) this.#largest = params;
    if (row >= 0) {
      this.#clear(this.#state);
      return nowMs;
    }
    this.#insert(nowMs);
    return this.#restore(this.#state, params, nowMs);
  }

  /**
   * Lets `#found` be the state of a key, or what is known of it if it has no row. Returns the time
   * of a decision about it.
   */
  #read(key: string, params: LimitParams, nowMs: number): number {
    const timeMs = this.#timeOf(this.#table.find(key, this.#state), params, nowMs);
    this.#found = timeMs < 0 ? this.#blank : this.#state;
    if (timeMs >= 0) return timeMs;
    if (this.#evicted !== undefined) this.#table.hash(key);
    return this.#restore(this.#blank, params, nowMs);
  }

  /**
   * Makes `state` that of a new key, or of an evicted one if the key hashed last may be one.
   * Returns the time of a decision about it.
   */
  #restore(state: State, params: LimitParams, nowMs: number): number {
    const table = this.#table;
    this.#clear(state);
    if (!this.#evicted?.find(table.low, table.high, nowMs)) return nowMs;
    const { used, untilMs } = this.#evicted;
    this.#algorithm.restore(state, params, nowMs, used, untilMs);
    return Math.max(nowMs, this.#algorithm.knownMs(state, params));
  }

  /** Makes a state new. */
  #clear(state: State): void {
    if (this.#algorithm.keepsEntries) state.entries.clear(state);
    state.cells.fill(0, state.at, state.at + CELLS);
  }
}
