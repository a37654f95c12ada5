/**
 * What is counted for each client, in typed arrays: a million clients take some dozen megabytes.
 * A client is found by 64 bits of a keyed hash of its name, as the engine finds its keys; the name
 * itself is not kept. What belongs to a client lies together, so that it is fetched at once:
 *
 *     | low | high | first column | second column | ...
 *
 * Rows lie in chunks that are never copied: growing has no moment at which they are there twice.
 */
import { KeyedHash } from 'sluice/engine';

const CHUNK_BITS = 13;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;
const FIRST_PLACES = 2048;
/** An open table that is fuller than that takes long to search. */
const MAX_FULL = 0.7;
/** The two halves of the hash. */
const HASH_WORDS = 2;

export class ClientTable<Column extends string> {
  readonly #hash = new KeyedHash();
  readonly #width: number;
  readonly #offsets: Readonly<Record<Column, number>>;
  readonly #chunks: Uint32Array[] = [];
  /** From a place in the open table to a row, plus 1; 0 is free. */
  #places = new Int32Array(FIRST_PLACES);
  #size = 0;

  constructor(columns: readonly Column[]) {
    this.#width = HASH_WORDS + columns.length;
    this.#offsets = Object.fromEntries(
      columns.map((name, at) => [name, HASH_WORDS + at]),
    ) as Record<Column, number>;
  }

  /** How many clients there are; their rows are numbered from 0. */
  get size(): number {
    return this.#size;
  }

  get(row: number, column: Column): number {
    return this.#chunks[row >>> CHUNK_BITS][this.#at(row) + this.#offsets[column]];
  }

  set(row: number, column: Column, value: number): void {
    this.#chunks[row >>> CHUNK_BITS][this.#at(row) + this.#offsets[column]] = value;
  }

  /** Counts one. */
  increment(row: number, column: Column): void {
    this.#chunks[row >>> CHUNK_BITS][this.#at(row) + this.#offsets[column]]++;
  }

  /** Where a row begins in its chunk. */
  #at(row: number): number {
    return (row & CHUNK_MASK) * this.#width;
  }

  /** The counts of all clients, by row. */
  column(column: Column): Uint32Array {
    const counts = new Uint32Array(this.#size);
    for (let row = 0; row < this.#size; row++) counts[row] = this.get(row, column);
    return counts;
  }

  /** The row of a client, which is added, with all counts 0, if it is new. */
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
    if (this.#size > MAX_FULL * this.#places.length) this.#spread();
    return row;
  }

  /** Finds a place for every row in a table twice as large. */
  #spread(): void {
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
