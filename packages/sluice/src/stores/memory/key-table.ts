/**
 * The keys of one policy: a hash table in typed arrays that grows without ever stopping.
 *
 * Rows lie densely in chunks, 32 bytes each: 64 bits of identity (the keyed hash; the key itself
 * is not kept) and the three cells of the key's state.
 *
 *     | low | high |  cell 0  |  cell 1  |  cell 2  |
 *
 * The index is open addressing with linear probing, 4 bytes a slot, at most three quarters full.
 * A slot holds `row + 1` in its low bits and, above them, a tag from the hash, so that a row is
 * rarely visited in vain; 0 is empty. The row number needs as many bits as the index has slots,
 * so the tag shrinks as the index grows.
 *
 * Growing and shrinking replace the index only: a new one is allocated, and every change from then
 * on moves a few slots over. Until all are moved a key may be in either. Rows are never copied,
 * but for one: a removed row is filled with the last one, so rows stay dense, a random row is a
 * fair sample, and memory is given back when keys go.
 */
import { CELLS, type State } from '../../algorithms/algorithm.ts';
import { KeyedHash } from './hash.ts';

const CHUNK_BITS = 13;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;
const ROW_WORDS = 8;
const ROW_DOUBLES = 4;
/**
 * Doubles left out at the start of a chunk. Large blocks begin 16 bytes after a page does, so this
 * lets no row lie across two cache lines.
 */
const SKIPPED = 2;
const SMALLEST_INDEX = 256;
/** Old slots moved at each change. Two would be enough to be done before the next growth. */
const MOVES = 8;

export class KeyTable extends KeyedHash {
  /** How many rows there are; they are numbered from 0. */
  size = 0;
  private readonly cells: Float64Array[] = [];
  private readonly words: Int32Array[] = [];
  private index = new Int32Array(SMALLEST_INDEX);
  /** The index that is being replaced, and its first slot that has not been moved. */
  #old: Int32Array | undefined = undefined;
  #oldMoved = 0;

  /**
   * The row of a key, to which `state` then points, or -1. Remembers the key's hash for `insert`.
   * All in one piece, because this is where the time of a decision goes.
   */
  find(key: string, state: State): number {
    const low = this.hash(key);
    const { high, index } = this;
    const mask = index.length - 1;
    let slot = low & mask;
    for (let entry = index[slot]; entry !== 0; entry = index[slot]) {
      if (((entry ^ high) & ~mask) === 0) {
        const row = (entry & mask) - 1;
        const words = this.words[row >>> CHUNK_BITS];
        const at = (row & CHUNK_MASK) * ROW_WORDS + 2 * SKIPPED;
        if (words[at] === low && words[at + 1] === high) {
          state.at = at / 2 + 1;
          if (words === state.words) return row;
          state.words = words;
          state.cells = this.cells[row >>> CHUNK_BITS];
          return row;
        }
      }
      slot = (slot + 1) & mask;
    }
    return this.#findOld(state);
  }

