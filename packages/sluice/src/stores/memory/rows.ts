/**
 * Rows of a hash table in typed arrays, roughly in the order of their hashes. A row has 32 bytes: a
 * 64-bit keyed hash, which identifies the key, and three cells. The low half of the hash is 0 only
 * in an empty place.
 *
 *     | low | high |  cell 0  |  cell 1  |  cell 2  |
 *
 * Linear probing: the home of a row is the place that is proportional to its hash. If another row
 * is there, the row is at a later place, with no empty place in between.
 */
import type { State } from '../../algorithms/algorithm.ts';

export const CHUNK_BITS = 15;
export const CHUNK_ROWS = 1 << CHUNK_BITS;
export const ROW_WORDS = 8;
/** Tag bit of a row number: during a resize, the row is in the new table, not in the old one. */
export const IN_NEW_TABLE = 2 ** 30;
/**
 * Unused words at the start of a chunk. Large blocks of memory start 16 bytes after a page
 * boundary, so with this padding no row crosses a cache line.
 */
const PADDING_WORDS = 4;

/** Returns the index of a row's first word in its chunk. */
export const wordAt = (place: number): number =>
  (place & (CHUNK_ROWS - 1)) * ROW_WORDS + PADDING_WORDS;

export class Rows {
  readonly words: Int32Array[] = [];
  readonly cells: Float64Array[] = [];
  readonly #scale: number;
  readonly #spare: Float64Array[];

  /** Reuses the chunks in `spare` before it allocates new ones. */
  constructor(
    readonly capacity: number,
    spare: Float64Array[],
  ) {
    this.#scale = capacity / 2 ** 32;
    this.#spare = spare;
    this.allocateTo(0);
  }

  /** Allocates memory up to a place, which linear probing may put after the last home. */
  allocateTo(place: number): void {
    while (place >>> CHUNK_BITS >= this.cells.length) {
      // A table smaller than a chunk has twice its capacity, for rows after the last home.
      const length = (Math.min(2 * this.capacity, CHUNK_ROWS) * ROW_WORDS + PADDING_WORDS) / 2;
      let cells = this.#spare.pop();
      if (cells?.length !== length) cells = new Float64Array(length);
      this.cells.push(cells);
      this.words.push(new Int32Array(cells.buffer));
    }
  }

  /** Returns the home of a hash. */
  home(low: number): number {
    return ((low >>> 0) * this.#scale) | 0;
  }

  /** Returns the low half of the hash at a place; 0 if the place is empty. */
  lowAt(place: number): number {
    return this.words[place >>> CHUNK_BITS][wordAt(place)];
  }

  /** Points `state` at the cells of a place. */
  point(state: State, place: number): void {
    state.words = this.words[place >>> CHUNK_BITS];
    state.cells = this.cells[place >>> CHUNK_BITS];
    state.at = wordAt(place) / 2 + 1;
  }

  /** Copies the row that starts at `source[at]` into the table. Returns its place. */
  add(source: Int32Array, at: number): number {
    let place = this.home(source[at]);
    this.allocateTo(place);
    while (this.lowAt(place) !== 0) place++;
    // Allocates one more place after the last row, so that every search ends at an empty place.
    this.allocateTo(place + 1);
    this.#copy(source, at, place);
    return place;
  }

  /** Removes a row, and moves later rows to earlier places to close the gap. */
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
