/**
 * The keys of one policy: a hash table that grows without ever stopping.
 *
 * Its rows are in the order of their hashes, so a larger table has the same order, with more empty
 * places. To grow or shrink, every change takes some rows from the start of what is left of the old
 * table and puts them at the end of what there is of the new one, which goes on in the chunks that
 * the old one is done with. In between, the hash says in which of the two a key is.
 */
import type { State } from '../../algorithms/algorithm.ts';
import { copyOf } from '../../key.ts';
import { KeyedHash } from './hash.ts';
import { CHUNK_BITS, CHUNK_ROWS, ROW_WORDS, Rows, wordAt } from './rows.ts';

const SMALLEST = 16;
/** How full a table gets before it grows, and how empty before it shrinks. */
const FULLEST = 0.85;
const EMPTIEST = 0.2;
/** Old places moved at each change; more than ten are done before the next growth or shrinking. */
const MOVES = 16;
/**
 * Places that have their turn one after the other. The next block is far away, so that keys that
 * are forgotten in turn leave no part of the table empty: the rows of a full part, next to an empty
 * one, would have no room in a table that shrinks because of the empty one. The golden section
 * comes closest to everywhere soonest.
 */
const BLOCK = 64;
const STRIDE = 0x9e3779b1;
/** A table that is smaller keeps no chunks to spare: they would be a large part of its memory. */
const SPARED_ROWS = CHUNK_ROWS;
/** Tells a row in the new table from one in the old. */
const NEW = 2 ** 30;
/**
 * How many keys are known by their text at the most, and what is kept of each: its hash and its
 * row. A small table knows only a few, so that a policy that is hardly used costs little. In more
 * steps than these two the arrays would be slower: 220 ns a check at 1,000 keys instead of 155.
 */
const KNOWN = 1024;
const SMALL = 64;
const KNOWN_WORDS = 3;
/** The chance of a key that had to be looked for to be known from then on. */
const SELDOM = 0.01;
/** How many of the keys that were added last are remembered. */
const RECENT = 8;
/** As in the hash, and for the same reason; one from elsewhere would be slower. */
const codeAt = ''.charCodeAt;

/** A key is known by its last three characters: numbers in a row fit well there. */
function slotOf(key: string): number {
  const last = key.length - 1;
  const slot = codeAt.call(key, last);
  if (last < 2) return slot;
  return slot + codeAt.call(key, last - 1) * 10 + codeAt.call(key, last - 2) * 100;
}

export class KeyTable extends KeyedHash {
  /** How many keys there are. */
  size = 0;
  /** Chunks that a table is done with. */
  readonly #spare: Float64Array[] = [];
  #old = new Rows(SMALLEST, this.#spare);
  /** The table that takes the old one's place; the same if none does. */
  #new = this.#old;
  /** What belongs before this place of the old table is in the new one. */
  #moved = 0;
  /** The hash at whose place the block begins whose turn it is, and how far that has come. */
  #block = 0;
  #turn = 0;
  /** An empty row with the hash of a key that is added. */
  readonly #row = new Int32Array(ROW_WORDS);
  /** The low halves of the hashes of the keys that were added last, and where the next one goes. */
  readonly #recent = new Int32Array(RECENT);
  #nextRecent = 0;
  /** Of a xorshift generator: draws must not depend on a `Math.random` that tests replace. */
  #seed = 1;
  /** Keys that came again and again, to be told by their text; their hashes, at first of none. */
  #texts: string[] = [];
  #known = new Int32Array();
  /** The number of slots for them, less one. */
  #lastSlot = 0;

  constructor() {
    super();
    this.#resizeKnown();
  }

  /**
   * The row of a key, to which `state` then points, or -1. A key that is known by its text is not
   * hashed: whether its row is still where it was, the row itself says. Else the key's hash is
   * remembered for `insert`. All in one piece, because this is where the time of a decision goes.
   */
  find(key: string, state: State): number {
    const slot = slotOf(key) & this.#lastSlot;
    const known = this.#known;
    const at = slot * KNOWN_WORDS;
    let row = known[at + 2];
    let rows = this.#rowsOf(row);
    let place = row & ~NEW;
    let words = rows.words[place >>> CHUNK_BITS];
    let word = wordAt(place);
    if (
      words?.[word] !== known[at] ||
      words[word + 1] !== known[at + 1] ||
      this.#texts[slot] !== key
    ) {
      this.hash(key);
      const { low, high } = this;
      row = this.#markOf(low);
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
      if (Math.random() < SELDOM) {
        this.#texts[slot] = copyOf(key);
        known.set([low, high, row], at);
      }
    }
    state.at = word / 2 + 1;
    if (words !== state.words) {
      state.words = words;
      state.cells = rows.cells[place >>> CHUNK_BITS];
    }
    return row;
  }