  /** The same in the index that is being replaced. A slot that was moved has no row's number. */
  #findOld(state: State): number {
    const { low, high } = this;
    const old = this.#old;
    if (old === undefined) return -1;
    const mask = old.length - 1;
    for (let slot = low & mask; old[slot] !== 0; slot = (slot + 1) & mask) {
      const row = (old[slot] & mask) - 1;
      if (row >= this.size) continue;
      const words = this.#wordsOf(row);
      const at = this.#wordAt(row);
      if (words[at] !== low || words[at + 1] !== high) continue;
      this.point(state, row);
      return row;
    }
    return -1;
  }

  /** Adds the key that `find` has just not found; its cells are zero. */
  insert(): number {
    const row = this.size++;
    const chunk = row >>> CHUNK_BITS;
    if (chunk === this.words.length) {
      const cells = new Float64Array((CHUNK_MASK + 1) * ROW_DOUBLES + SKIPPED);
      this.cells.push(cells);
      this.words.push(new Int32Array(cells.buffer));
    }
    const cells = this.cells[chunk];
    const words = this.words[chunk];
    const at = this.#wordAt(row);
    cells.fill(0, at / 2 + 1, at / 2 + 1 + CELLS);
    words[at] = this.low;
    words[at + 1] = this.high;
    if (this.size * 4 > this.index.length * 3) this.#replaceIndex(this.index.length * 2);
    this.#move(MOVES);
    this.#place(row);
    return row;
  }

  /** Removes a row. The last row takes its number. */
  remove(row: number): void {
    this.#displace(row);
    const last = this.size - 1;
    if (row !== last) {
      this.#displace(last);
      this.#wordsOf(row).set(
        this.#wordsOf(last).subarray(this.#wordAt(last), this.#wordAt(last) + ROW_WORDS),
        this.#wordAt(row),
      );
      this.#place(row);
    }
    this.size = last;
    const length = this.index.length;
    if (length > SMALLEST_INDEX && last * 8 < length) this.#replaceIndex(length / 2);
    this.#move(MOVES);
    // Half a chunk of slack, so that a size that swings around a boundary does not reallocate.
    if ((this.words.length - 1.5) * (CHUNK_MASK + 1) > last) {
      this.cells.pop();
      this.words.pop();
    }
  }

  /** Lets `state` point at a row's cells. */
  point(state: State, row: number): void {
    state.cells = this.cells[row >>> CHUNK_BITS];
    state.words = this.words[row >>> CHUNK_BITS];
    state.at = (row & CHUNK_MASK) * ROW_DOUBLES + SKIPPED + ROW_DOUBLES - CELLS;
  }

  #wordsOf(row: number): Int32Array {
    return this.words[row >>> CHUNK_BITS];
  }

  #wordAt(row: number): number {
    return (row & CHUNK_MASK) * ROW_WORDS + 2 * SKIPPED;
  }

  /** Puts a row, whose identity is written, into the index. */
  #place(row: number): void {
    const index = this.index;
    const mask = index.length - 1;
    const words = this.#wordsOf(row);
    const at = this.#wordAt(row);
    let slot = words[at] & mask;
    while (index[slot] !== 0) slot = (slot + 1) & mask;
    index[slot] = (words[at + 1] & ~mask) | (row + 1);
  }

  /** Takes a row out of whichever index it is in. */
  #displace(row: number): void {
    const slot = this.#slotOf(this.index, row);
    if (slot >= 0) {
      this.#closeGap(slot);
      return;
    }
    const old = this.#old!;
    old[this.#slotOf(old, row)] = old.length - 1;
  }

  #slotOf(index: Int32Array, row: number): number {
    const mask = index.length - 1;
    let slot = this.#wordsOf(row)[this.#wordAt(row)] & mask;
    for (; index[slot] !== 0; slot = (slot + 1) & mask) {
      if ((index[slot] & mask) === row + 1) return slot;
    }
    return -1;
  }

  /** Empties a slot of the index and moves later ones up, so that no probe ends too early. */
  #closeGap(gap: number): void {
    const index = this.index;
    const mask = index.length - 1;
    for (let slot = (gap + 1) & mask; index[slot] !== 0; slot = (slot + 1) & mask) {
      const row = (index[slot] & mask) - 1;
      const home = this.#wordsOf(row)[this.#wordAt(row)] & mask;
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
      index[gap] = index[slot];
      gap = slot;
    }
    index[gap] = 0;
  }

  #replaceIndex(length: number): void {
    this.#move(Number.POSITIVE_INFINITY);
    this.#old = this.index;
    this.#oldMoved = 0;
    this.index = new Int32Array(length);
  }

  /** Moves some of what is left in the old index to the new one. */
  #move(slots: number): void {
    const old = this.#old;
    if (old === undefined) return;
    const mask = old.length - 1;
    const end = Math.min(this.#oldMoved + slots, old.length);
    for (let slot = this.#oldMoved; slot < end; slot++) {
      const number = old[slot] & mask;
      if (number === 0 || number === mask) continue;
      old[slot] = mask;
      this.#place(number - 1);
    }
    this.#oldMoved = end;
    if (end === old.length) this.#old = undefined;
  }
}
