/**
 * The keys of one policy: a hash table that grows and shrinks incrementally.
 *
 * Rows are in the order of their hashes, so a larger table has the same order, with more empty
 * places. The place that a hash determines is its home, see `rows.ts`. During a resize, there are
 * two tables. Every insertion and removal moves some rows from the start of the old table to the
 * end of the new table, which reuses the freed chunks of the old one. The hash of a key determines
 * which of the two tables contains it.
 */
import type { State } from '../../algorithms/algorithm.ts';
import { copyOf } from '../../key.ts';
import { KeyedHash } from './hash.ts';
import { SLOT_WORDS, shouldCache, slotOf, slotsFor, USE_HOT_KEYS } from './hot-keys.fast-path.ts';
import { CHUNK_BITS, CHUNK_ROWS, IN_NEW_TABLE, ROW_WORDS, Rows, wordAt } from './rows.ts';

const MIN_CAPACITY = 16;
/** A table grows if a larger part of its places holds rows than this. */
const MAX_LOAD = 0.85;
/** A table shrinks if a smaller part of its places holds rows than this. */
const MIN_LOAD = 0.2;
/** Places of the old table to move per change. With 10 or more, a resize ends before the next. */
const MOVED_PER_CHANGE = 16;
/**
 * Number of consecutive places that a sweep visits before it jumps to another block. Sweeping the
 * table from start to end would empty one part of it, and the rows of the full part would have no
 * room when the table shrinks. A stride of 2^32 divided by the golden ratio spreads the blocks
 * evenly.
 */
const SWEEP_BLOCK = 64;
const SWEEP_STRIDE = 0x9e3779b1;
/** A table below this capacity keeps no released chunks, which would be most of its memory. */
const MIN_CAPACITY_TO_SPARE = CHUNK_ROWS;
/** Number of recently added keys whose hashes are kept, as candidates for eviction. */
const RECENT_KEYS = 8;

export class KeyTable extends KeyedHash {
  size = 0;
  /** Released chunks, for reuse. */
  readonly #spare: Float64Array[] = [];
  #old = new Rows(MIN_CAPACITY, this.#spare);
  /** The table to which rows are moved; the same as `#old` if there is no resize. */
  #new = this.#old;
  /** Rows with a home before this place of the old table are in the new table. */
  #moved = 0;
  /** The current block of a sweep starts at the home of this hash. */
  #blockHash = 0;
  /** Number of places of the current block that the sweep has visited. */
  #blockOffset = 0;
  /** A row with the hash of the key to add and zero cells. */
  readonly #row = new Int32Array(ROW_WORDS);
  /** Ring buffer of the low halves of the hashes of recently added keys. */
  readonly #recent = new Int32Array(RECENT_KEYS);
  #nextRecent = 0;
  /** State of a xorshift generator, because tests may replace `Math.random`. */
  #seed = 1;
  /** The hot-key cache: texts, hashes and rows by slot. */
  #texts: string[] = [];
  #slots = new Int32Array();
  /** The number of slots, less one. */
  #lastSlot = 0;

  constructor() {
    super();
    this.#resizeCache();
  }

  /**
   * Returns the row of a key and points `state` at it, or returns -1 if there is none. If the key
   * is not in the hot-key cache, keeps its hash for `insert`. One long function, because calling
   * another one is slower, see `hot-keys.fast-path.ts`.
   */
  find(key: string, state: State): number {
    const slot = slotOf(key) & this.#lastSlot;
    const slots = this.#slots;
    const at = slot * SLOT_WORDS;
    let row = slots[at + 2];
    let rows = this.#rowsOf(row);
    let place = row & ~IN_NEW_TABLE;
    let words = rows.words[place >>> CHUNK_BITS];
    let word = wordAt(place);
    if (
      !USE_HOT_KEYS ||
      words?.[word] !== slots[at] ||
      words[word + 1] !== slots[at + 1] ||
      this.#texts[slot] !== key
    ) {
      this.hash(key);
      const { low, high } = this;
      row = this.#tableTag(low);
      rows = this.#rowsOf(row);
      place = rows.home(low);
      words = rows.words[place >>> CHUNK_BITS];
      word = wordAt(place);
      for (;;) {
        const found = words[word];
        if (found === low && words[word + 1] === high) break;
        if (found === 0) return -1;
        place++;
        word += ROW_WORDS;
        if (word < words.length) continue;
        words = rows.words[place >>> CHUNK_BITS];
        word = wordAt(place);
      }
      row |= place;
      if (shouldCache()) {
        this.#texts[slot] = copyOf(key);
        slots.set([low, high, row], at);
      }
    }
    state.at = word / 2 + 1;
    if (words !== state.words) {
      state.words = words;
      state.cells = rows.cells[place >>> CHUNK_BITS];
    }
    return row;
  }

  /** Removes the text in the slot of a key from the hot-key cache. */
  dropText(key: string): void {
    this.#texts[slotOf(key) & this.#lastSlot] = '';
  }

  /** Adds the key that the last `find` did not find. Returns its row, with zero cells. */
  insert(): number {
    this.#changeSize(1);
    const { low } = this;
    this.#row[0] = low;
    this.#row[1] = this.high;
    this.#recent[this.#nextRecent] = low;
    this.#nextRecent = (this.#nextRecent + 1) % RECENT_KEYS;
    const tag = this.#tableTag(low);
    return this.#rowsOf(tag).add(this.#row, 0) | tag;
  }

