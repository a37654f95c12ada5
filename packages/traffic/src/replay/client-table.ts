/**
 * Counters per client, in typed arrays: a million clients take a few dozen megabytes. A keyed
 * 64-bit hash of the name identifies a client, like a key in the memory store. The name itself is
 * not stored. A client has a row of adjacent 32-bit words, so that they share a cache line:
 *
 *     | low | high | first column | second column | ...
 *
 * Rows are in chunks that are never copied, which avoids doubled memory while the table grows.
 */
import { KeyedHash } from 'sluice/engine';

const CHUNK_BITS = 13;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;
const FIRST_PLACES = 2048;
/** If a larger part of the open-addressing table is used, its size doubles. */
const MAX_FULL = 0.7;
/** The two halves of the hash. */
const HASH_WORDS = 2;

export class ClientTable<Column extends string> {
  readonly #hash = new KeyedHash();
  readonly #width: number;
  readonly #offsets: Readonly<Record<Column, number>>;
  readonly #chunks: Uint32Array[] = [];
  /** Open-addressing table. A place has a row number plus 1; 0 marks a free place. */
  #places = new Int32Array(FIRST_PLACES);
  #size = 0;

  constructor(columns: readonly Column[]) {
    this.#width = HASH_WORDS + columns.length;
    this.#offsets = Object.fromEntries(
      columns.map((name, at) => [name, HASH_WORDS + at]),
    ) as Record<Column, number>;
  }

  /** Number of clients. Their rows have the numbers from 0 to `size` - 1. */
  get size(): number {
    return this.#size;
  }

  get(row: number, column: Column): number {
    return this.#chunks[row >>> CHUNK_BITS][this.#at(row) + this.#offsets[column]];
  }

  set(row: number, column: Column, value: number): void {
    this.#chunks[row >>> CHUNK_BITS][this.#at(row) + this.#offsets[column]] = value;
  }

  increment(row: number, column: Column): void {
    this.#chunks[row >>> CHUNK_BITS][this.#at(row) + this.#offsets[column]]++;
  }

  /** Returns the index of a row in its chunk. */
  #at(row: number): number {
    return (row & CHUNK_MASK) * this.#width;
  }

  /** Returns the counts of all clients in a column, by row. */
  column(column: Column): Uint32Array {
    const counts = new Uint32Array(this.#size);
    for (let row = 0; row < this.#size; row++) counts[row] = this.get(row, column);
    return counts;
  }

  /** Returns the row number of a client. Adds a new client with counts of 0. */
  rowOf(client: string): number {
    this.#hash.hash(client);
    const low = this.#hash.low >>> 0;
    const high = this.#hash.high >>> 0;
    const places = this.#places;
    const mask = places.length - 1;
    for (let place = low & mask; ; place = (place + 1) & mask) {
      const row = places[place] - 1;
      if (row < 0) return this.#insert(low, high, place);
      const words = this.#chunks[row >>> CHUNK_BITS];
      const at = this.#at(row);
      if (words[at] === low && words[at + 1] === high) return row;
    }
  }

  #insert(low: number, high: number, place: number): number {
    const row = this.#size++;
    const chunk = row >>> CHUNK_BITS;
    if (chunk === this.#chunks.length) {
      this.#chunks.push(new Uint32Array((CHUNK_MASK + 1) * this.#width));
    }
    const at = this.#at(row);
    this.#chunks[chunk][at] = low;
    this.#chunks[chunk][at + 1] = high;
    this.#places[place] = row + 1;
    if (this.#size > MAX_FULL * this.#places.length) this.#rehash();
    return row;
  }

  #rehash(): void {
    const places = new Int32Array(2 * this.#places.length);
    const mask = places.length - 1;
    for (let row = 0; row < this.#size; row++) {
      let place = this.#chunks[row >>> CHUNK_BITS][this.#at(row)] & mask;
      while (places[place] !== 0) place = (place + 1) & mask;
      places[place] = row + 1;
    }
    this.#places = places;
  }
}
