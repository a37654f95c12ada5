/**
 * Rows of keys, roughly in the order of their hashes, in typed arrays. A row is 32 bytes: 64 bits
 * of identity (a keyed hash, whose low half is never 0: that marks an empty place) and three cells.
 *
 *     | low | high |  cell 0  |  cell 1  |  cell 2  |
 *
 * There is no index. A row lies at the place that its hash is in proportion to or, if that was
 * taken, later, with no empty place in between.
 */
import type { State } from '../../algorithms/algorithm.ts';

export const CHUNK_BITS = 15;
export const CHUNK_ROWS = 1 << CHUNK_BITS;
export const ROW_WORDS = 8;
/**
 * Words left out at the start of a chunk. Large blocks begin 16 bytes after a page does, so this
 * lets no row lie across two cache lines.
 */
const SKIPPED = 4;

/** Where a row begins in its chunk. */
export const wordAt = (place: number): number => (place & (CHUNK_ROWS - 1)) * ROW_WORDS + SKIPPED;

export class Rows {
  readonly words: Int32Array[] = [];
  readonly cells: Float64Array[] = [];
  readonly #scale: number;
  readonly #spare: Float64Array[];

  /** New chunks are taken from `spare` while there are any. */
  constructor(
    readonly capacity: number,
    spare: Float64Array[],
  ) {
    this.#scale = capacity / 2 ** 32;
    this.#spare = spare;
    this.reach(0);
  }

  /** Sees to it that there is memory for a place: rows may go past the last of the capacity. */
  reach(place: number): void {
    while (place >>> CHUNK_BITS >= this.cells.length) {
      // A table of less than a chunk has room for all of its rows to be late.
      const length = (Math.min(2 * this.capacity, CHUNK_ROWS) * ROW_WORDS + SKIPPED) / 2;
      let cells = this.#spare.pop();
      if (cells?.length !== length) cells = new Float64Array(length);
      this.cells.push(cells);
      this.words.push(new Int32Array(cells.buffer));
    }
  }

  /** Where a hash belongs. */
  home(low: number): number {
    return ((low >>> 0) * this.#scale) | 0;
  }

  /** The low half of the identity at a place; 0 if it is empty. */
  lowAt(place: number): number {
    return this.words[place >>> CHUNK_BITS][wordAt(place)];
  }

  /** Lets `state` point at the cells of a place. */
  point(state: State, place: number): void {
    state.words = this.words[place >>> CHUNK_BITS];
    state.cells = this.cells[place >>> CHUNK_BITS];
    state.at = wordAt(place) / 2 + 1;
  }

  /** Adds the row that begins at `source[at]`, and answers its place. */
  add(source: Int32Array, at: number): number {
    let place = this.home(source[at]);
    this.reach(place);
    while (this.lowAt(place) !== 0) place++;
    // There is always a place after a row, so that nobody who looks for one runs out of them.
    this.reach(place + 1);
    this.#copy(source, at, place);
    return place;
  }

  /** Removes a row. Later ones move up, so that there is no empty place before them. */
  remove(place: number): void {
    let gap = place;
    for (let next = gap + 1; this.lowAt(next) !== 0; next++) {
      if (this.home(this.lowAt(next)) > gap) continue;
      this.#copy(this.words[next >>> CHUNK_BITS], wordAt(next), gap);
      gap = next;
    }
    this.words[gap >>> CHUNK_BITS][wordAt(gap)] = 0;
  }

  #copy(source: Int32Array, at: number, place: number): void {
    const words = this.words[place >>> CHUNK_BITS];
    const to = wordAt(place);
    for (let word = 0; word < ROW_WORDS; word++) words[to + word] = source[at + word];
  }
}
