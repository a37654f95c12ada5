/**
 * Finds the most frequent of many keys in bounded memory: a Misra-Gries summary that purges in
 * batches.
 *
 * A summary counts at most 800 keys. When another key arrives, a purge subtracts the 201st largest
 * count from every count, and deletes counts that are then 0 or less. Each purge reduces at least
 * 201 counts by the same amount, and the sum of all reductions is at most the number of hits. So
 * after N hits, each count lacks at most N / 201, and every key with more hits is listed. The
 * summary reports the exact maximum that a count may lack. At least 600 new keys have to arrive
 * between two purges, so the average cost of a hit does not depend on the number of keys.
 *
 * A table starts with 16 places. It doubles when half of the places are taken, or when the names of
 * its keys take more than 64 bytes per place. If the table has its largest size, or the budget is
 * spent, it purges instead of growing. The counts of a smaller table can lack more than N / 201.
 * The reported maximum takes this into account.
 *
 * In a flood of keys that each arrive once, the summary allocates nothing. After the first purge, a
 * new key is counted by its hash only, and its name is stored with its second hit.
 */
import { KeyedHash, MAX_KEY_LENGTH } from 'sluice/engine';

/** Number of keys that a purge keeps in a table of the largest size: the most frequent ones. */
export const KEPT_KEYS = 200;
export const MAX_KEYS = 4 * KEPT_KEYS;

/** A summary as data, to be sent to another process and merged there. */
export interface HitsData {
  /** Number of hits of all keys. */
  readonly hits: number;
  /**
   * Each count lacks at most this many hits. A key that is not listed has at most this many hits.
   */
  readonly lacking: number;
  readonly keys: readonly (readonly [key: string, hits: number])[];
}

/** Memory that several summaries share. A table grows only if enough bytes remain. */
export class SummaryBudget {
  #leftBytes: number;

  constructor(bytes: number) {
    this.#leftBytes = bytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#leftBytes) return false;
    this.#leftBytes -= bytes;
    return true;
  }
}

const FIRST_PLACES = 16;
/** More than twice `MAX_KEYS`, so that a key is found within a few steps. */
const MAX_PLACES = 2048;

/** Two 32-bit halves of a hash, a count, and a reference to a name. */
const PLACE_BYTES = 4 + 4 + 8 + 8;
const NAME_BYTES_PER_PLACE = 64;
/** Maximum bytes of a name: V8 stores a header of 16 bytes, and 1 or 2 bytes per character. */
const nameBytes = (length: number): number => 16 + 2 * length;
/** Bytes for names in the smallest table. The name of the longest key fits. */
const MIN_NAME_BYTES = nameBytes(MAX_KEY_LENGTH);

/** Maximum bytes of the table and the names of a summary with this number of places. */
export const summaryBytes = (places: number): number => places * PLACE_BYTES + nameRoom(places);

const nameRoom = (places: number): number =>
  Math.max(places * NAME_BYTES_PER_PLACE, MIN_NAME_BYTES);

/** Maximum bytes of a summary that has not grown. */
export const MIN_SUMMARY_BYTES = summaryBytes(FIRST_PLACES);
/** Maximum bytes of a summary that has its largest size. */
export const MAX_SUMMARY_BYTES = summaryBytes(MAX_PLACES);

/** Buffers for the table that is being purged or grown, shared to avoid allocations. */
const buffers = {
  low: new Int32Array(MAX_PLACES),
  high: new Int32Array(MAX_PLACES),
  counts: new Float64Array(MAX_PLACES),
  names: new Array<string | undefined>(MAX_PLACES).fill(undefined),
  sorted: new Float64Array(MAX_PLACES),
};

/** The hash has a secret key, so that a client cannot choose keys that collide. */
const hasher = new KeyedHash();

export class HeavyHitters {
  readonly #budget: SummaryBudget | undefined;
  /** By place: the 64 bits of a key's hash, the count (0 if the place is free), and the name. */
  #low = new Int32Array(FIRST_PLACES);
  #high = new Int32Array(FIRST_PLACES);
  #counts = new Float64Array(FIRST_PLACES);
  #names: (string | undefined)[] = new Array(FIRST_PLACES).fill(undefined);
  #mask = FIRST_PLACES - 1;
  #size = 0;
  #nameBytes = 0;
  #hits = 0;
  #lacking = 0;

  /** Without a budget, the table can always grow to its largest size. */
  constructor(budget?: SummaryBudget) {
    this.#budget = budget;
  }