  /** Deletes the text of a key. */
  dropText(key: string): void {
    const slot = slotOf(key) & this.#lastSlot;
    if (this.#texts[slot] === key) this.#texts[slot] = '';
  }

  /** Adds the key that `find` has just not found; its cells are zero. */
  insert(): number {
    this.#change(1);
    const { low } = this;
    this.#row[0] = low;
    this.#row[1] = this.high;
    this.#recent[this.#nextRecent] = low;
    this.#nextRecent = (this.#nextRecent + 1) % RECENT;
    const mark = this.#markOf(low);
    return this.#rowsOf(mark).add(this.#row, 0) | mark;
  }

  /** Removes a row. Others may have other numbers after it. */
  remove(row: number): void {
    this.#rowsOf(row).remove(row & ~NEW);
    // Another one may have come to its place, whose turn it is now.
    if (this.#turn > 0) this.#turn--;
    this.#change(-1);
  }

  /** Lets `state` point at a row's cells. */
  point(state: State, row: number): void {
    this.#rowsOf(row).point(state, row & ~NEW);
  }

  /** Sets `low` and `high` to the hash of the key at whose cells `state` points. */
  readHash({ words, at }: State): void {
    this.low = words[2 * at - 2];
    this.high = words[2 * at - 1];
  }

  /** Returns the row of the key that was added eighth last, or -1 if it has none any more. */
  recent(): number {
    const low = this.#recent[this.#nextRecent];
    for (let late = 0; ; late++) {
      const row = this.#rowAt(low, late);
      if (row < 0 || this.#rowsOf(row).lowAt(row & ~NEW) === low) return row;
    }
  }

  /** Any row, each with nearly the same chance. There must be one. */
  draw(): number {
    for (;;) {
      let seed = this.#seed;
      seed ^= seed << 13;
      seed ^= seed >>> 17;
      seed ^= seed << 5;
      this.#seed = seed;
      // A few places later, as rows may also lie behind the last place that a hash belongs to.
      const row = this.#rowAt(seed, seed & 7);
      if (row >= 0) return row;
    }
  }

  /** Another row at each call, all in turn; -1 if it is the turn of an empty place. */
  turn(): number {
    const row = this.#rowAt(this.#block, this.#turn++);
    // It ends with an empty place: however late a row is, it has its turn.
    if (row < 0 && this.#turn >= BLOCK) {
      this.#block += STRIDE;
      this.#turn = 0;
    }
    return row;
  }

  /** The row so many places after the one that a hash belongs to, or -1 if that is empty. */
  #rowAt(low: number, late: number): number {
    const mark = this.#markOf(low);
    const rows = this.#rowsOf(mark);
    const place = rows.home(low) + late;
    // A small table ends before a block does.
    const found = rows.words[place >>> CHUNK_BITS]?.[wordAt(place)];
    return found ? place | mark : -1;
  }

  #markOf(low: number): number {
    return this.#old.home(low) < this.#moved ? NEW : 0;
  }

  #rowsOf(row: number): Rows {
    return row < NEW ? this.#old : this.#new;
  }

  /** Counts a key in or out, and goes on with growing or shrinking. */
  #change(by: number): void {
    this.size += by;
    const { capacity } = this.#new;
    let factor = 1;
    if (this.size > capacity * FULLEST) factor = capacity < CHUNK_ROWS ? 2 : 1.2;
    else if (this.size < capacity * EMPTIEST && capacity > SMALLEST) factor = 0.5;
    if (factor !== 1) {
      this.#move(Number.POSITIVE_INFINITY);
      this.#new = new Rows(Math.ceil(capacity * factor), this.#spare);
      this.#resizeKnown();
    }
    this.#move(MOVES);
  }

  /** Moves some of what is left in the old table to the new one. */
  #move(places: number): void {
    const old = this.#old;
    const rows = this.#new;
    if (rows === old) return;
    const end = Math.min(this.#moved + places, old.capacity);
    // Only before an empty place there is none that belongs further in front.
    for (; this.#moved < end || old.lowAt(this.#moved) !== 0; this.#moved++) {
      const chunk = this.#moved >>> CHUNK_BITS;
      const words = old.words[chunk];
      const at = wordAt(this.#moved);
      if (words[at] !== 0) rows.add(words, at);
      words[at] = 0;
      if (at + ROW_WORDS === words.length) {
        this.#spare.push(old.cells[chunk]);
        // The new table may take it, and what is known of this one must not be found there.
        old.words[chunk] = new Int32Array();
      }
    }
    const part = this.#moved / old.capacity;
    rows.reach(part * rows.capacity + BLOCK);
    if (part < 1) return;
    // A large table keeps two for its next growth: what is freed may stay resident for long.
    this.#spare.push(...old.cells.slice(this.#moved >>> CHUNK_BITS));
    this.#spare.splice(rows.capacity < SPARED_ROWS ? 0 : 2);
    this.#old = rows;
    this.#moved = 0;
  }

  /** Fits the number of keys known by their text to the table, and begins with none. */
  #resizeKnown(): void {
    const slots = this.#new.capacity > SMALL ? KNOWN : SMALLEST;
    if (slots === this.#texts.length) return;
    this.#lastSlot = slots - 1;
    this.#texts = new Array<string>(slots).fill('');
    this.#known = new Int32Array(slots * KNOWN_WORDS).fill(1);
  }
}
