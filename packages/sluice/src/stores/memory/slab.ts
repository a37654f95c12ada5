/**
 * The entries of all logs of one policy, packed into blocks that are linked to lists.
 *
 * A block holds four entries and the number of the next block, nine words in all:
 *
 *     | time | cost | time | cost | time | cost | time | cost | next |
 *
 * A word is 4 bytes, so an entry takes 9; a key wastes at most a block at each end. All blocks are
 * alike, so nothing is ever copied or fragmented, and a freed block serves the next key. An entry
 * is pointed at by `block * 4 + place`; block 0 is never used, so pointer 0 means none. A key's
 * state keeps two pointers, to its oldest and its newest entry, in the words of its third cell.
 *
 * Times are kept modulo 2^32. That is enough: an entry lives for a window, and its age is counted
 * back from the latest time that the key's state knows in full. Windows or limits that do not fit
 * 32 bits get the wide form, whose words are doubles.
 */
import { CELLS, type Entries, type State } from '../../algorithms/algorithm.ts';

const PLACES = 4;
const NEXT = 2 * PLACES;
const BLOCK_WORDS = NEXT + 1;
const CHUNK_BITS = 12;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;

type Words = Uint32Array | Float64Array;

const headAt = (at: number): number => 2 * (at + CELLS - 1);

export class EntrySlab implements Entries {
  readonly #wide: boolean;
  readonly #mostCost: number;
  readonly #chunks: Words[] = [];
  /** The first of the freed blocks, linked by their `next`. */
  #freed = 0;
  /** The first block that has never been used. */
  #unused = 1;

  constructor(wide: boolean) {
    this.#wide = wide;
    this.#mostCost = wide ? Number.MAX_SAFE_INTEGER : 2 ** 32 - 1;
  }

  costOfAge(state: State, knownMs: number, ageMs: number, drop = false): number {
    const head = headAt(state.at);
    const tail = state.words[head + 1];
    let pointer = state.words[head];
    let cost = 0;
    while (pointer !== 0) {
      const words = this.#wordsOf(pointer);
      const index = this.#indexOf(pointer);
      if (this.#age(knownMs, words[index]) < ageMs) break;
      cost += words[index + 1];
      const next = pointer === tail ? 0 : this.#after(pointer);
      if (drop && next >>> 2 !== pointer >>> 2) this.#free(pointer >>> 2);
      pointer = next;
    }
    if (!drop) return cost;
    state.words[head] = pointer;
    if (pointer === 0) state.words[head + 1] = 0;
    return cost;
  }

  ageAtCost(state: State, knownMs: number, cost: number): number {
    let pointer = state.words[headAt(state.at)];
    for (;;) {
      const words = this.#wordsOf(pointer);
      const index = this.#indexOf(pointer);
      cost -= words[index + 1];
      if (cost <= 0) return this.#age(knownMs, words[index]);
      pointer = this.#after(pointer);
    }
  }

  ageOfNewest(state: State, knownMs: number): number {
    const tail = state.words[headAt(state.at) + 1];
    return tail === 0 ? -1 : this.#age(knownMs, this.#wordsOf(tail)[this.#indexOf(tail)]);
  }

  append(state: State, knownMs: number, timeMs: number, cost: number): void {
    const head = headAt(state.at);
    const tail = state.words[head + 1];
    if (timeMs === knownMs && this.ageOfNewest(state, knownMs) === 0) {
      this.#add(tail, cost);
      return;
    }
    const pointer = this.#afterTail(tail);
    const words = this.#wordsOf(pointer);
    const index = this.#indexOf(pointer);
    // A typed array of 32-bit words takes the time modulo 2^32 by itself.
    words[index] = timeMs;
    words[index + 1] = cost;
    state.words[head + 1] = pointer;
    if (tail === 0) state.words[head] = pointer;
  }

  drop(state: State, knownMs: number, ageMs: number): number {
    return this.costOfAge(state, knownMs, ageMs, true);
  }

  adjust(state: State, knownMs: number, timeMs: number, delta: number): number {
    const ageMs = knownMs - timeMs;
    const head = headAt(state.at);
    const tail = state.words[head + 1];
    // What is settled is mostly recent, so the newest is tried first.
    let pointer = ageMs === this.ageOfNewest(state, knownMs) ? tail : state.words[head];
    while (pointer !== 0) {
      const words = this.#wordsOf(pointer);
      const entryAgeMs = this.#age(knownMs, words[this.#indexOf(pointer)]);
      if (entryAgeMs === ageMs) {
        const change = this.#add(pointer, delta);
        if (words[this.#indexOf(pointer) + 1] === 0) this.#compact(state, knownMs);
        return change;
      }
      if (entryAgeMs < ageMs || pointer === tail) return 0;
      pointer = this.#after(pointer);
    }
    return 0;
  }

  /** Writes the list anew without the entries that have no cost: refunds leave nothing behind. */
  #compact(state: State, knownMs: number): void {
    const kept: [number, number][] = [];
    this.visit(state, knownMs, (timeMs, cost) => {
      if (cost > 0) kept.push([timeMs, cost]);
    });
    this.clear(state);
    for (const [timeMs, cost] of kept) this.append(state, knownMs, timeMs, cost);
  }

  clear({ words, at }: State): void {
    const head = headAt(at);
    if (words[head] === 0) return;
    // Its blocks are a chain already, which goes in front of the free ones.
    this.#setNext(words[head + 1] >>> 2, this.#freed);
    this.#freed = words[head] >>> 2;
    words.fill(0, head, head + 2);
  }

  visit(state: State, knownMs: number, see: (timeMs: number, cost: number) => void): void {
    const tail = state.words[headAt(state.at) + 1];
    for (let pointer = state.words[headAt(state.at)]; pointer !== 0; ) {
      const words = this.#wordsOf(pointer);
      const index = this.#indexOf(pointer);
      see(knownMs - this.#age(knownMs, words[index]), words[index + 1]);
      pointer = pointer === tail ? 0 : this.#after(pointer);
    }
  }

  #wordsOf(pointer: number): Words {
    return this.#chunks[pointer >>> (CHUNK_BITS + 2)];
  }

  #indexOf(pointer: number): number {
    return ((pointer >>> 2) & CHUNK_MASK) * BLOCK_WORDS + 2 * (pointer & (PLACES - 1));
  }

  #age(knownMs: number, timeWord: number): number {
    return this.#wide ? knownMs - timeWord : (knownMs - timeWord) >>> 0;
  }