  get #places(): number {
    return this.#mask + 1;
  }

  add(key: string): void {
    this.#hits++;
    hasher.hash(key);
    const place = this.#find(hasher.low, hasher.high);
    if (this.#counts[place]++ === 0) this.#onInsert(place, this.#lacking === 0 ? key : undefined);
    else if (this.#names[place] === undefined) this.#name(place, key);
  }

  /** Returns the place of a key, or a free place for it. Writes the hash to the place. */
  #find(low: number, high: number): number {
    const mask = this.#mask;
    let place = low & mask;
    while (this.#counts[place] > 0 && (this.#low[place] !== low || this.#high[place] !== high)) {
      place = (place + 1) & mask;
    }
    this.#low[place] = low;
    this.#high[place] = high;
    return place;
  }

  #onInsert(place: number, key: string | undefined): void {
    this.#size++;
    if (key !== undefined) this.#name(place, key);
    else if (this.#isFull()) this.#makeRoom();
  }

  #name(place: number, key: string): void {
    this.#names[place] = copyOf(key);
    this.#nameBytes += nameBytes(key.length);
    if (this.#isFull()) this.#makeRoom();
  }

  #isFull(): boolean {
    const places = this.#places;
    return this.#size > Math.min(places / 2, MAX_KEYS) || this.#nameBytes > nameRoom(places);
  }

  #makeRoom(): void {
    while (this.#isFull()) {
      const places = this.#places;
      const moreBytes = summaryBytes(2 * places) - summaryBytes(places);
      if (places === MAX_PLACES || this.#budget?.take(moreBytes) === false) {
        this.#purge();
        return;
      }
      this.#resize(2 * places);
    }
  }

  #resize(places: number): void {
    const size = this.#takeOut(0);
    this.#low = new Int32Array(places);
    this.#high = new Int32Array(places);
    this.#counts = new Float64Array(places);
    this.#names = new Array(places).fill(undefined);
    this.#mask = places - 1;
    this.#putBack(size);
  }

  /** Keeps the quarter of the keys with the largest counts, or fewer if their names are long. */
  #purge(): void {
    const most = Math.min(this.#places / 2, MAX_KEYS) / 4;
    for (let keep = Math.min(most, this.#size >> 1); ; keep >>= 1) {
      this.#subtract(keep);
      if (this.#size <= 1 || this.#nameBytes <= nameRoom(this.#places) / 2) return;
    }
  }

  /** Subtracts the count at rank `keep` + 1 from all counts, so that at most `keep` keys remain. */
  #subtract(keep: number): void {
    let size = 0;
    for (const count of this.#counts) if (count > 0) buffers.sorted[size++] = count;
    if (size <= keep) return;
    const cut = buffers.sorted.subarray(0, size).sort()[size - keep - 1];
    this.#lacking += cut;
    this.#putBack(this.#takeOut(cut));
  }

  /**
   * Copies the keys with a count above `cut` to `buffers`, subtracts `cut` from their counts, and
   * empties the table. Returns the number of these keys.
   */
  #takeOut(cut: number): number {
    let size = 0;
    for (let place = 0; place < this.#places; place++) {
      if (this.#counts[place] <= cut) continue;
      buffers.low[size] = this.#low[place];
      buffers.high[size] = this.#high[place];
      buffers.counts[size] = this.#counts[place] - cut;
      buffers.names[size++] = this.#names[place];
    }
    this.#counts.fill(0);
    this.#names.fill(undefined);
    return size;
  }

  /** Inserts the first `size` keys of `buffers` into the empty table. */
  #putBack(size: number): void {
    this.#size = size;
    this.#nameBytes = 0;
    for (let at = 0; at < size; at++) {
      const name = buffers.names[at];
      const place = this.#find(buffers.low[at], buffers.high[at]);
      this.#counts[place] = buffers.counts[at];
      this.#names[place] = name;
      if (name !== undefined) this.#nameBytes += nameBytes(name.length);
    }
    buffers.names.fill(undefined, 0, size);
  }

  /**
   * Adds the counts of another summary. Afterwards, `lacking` is the bound for the merged counts.
   */
  merge({ hits, lacking, keys }: HitsData): this {
    this.#hits += hits;
    this.#lacking += lacking;
    for (const [key, more] of keys) {
      hasher.hash(key);
      const place = this.#find(hasher.low, hasher.high);
      const isNew = this.#counts[place] === 0;
      this.#counts[place] += more;
      if (isNew) this.#onInsert(place, key);
      else if (this.#names[place] === undefined) this.#name(place, key);
    }
    return this;
  }

  data(): HitsData {
    const keys: [string, number][] = [];
    for (const [place, name] of this.#names.entries()) {
      if (name !== undefined) keys.push([name, this.#counts[place]]);
    }
    keys.sort(([a, hitsA], [b, hitsB]) => hitsB - hitsA || (a < b ? -1 : 1));
    // A key without a name has arrived once since the last purge.
    const unnamed = keys.length < this.#size ? 1 : 0;
    return { hits: this.#hits, lacking: this.#lacking + unnamed, keys };
  }
}

/**
 * In V8, a string with fewer characters than this is never a slice that refers to a longer string.
 */
const MIN_SLICE_LENGTH = 13;
const scratch = Buffer.alloc(2 * MAX_KEY_LENGTH);

/**
 * Returns a copy of a key. The key may be a slice of a long header. V8 would keep the whole header
 * in memory as long as the slice.
 */
function copyOf(key: string): string {
  if (key.length < MIN_SLICE_LENGTH || key.length > MAX_KEY_LENGTH) return key;
  return scratch.toString('utf16le', 0, scratch.write(key, 0, 'utf16le'));
}
