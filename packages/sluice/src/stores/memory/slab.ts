/**
 * The entries of all sliding logs of one policy.
 *
 * A log is a ring buffer in a block with room for 3, 7, 11, ... entries. With 32-bit words, the
 * size of a block is a multiple of 32 bytes. A full log is moved to a larger block, a nearly empty
 * log to a smaller one.
 *
 *     | first slot | count | time | total | time | total | ...
 *
 * The total of an entry is the summed cost of all entries before it, plus a constant that is the
 * same for the whole log. So the cost of a range is one subtraction, and a binary search works by
 * time and by cost. The cost of the newest entry is computed from the summed cost in cell 1 of the
 * state. A refund changes the totals of the newer or of the older entries, whichever are fewer.
 *
 * The third cell of a state holds the number of the block and its kind: its size class, plus 128
 * for the wide form. Kind 0 means no entries.
 *
 * In the narrow form, words have 32 bits, and times and totals are stored modulo 2^32. 32 bits are
 * enough, because an entry lives for one window, and its age is counted back from `knownMs`, which
 * is exact. The wide form is used if the window, the limit, or the summed cost after overcharges
 * does not fit in 32 bits. In the wide form, words are doubles and totals are stored modulo 2^53.
 */
import { CELLS, type Entries, type State } from '../../algorithms/algorithm.ts';
import { Blocks, type Words } from './blocks.ts';

/** The cell with the summed cost of the entries. */
const TOTAL = 1;
/** Words before the first slot. */
const HEADER = 2;
/** Added to the kind of a block in the wide form. */
const WIDE = 128;

/** Returns how many entries a block has room for: 3, 7, 11, ... 31, 39, 47, 55, 63, 79, ... */
const roomOf = (kind: number): number =>
  (kind < 4 ? 4 * kind : (4 + (kind & 3)) << (1 + (kind >> 2))) - 1;

/** Returns the index of the block number in the words of a state. The kind follows it. */
const headAt = (at: number): number => 2 * (at + CELLS - 1);

export class EntrySlab implements Entries {
  readonly blocks: Blocks[] = [];
  readonly #form: number;
  /** Released chunks of the narrow form and of the wide form. */
  readonly #pools: [Words[], Words[]] = [[], []];
  /** The log that was opened last: its block, its first slot, and its number of entries. */
  #block = 0;
  #kind = 0;
  #words!: Words;
  #start = 0;
  #room = 0;
  #first = 0;
  #count = 0;
  #isWide = false;

  constructor(wide: boolean) {
    this.#form = wide ? WIDE : 0;
  }

  costOfAge(state: State, knownMs: number, ageMs: number): number {
    this.#open(state);
    return this.#costBefore(state, this.#find(knownMs, ageMs));
  }

  ageAtCost(state: State, knownMs: number, cost: number): number {
    this.#open(state);
    return this.#age(knownMs, this.#find(0, 0, cost) - 1);
  }

  ageOfNewest(state: State, knownMs: number): number {
    this.#open(state);
    return this.#count > 0 ? this.#age(knownMs, this.#count - 1) : -1;
  }

