/**
 * What is counted for each client, in typed arrays: a million clients take some dozen megabytes. A
 * client is found by 64 bits of a keyed hash of its name, as the engine finds its keys; the name
 * itself is not kept.
 */
import { KeyedHash } from 'sluice/engine';

const FIRST_ROWS = 1024;
/** An open table that is fuller than that takes long to search. */
const MOST_FULL = 0.7;

export class ClientTable<Column extends string> {
  readonly #names: readonly Column[];
  readonly #hash = new KeyedHash();
  /** The counts by row. Adding a client may replace the arrays, so they are looked up anew. */
  columns: Record<Column, Uint32Array>;
  /** The two halves of each client's hash, by row. */
  #low = new Int32Array(FIRST_ROWS);
  #high = new Int32Array(FIRST_ROWS);
  /** From a place in the open table to a row, plus 1; 0 is free. */
  #places = new Int32Array(2 * FIRST_ROWS);
  #size = 0;

  constructor(columns: readonly Column[]) {
    this.#names = columns;
    this.columns = this.#grown(FIRST_ROWS);
  }

  /** How many clients there are; their rows are numbered from 0. */
  get size(): number {
    return this.#size;
  }

  /** The counts of one column, without the room for clients to come. */
  column(name: Column): Uint32Array {
    return this.columns[name].subarray(0, this.#size);
  }

  /** The row of a client, which is added, with all counts 0, if it is new. */
  rowOf(client: string): number {
    const low = this.#hash.hash(client);
    const { high } = this.#hash;
    const places = this.#places;
    const mask = places.length - 1;
    for (let place = low & mask; ; place = (place + 1) & mask) {
      const row = places[place] - 1;
      if (row < 0) return this.#insert(low, high, place);
      if (this.#low[row] === low && this.#high[row] === high) return row;
    }
  }

  #insert(low: number, high: number, place: number): number {
    const row = this.#size++;
    if (row === this.#low.length) {
      const rows = 2 * row;
      this.#low = copied(this.#low, new Int32Array(rows));
      this.#high = copied(this.#high, new Int32Array(rows));
      this.columns = this.#grown(rows);
    }
    this.#low[row] = low;
    this.#high[row] = high;
    this.#places[place] = row + 1;
    if (this.#size > MOST_FULL * this.#places.length) this.#spread();
    return row;
  }

  #grown(rows: number): Record<Column, Uint32Array> {
    const all = this.#names.map((name) => {
      const counts = new Uint32Array(rows);
      return [name, this.columns === undefined ? counts : copied(this.columns[name], counts)];
    });
    return Object.fromEntries(all);
  }

  /** Finds a place for every row in a table twice as large. */
  #spread(): void {
    const places = new Int32Array(2 * this.#places.length);
    const mask = places.length - 1;
    for (let row = 0; row < this.#size; row++) {
      let place = this.#low[row] & mask;
      while (places[place] !== 0) place = (place + 1) & mask;
      places[place] = row + 1;
    }
    this.#places = places;
  }
}

function copied<T extends Int32Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
