/**
 * The keys of one policy: a table of rows, the slab their logs lie in, and the algorithm that reads
 * and writes them. Knows nothing of other policies; whoever caps the keys of all lends it room.
 */
import {
  type Algorithm,
  type Answer,
  CELLS,
  type State,
  type Terms,
} from '../../algorithms/algorithm.ts';
import { algorithms } from '../../algorithms/index.ts';
import { systemClock } from '../../clock.ts';
import { DecisionRecord, PeekRecord, type Quote } from '../../decision.ts';
import type { Policy } from '../../policy.ts';
import type { Adjustment, KeyState, SyncSpace } from '../../store.ts';
import { KeyTable } from './key-table.ts';
import { EntrySlab } from './slab.ts';

/** Places to look at for each key that comes: some are empty, and some have live keys. */
const SWEPT_AT_ONCE = 8;
/** Places looked at in one go at the most. */
const MOST_SWEPT = 64;

/** The largest window, and the largest limit, whose entries fit 32-bit words. */
const NARROW = 2 ** 31;

/** Whether the entries of a policy need more than 32 bits. A limit by key might. */
export function isWide({ windowMs, terms }: Policy): boolean {
  return windowMs >= NARROW || terms === undefined || terms.limit >= NARROW;
}

/** Where new keys get their place from. */
export interface Room {
  /** Called before a key is added to `space`. */
  makeRoom(space: Space, nowMs: number): void;
}

export class Space implements SyncSpace {
  private readonly name: string;
  private readonly algorithm: Algorithm;
  readonly table = new KeyTable();
  /** Points at the row that is being worked on. */
  private readonly state: State;
  /** A key that has no row yet, to read from. */
  readonly #blank: State;
  private readonly answer: Answer = { free: 0, resetAfterMs: 0 };
  /** The largest terms seen, against which the use of a key is measured. */
  #largest: Terms | undefined;
  /** How many places are still to be looked at. */
  #looks = 0;
  /** The time of the last sweep, and how far the clock has to run on before the next. */
  #lastMs = 0;
  #holdMs = 0;

  constructor(
    private readonly policy: Policy,
    private readonly room: Room,
  ) {
    this.name = policy.name;
    this.algorithm = algorithms[policy.algorithm];
    const cells = new Float64Array(CELLS);
    const words = new Int32Array(cells.buffer);
    const entries = new EntrySlab(isWide(policy));
    this.#blank = { cells, words, at: 0, entries };
    this.state = { ...this.#blank };
  }

  takeSync(terms: Terms, key: string, cost: number, givenMs?: number): Quote {
    const { state, answer, algorithm } = this;
    const row = this.table.find(key, state);
    // Not before: the row may come from far away, and does so while the clock is read.
    let timeMs = givenMs ?? systemClock.now();
    if (row < 0 || algorithm.knownMs(state, terms) > timeMs) {
      timeMs = this.#prepare(row, terms, timeMs);
    }
    const waitMs = algorithm.decide(state, terms, timeMs, cost, true, answer);
    return new DecisionRecord(this.name, key, cost, terms.capacity, waitMs, timeMs, answer);
  }

  peekSync(terms: Terms, key: string, cost: number, nowMs: number): Quote {
    const { state, answer, algorithm } = this;
    const knownMs = this.#timeOf(this.table.find(key, state), terms, nowMs);
    const read = knownMs < 0 ? this.#blank : state;
    const timeMs = Math.max(knownMs, nowMs);
    const waitMs = algorithm.decide(read, terms, timeMs, cost, false, answer);
    return new PeekRecord(this.name, key, cost, terms.capacity, waitMs, timeMs, answer);
  }

  adjust({ terms, charge, delta }: Adjustment, nowMs: number): number {
    const timeMs = this.#timeOf(this.table.find(charge.key, this.state), terms, nowMs);
    if (timeMs < 0) return 0;
    return this.algorithm.adjust(this.state, terms, timeMs, charge, delta);
  }

  inspect(terms: Terms, key: string, nowMs: number): KeyState | undefined {
    const { state, answer, algorithm } = this;
    const timeMs = this.#timeOf(this.table.find(key, state), terms, nowMs);
    if (timeMs < 0) return undefined;
    algorithm.decide(state, terms, timeMs, 0, false, answer);
    const { free, resetAfterMs } = answer;
    if (resetAfterMs === 0) return undefined;
    const entries: { atMs: number; cost: number }[] = [];
    const cells = [...state.cells.slice(state.at, state.at + CELLS)];
    if (algorithm.keepsEntries) {
      // Its pointers mean nothing to anybody else.
      cells[CELLS - 1] = 0;
      state.entries.visit(state, cells[0] - terms.windowMs, (atMs, cost) => {
        if (atMs > timeMs - terms.windowMs) entries.push({ atMs, cost });
      });
    }
    return {
      policy: this.name,
      algorithm: this.policy.algorithm,
      used: terms.capacity - free,
      remaining: Math.max(free, 0),
      resetAfterMs,
      cells,
      entries,
      entryCount: entries.length,
    };
  }

  /** Forgets a key; answers whether there was one. */
  reset(key: string): boolean {
    const row = this.table.find(key, this.state);
    if (row >= 0) this.forget(row);
    return row >= 0;
  }

  forget(row: number): void {
    this.table.point(this.state, row);
    this.#clear();
    this.table.remove(row);
  }

  /** How much of what a key may use it has used: 0 is as good as new, 1 is at its limit. */
  useOf(row: number, nowMs: number): number {
    const { state, answer, algorithm } = this;
    const terms = this.#largest!;
    this.table.point(state, row);
    const timeMs = Math.max(nowMs, algorithm.knownMs(state, terms));
    algorithm.decide(state, terms, timeMs, 0, false, answer);
    return 1 - answer.free / terms.capacity;
  }

  /** Looks at the next few rows in turn and forgets the expired ones. */
  sweep(nowMs: number): void {
    const { state, table } = this;
    const floorMs = this.#floorMs(nowMs);
    this.#looks = Math.min(this.#looks + SWEPT_AT_ONCE, table.size);
    if (floorMs === 0) return;
    // What was put off while forgetting was held is made up for, but not all at once.
    for (let looked = 0; looked < MOST_SWEPT && this.#looks > 0; looked++) {
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
    const { windowMs } = this.policy;
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
  #timeOf(row: number, terms: Terms, nowMs: number): number {
    if (row < 0) return -1;
    const knownMs = this.algorithm.knownMs(this.state, terms);
    if (knownMs - nowMs > terms.windowMs) return -1;
    return Math.max(knownMs, nowMs);
  }

  /** Gives the key that was looked for last a row if it has none; answers the time to decide at. */
  #prepare(row: number, terms: Terms, nowMs: number): number {
    const timeMs = this.#timeOf(row, terms, nowMs);
    if (timeMs >= 0) return timeMs;
    if (row < 0) {
      this.room.makeRoom(this, nowMs);
      this.table.point(this.state, this.table.insert());
    } else this.#clear();
    if (terms.capacity > (this.#largest?.capacity ?? 0)) this.#largest = terms;
    return nowMs;
  }

  /** Makes the row new that `state` points at. */
  #clear(): void {
    const { state } = this;
    if (this.algorithm.keepsEntries) state.entries.clear(state);
    state.cells.fill(0, state.at, state.at + CELLS);
  }
}
