/**
 * The state of all keys of one policy: a table of rows, the slab its logs lie in, and the algorithm
 * that reads and writes them. Knows nothing of other policies, names or caps.
 */
import {
  type Algorithm,
  CELLS,
  EXPIRES_AT,
  type State,
  type Terms,
} from '../../algorithms/algorithm.ts';
import { algorithms } from '../../algorithms/index.ts';
import type { Policy } from '../../policy.ts';
import { KeyTable } from './key-table.ts';
import { EntrySlab } from './slab.ts';

/** Below this many keys nothing is swept: there is nothing to win. */
const SWEPT_FROM = 1024;
/** Rows looked at for each key that comes. One would be enough to keep up. */
const SWEPT_AT_ONCE = 4;

/** The largest window, and the largest limit, whose entries fit 32-bit words. */
const NARROW = 2 ** 31;

/** Whether the entries of a policy need more than 32 bits. A limit by key might. */
export function isWide({ windowMs, terms }: Policy): boolean {
  return windowMs >= NARROW || terms === undefined || terms.limit >= NARROW;
}

export class Space {
  readonly table = new KeyTable();
  readonly algorithm: Algorithm;
  /** Points at the row that is being worked on. */
  readonly state: State;
  /** A key that has no row yet, to read from. */
  readonly blank: State;
  /** The largest terms seen, against which the use of a key is measured. */
  private largest: Terms | undefined;
  private swept = 0;
  /** The row of the key that was read last, or -1. */
  private row = -1;
  /** The time of the decision on the key that was read last: never before what its state knows. */
  timeMs = 0;

  constructor(policy: Policy) {
    this.algorithm = algorithms[policy.algorithm];
    const cells = new Float64Array(CELLS);
    const words = new Int32Array(cells.buffer);
    const entries = new EntrySlab(isWide(policy));
    this.blank = { cells, words, at: 0, entries };
    this.state = { cells, words, at: 0, entries };
  }

  /**
   * The state to decide on: the key's own, or a blank one for a key that is new. A state that lies
   * more than a window ahead was written by a wrong clock, and counts as new.
   */
  read(key: string, terms: Terms, nowMs: number): State {
    const row = this.table.find(key);
    this.row = row;
    this.timeMs = nowMs;
    if (row < 0) return this.blank;
    const { state } = this;
    this.table.point(state, row);
    const aheadMs = this.algorithm.knownMs(state, terms) - nowMs;
    return aheadMs <= 0 ? state : this.readAhead(aheadMs, terms);
  }

  private readAhead(aheadMs: number, terms: Terms): State {
    if (aheadMs > terms.windowMs) return this.blank;
    this.timeMs += aheadMs;
    return this.state;
  }

  /** Whether the key that was read last has a row; if not, `claim` adds one. */
  get isHeld(): boolean {
    return this.row >= 0;
  }

  /** The state to write into, for the key that was read last, given what `read` answered. */
  claim(read: State, terms: Terms): State {
    return read === this.blank ? this.occupy(terms) : read;
  }

  private occupy(terms: Terms): State {
    const { state, table } = this;
    if (this.row < 0) this.row = table.insert();
    table.point(state, this.row);
    this.clear(state);
    if (this.largest === undefined || terms.capacity > this.largest.capacity) this.largest = terms;
    return state;
  }

  forget(row: number): void {
    this.table.point(this.state, row);
    this.clear(this.state);
    this.table.remove(row);
  }

  /** Whether the key in a row is as good as new by now. */
  isExpired(row: number, nowMs: number): boolean {
    this.table.point(this.state, row);
    return this.state.cells[this.state.at + EXPIRES_AT] <= nowMs;
  }

  /** How much of what a key may use it has used: 1 is a key at its limit. */
  useOf(row: number, nowMs: number): number {
    const terms = this.largest!;
    this.table.point(this.state, row);
    const timeMs = Math.max(nowMs, this.algorithm.knownMs(this.state, terms));
    return 1 - this.algorithm.free(this.state, terms, timeMs) / terms.capacity;
  }

  /** Looks at the next few rows in turn and forgets the expired ones. */
  sweep(nowMs: number): void {
    if (this.table.size < SWEPT_FROM) return;
    for (let looked = 0; looked < SWEPT_AT_ONCE; looked++) {
      if (this.swept >= this.table.size) this.swept = 0;
      if (this.isExpired(this.swept, nowMs)) this.forget(this.swept);
      else this.swept++;
    }
  }

  private clear(state: State): void {
    if (this.algorithm.keepsEntries) state.entries.clear(state);
    for (let cell = 0; cell < CELLS; cell++) state.cells[state.at + cell] = 0;
  }
}