  #after(pointer: number): number {
    return (pointer & (PLACES - 1)) === PLACES - 1
      ? this.#next(pointer >>> 2) * PLACES
      : pointer + 1;
  }

  /** A place for a new newest entry. */
  #afterTail(tail: number): number {
    if (tail !== 0 && (tail & (PLACES - 1)) !== PLACES - 1) return tail + 1;
    const block = this.#allocate();
    if (tail !== 0) this.#setNext(tail >>> 2, block);
    return block * PLACES;
  }

  /**
   * Changes a cost, between zero and what a word holds. Only an overcharge can reach that bound,
   * and the key is then far over any limit that this form serves: the answers are the same.
   */
  #add(pointer: number, delta: number): number {
    const words = this.#wordsOf(pointer);
    const index = this.#indexOf(pointer) + 1;
    const before = words[index];
    const after = Math.min(Math.max(before + delta, 0), this.#mostCost);
    words[index] = after;
    return after - before;
  }

  #setNext(block: number, next: number): void {
    const words = this.#chunks[block >>> CHUNK_BITS];
    words[(block & CHUNK_MASK) * BLOCK_WORDS + NEXT] = next;
  }

  #next(block: number): number {
    return this.#chunks[block >>> CHUNK_BITS][(block & CHUNK_MASK) * BLOCK_WORDS + NEXT];
  }

  #allocate(): number {
    const block = this.#freed;
    if (block !== 0) {
      this.#freed = this.#next(block);
      return block;
    }
    if (this.#unused >>> CHUNK_BITS === this.#chunks.length) {
      const length = (CHUNK_MASK + 1) * BLOCK_WORDS;
      this.#chunks.push(this.#wide ? new Float64Array(length) : new Uint32Array(length));
    }
    return this.#unused++;
  }

  #free(block: number): void {
    this.#setNext(block, this.#freed);
    this.#freed = block;
  }
}