  append(state: State, knownMs: number, timeMs: number, cost: number): void {
    const { cells, at } = state;
    if (timeMs > knownMs || this.ageOfNewest(state, knownMs) !== 0) {
      this.#open(state);
      if (this.#count === this.#room) this.#move(state, knownMs, this.#count + 1);
      const index = this.#indexOf(this.#count);
      // An assignment to a 32-bit word keeps the time modulo 2^32.
      this.#words[index] = timeMs;
      const total = this.#words[this.#indexOf(0) + 1];
      const rest = this.#modulus - cells[at + TOTAL];
      this.#words[index + 1] = total < rest ? total + cells[at + TOTAL] : total - rest;
      this.#resize(state, knownMs, this.#count + 1);
    }
    cells[at + TOTAL] += cost;
  }

  drop(state: State, knownMs: number, ageMs: number): void {
    this.#open(state);
    const dropped = this.#find(knownMs, ageMs);
    if (dropped === 0) return;
    state.cells[state.at + TOTAL] -= this.#costBefore(state, dropped);
    this.#skip(dropped);
    this.#resize(state, knownMs, this.#count - dropped);
  }

  clear(state: State): void {
    this.drop(state, 0, Number.NEGATIVE_INFINITY);
  }

  visit(
    state: State,
    knownMs: number,
    ageMs: number,
    max: number,
    visitor: (timeMs: number, cost: number) => void,
  ): number {
    this.#open(state);
    const count = this.#count - this.#find(knownMs, ageMs);
    for (let at = this.#count - Math.min(count, max); at < this.#count; at++) {
      const cost = this.#costBefore(state, at + 1) - this.#costBefore(state, at);
      visitor(knownMs - this.#age(knownMs, at), cost);
    }
    return count;
  }

  adjust(state: State, knownMs: number, timeMs: number, delta: number): number {
    const { cells, at: cell } = state;
    this.#open(state);
    const ageMs = knownMs - timeMs;
    const at = this.#find(knownMs, ageMs + 1);
    if (at === this.#count || this.#age(knownMs, at) !== ageMs) return 0;
    const cost = this.#costBefore(state, at + 1) - this.#costBefore(state, at);
    const total = cells[cell + TOTAL];
    // Limits an overcharge, so that the summed cost stays an exact integer.
    const change = Math.min(Math.max(delta, -cost), Number.MAX_SAFE_INTEGER - total);
    if (total + change >= this.#modulus) this.#move(state, knownMs, this.#count, WIDE);
    const isRemoved = change === -cost;
    this.#changeCost(at, change, isRemoved);
    cells[cell + TOTAL] += change;
    if (isRemoved) this.#resize(state, knownMs, this.#count - 1);
    return change;
  }

  /**
   * Changes the cost of an entry by changing the totals of the older or of the newer entries,
   * whichever are fewer. If the entry is removed, also moves these entries to close the gap.
   */
  #changeCost(at: number, change: number, isRemoved: boolean): void {
    const words = this.#words;
    const isOlder = at < this.#count >> 1;
    const step = isOlder ? -1 : 1;
    // Modulo the modulus, adding `by` equals subtracting `rest`.
    const by = isOlder !== change < 0 ? this.#modulus - Math.abs(change) : Math.abs(change);
    const rest = this.#modulus - by;
    // The loop may be long. It uses local variables: fields or method calls would double its time.
    const start = this.#start + HEADER;
    const last = start + 2 * this.#room - 2;
    let gap = this.#indexOf(at);
    let index = gap;
    let left = isOlder ? at : this.#count - at - 1;
    if (isOlder && !isRemoved) left++;
    else index = this.#indexOf(at + step);
    for (; left > 0; left--) {
      const total = words[index + 1];
      if (!isRemoved) gap = index;
      words[gap] = words[index];
      words[gap + 1] = total < rest ? total + by : total - rest;
      gap = index;
      if (isOlder) index = index === start ? last : index - 2;
      else index = index === last ? start : index + 2;
    }
    if (isOlder && isRemoved) this.#skip(1);
  }

  /** Opens the log of a state: sets the fields of this object that describe the open log. */
  #open({ words, at }: State): void {
    const head = headAt(at);
    const block = words[head];
    const kind = words[head + 1];
    // The methods that one check calls open the same log. Returning here saves 6 of 9 memory loads.
    if (block === this.#block && kind === this.#kind) return;
    this.#block = block;
    this.#kind = kind;
    this.#count = 0;
    this.#room = 0;
    if (kind === 0) return;
    const blocks = this.blocks[kind];
    this.#words = blocks.wordsOf(block);
    this.#start = blocks.startOf(block);
    this.#room = roomOf(kind & (WIDE - 1));
    this.#isWide = kind >= WIDE;
    // `| 0` returns small integers, which V8 stores in fields without allocating.
    this.#first = this.#words[this.#start] | 0;
    this.#count = this.#words[this.#start + 1] | 0;
  }

  /**
   * Returns the index of the oldest entry that is younger than `ageMs`. If `cost` is set, returns
   * the index of the oldest entry before which the summed cost is at least `cost`. If there is no
   * such entry, returns the number of entries. An exponential search, because the result is mostly
   * near the oldest entry.
   */
  #find(knownMs: number, ageMs: number, cost?: number): number {
    let low = 0;
    let high = this.#count;
    let at = 0;
    while (low < high) {
      const isFound =
        cost === undefined ? this.#age(knownMs, at) < ageMs : this.#totalBefore(at) >= cost;
      if (isFound) high = at;
      else low = at + 1;
      at = (low + high) >> 1;
      if (at > 2 * low) at = 2 * low;
    }
    return low;
  }

  /** Removes the oldest entries from the log, by advancing its first slot by `slots`. */
  #skip(slots: number): void {
    this.#first += slots;
    if (this.#first >= this.#room) this.#first -= this.#room;
  }

  get #modulus(): number {
    return this.#isWide ? 2 ** 53 : 2 ** 32;
  }

  #indexOf(at: number): number {
    const slot = this.#first + at;
    return this.#start + HEADER + 2 * (slot < this.#room ? slot : slot - this.#room);
  }