  /** Removes a row. The numbers of other rows may change. */
  remove(row: number): void {
    this.#rowsOf(row).remove(row & ~IN_NEW_TABLE);
    // Another row may have moved to the freed place, so the sweep visits this place again.
    if (this.#blockOffset > 0) this.#blockOffset--;
    this.#changeSize(-1);
  }

  /** Points `state` at the cells of a row. */
  point(state: State, row: number): void {
    this.#rowsOf(row).point(state, row & ~IN_NEW_TABLE);
  }

  /** Sets `low` and `high` to the hash of the key at `state`. */
  readHash({ words, at }: State): void {
    this.low = words[2 * at - 2];
    this.high = words[2 * at - 1];
  }

  /** Returns the row of the eighth most recently added key, or -1 if it was removed. */
  recent(): number {
    const low = this.#recent[this.#nextRecent];
    for (let offset = 0; ; offset++) {
      const row = this.#rowAt(low, offset);
      if (row < 0 || this.#rowsOf(row).lowAt(row & ~IN_NEW_TABLE) === low) return row;
    }
  }

  /** Returns a random row, each with nearly the same probability. The table must not be empty. */
  draw(): number {
    for (;;) {
      let seed = this.#seed;
      seed ^= seed << 13;
      seed ^= seed >>> 17;
      seed ^= seed << 5;
      this.#seed = seed;
      // Adds up to 7 places, because rows may also be at places after the last home.
      const row = this.#rowAt(seed, seed & 7);
      if (row >= 0) return row;
    }
  }

  /** Returns the row at the next place of a sweep over all places, or -1 if it is empty. */
  nextSwept(): number {
    const row = this.#rowAt(this.#blockHash, this.#blockOffset++);
    // A block continues up to an empty place, so that rows far after their homes are visited too.
    if (row < 0 && this.#blockOffset >= SWEEP_BLOCK) {
      this.#blockHash += SWEEP_STRIDE;
      this.#blockOffset = 0;
    }
    return row;
  }

  /** Returns the row `offset` places after the home of a hash, or -1 if the place is empty. */
  #rowAt(low: number, offset: number): number {
    const tag = this.#tableTag(low);
    const rows = this.#rowsOf(tag);
    const place = rows.home(low) + offset;
    // In a table that is shorter than a block, the place may not exist.
    const found = rows.words[place >>> CHUNK_BITS]?.[wordAt(place)];
    return found ? place | tag : -1;
  }

  /** Returns the tag bit of a row with this hash: `IN_NEW_TABLE`, or 0 for the old table. */
  #tableTag(low: number): number {
    return this.#old.home(low) < this.#moved ? IN_NEW_TABLE : 0;
  }

  #rowsOf(row: number): Rows {
    return row < IN_NEW_TABLE ? this.#old : this.#new;
  }

  /** Updates the size, starts a resize if necessary, and continues the current resize. */
  #changeSize(by: number): void {
    this.size += by;
    const { capacity } = this.#new;
    let factor = 1;
    if (this.size > capacity * MAX_LOAD) factor = capacity < CHUNK_ROWS ? 2 : 1.2;
    else if (this.size < capacity * MIN_LOAD && capacity > MIN_CAPACITY) factor = 0.5;
    if (factor !== 1) {
      this.#move(Number.POSITIVE_INFINITY);
      this.#new = new Rows(Math.ceil(capacity * factor), this.#spare);
      this.#resizeCache();
    }
    this.#move(MOVED_PER_CHANGE);
  }

  /** Moves the rows of the next `places` places of the old table to the new table. */
  #move(places: number): void {
    const old = this.#old;
    const rows = this.#new;
    if (rows === old) return;
    const end = Math.min(this.#moved + places, old.capacity);
    // Stops only at an empty place: all rows after an empty place also have their homes after it.
    for (; this.#moved < end || old.lowAt(this.#moved) !== 0; this.#moved++) {
      const chunk = this.#moved >>> CHUNK_BITS;
      const words = old.words[chunk];
      const at = wordAt(this.#moved);
      if (words[at] !== 0) rows.add(words, at);
      words[at] = 0;
      if (at + ROW_WORDS === words.length) {
        this.#spare.push(old.cells[chunk]);
        // The new table may reuse the chunk. The cache must not find rows of the old table in it.
        old.words[chunk] = new Int32Array();
      }
    }
    const part = this.#moved / old.capacity;
    rows.allocateTo(part * rows.capacity + SWEEP_BLOCK);
    if (part < 1) return;
    // A large table keeps two chunks for its next growth, because freed memory may stay resident.
    this.#spare.push(...old.cells.slice(this.#moved >>> CHUNK_BITS));
    this.#spare.splice(rows.capacity < MIN_CAPACITY_TO_SPARE ? 0 : 2);
    this.#old = rows;
    this.#moved = 0;
  }

  /** Sets the size of the hot-key cache by the size of the table. A new size clears the cache. */
  #resizeCache(): void {
    const slots = slotsFor(this.#new.capacity);
    if (slots === this.#texts.length) return;
    this.#lastSlot = slots - 1;
    this.#texts = new Array<string>(slots).fill('');
    this.#slots = new Int32Array(slots * SLOT_WORDS).fill(1);
  }
}