  #age(knownMs: number, at: number): number {
    const ageMs = knownMs - this.#words[this.#indexOf(at)];
    return this.#isWide ? ageMs : ageMs >>> 0;
  }

  /** Returns the summed cost of the entries that are older than an entry. */
  #totalBefore(at: number): number {
    const total = this.#words[this.#indexOf(at) + 1] - this.#words[this.#indexOf(0) + 1];
    return total < 0 ? total + this.#modulus : total;
  }

  /** Like `#totalBefore`. If `at` is the number of entries, returns the cost of all entries. */
  #costBefore({ cells, at: cell }: State, at: number): number {
    if (at === 0) return 0;
    return at < this.#count ? this.#totalBefore(at) : cells[cell + TOTAL];
  }

  /**
   * Sets the number of entries, counted from the first slot. Moves a nearly empty log to a smaller
   * block, and frees the block of an empty log.
   */
  #resize(state: State, knownMs: number, count: number): void {
    this.#count = count;
    if (count === 0) this.#free(state);
    else if (4 * count < this.#room) this.#move(state, knownMs, count);
    else {
      this.#words[this.#start] = this.#first;
      this.#words[this.#start + 1] = count;
    }
  }

  /** Moves the open log to the smallest block with room for `room` entries. */
  #move(state: State, knownMs: number, room: number, form = this.#form): void {
    const head = headAt(state.at);
    let kind = 1;
    while (roomOf(kind) < room) kind++;
    const blockWords = HEADER + 2 * roomOf(kind);
    kind |= form | (state.words[head + 1] & WIDE);
    this.blocks[kind] ??= new Blocks(kind >= WIDE, blockWords, this.#pools[kind >= WIDE ? 1 : 0]);
    const block = this.blocks[kind].allocate();
    const words = this.blocks[kind].wordsOf(block);
    let index = this.blocks[kind].startOf(block);
    words[index++] = 0;
    words[index++] = this.#count;
    const old = this.#words;
    const isSameForm = kind >= WIDE === this.#isWide;
    for (let at = 0; at < this.#count; at++) {
      const from = this.#indexOf(at);
      words[index++] = isSameForm ? old[from] : knownMs - this.#age(knownMs, at);
      words[index++] = isSameForm ? old[from + 1] : this.#totalBefore(at);
    }
    this.#free(state);
    state.words[head] = block;
    state.words[head + 1] = kind;
    this.#open(state);
  }

  #free({ words, at }: State): void {
    const head = headAt(at);
    this.blocks[words[head + 1]]?.free(words[head]);
    words[head] = 0;
    words[head + 1] = 0;
    this.#open({ words, at } as State);
  }
}
