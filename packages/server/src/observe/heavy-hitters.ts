/**
 * The most frequent of many keys, in little memory: a Misra-Gries summary that forgets in batches.
 *
 * At most 800 keys are counted. When another has come, the 201st largest count is taken off every
 * count, and those that come to nothing are forgotten. That takes the same amount off at least 201
 * counts, and no more can be taken off than was counted. So after N hits each count lacks at most
 * N / 201: any key with more hits than that is here, whatever the others were, and the amount that
 * counts may lack is known exactly. Between two such purges 600 new keys have to come, so a hit
 * costs the same on average, however many keys there are.
 *
 * A flood is of keys that come once. Nothing is made for those: once keys have been forgotten, a
 * new one is only counted, under its hash, and gets its name with its second hit.
 */
import { KeyedHash, LONGEST_KEY } from 'sluice/engine';

/** So many keys, the most frequent ones, outlast a purge. */
export const KEPT_KEYS = 200;
export const MOST_KEYS = 4 * KEPT_KEYS;

/** A summary as data, to be sent to another process and merged there. */
export interface HitsData {
  /** All hits, whatever their keys. */
  readonly hits: number;
  /** How much each count may lack; a key that is not here has at most as many hits. */
  readonly lacking: number;
  readonly keys: readonly (readonly [key: string, hits: number])[];
}

/** A table with so many places to spare finds a key within a few steps. */
const PLACES = 2048;
const MASK = PLACES - 1;

/** Lent to whichever table is being purged: what outlasts it, and all counts to find out which. */
const kept = {
  low: new Int32Array(KEPT_KEYS),
  high: new Int32Array(KEPT_KEYS),
  counts: new Float64Array(KEPT_KEYS),
  names: new Array<string | undefined>(KEPT_KEYS).fill(undefined),
  sorted: new Float64Array(PLACES),
};

/** All tables share one secret, so that nobody can aim at a place. */
const hasher = new KeyedHash();

export class HeavyHitters {
  /** By place: the 64 bits of a key's hash, its count, 0 if the place is free, and its name. */
  readonly #low = new Int32Array(PLACES);
  readonly #high = new Int32Array(PLACES);
  readonly #counts = new Float64Array(PLACES);
  readonly #names: (string | undefined)[] = new Array(PLACES).fill(undefined);
  #size = 0;
  #hits = 0;
  #lacking = 0;

  add(key: string): void {
    this.#hits++;
    hasher.hash(key);
    const place = this.#find(hasher.low, hasher.high);
    if (this.#counts[place]++ > 0) this.#names[place] ??= copyOf(key);
    else this.#added(place, this.#lacking === 0 ? copyOf(key) : undefined);
  }

  /** Where a key is, or would be. */
  #find(low: number, high: number): number {
    let place = low & MASK;
    while (this.#counts[place] > 0 && (this.#low[place] !== low || this.#high[place] !== high)) {
      place = (place + 1) & MASK;
    }
    this.#low[place] = low;
    this.#high[place] = high;
    return place;
  }

  #added(place: number, name: string | undefined): void {
    this.#names[place] = name;
    if (++this.#size > MOST_KEYS) this.#purge();
  }

  #purge(): void {
    let size = 0;
    for (let place = 0; place < PLACES; place++) {
      if (this.#counts[place] > 0) kept.sorted[size++] = this.#counts[place];
    }
    const cut = kept.sorted.subarray(0, size).sort()[size - KEPT_KEYS - 1];
    this.#lacking += cut;
    this.#size = 0;
    for (let place = 0; place < PLACES; place++) {
      if (this.#counts[place] > cut) this.#keep(place, this.#size++, cut);
    }
    this.#counts.fill(0);
    this.#names.fill(undefined);
    for (let at = 0; at < this.#size; at++) {
      const place = this.#find(kept.low[at], kept.high[at]);
      this.#counts[place] = kept.counts[at];
      this.#names[place] = kept.names[at];
    }
  }

  #keep(place: number, at: number, cut: number): void {
    kept.low[at] = this.#low[place];
    kept.high[at] = this.#high[place];
    kept.counts[at] = this.#counts[place] - cut;
    kept.names[at] = this.#names[place];
  }

  /** Takes in another summary. What is said about the bound holds for all hits of both. */
  merge({ hits, lacking, keys }: HitsData): this {
    this.#hits += hits;
    this.#lacking += lacking;
    for (const [key, more] of keys) {
      hasher.hash(key);
      const place = this.#find(hasher.low, hasher.high);
      const isNew = this.#counts[place] === 0;
      this.#counts[place] += more;
      if (isNew) this.#added(place, key);
    }
    return this;
  }

  data(): HitsData {
    const keys: [string, number][] = [];
    for (let place = 0; place < PLACES; place++) {
      const name = this.#names[place];
      if (name !== undefined) keys.push([name, this.#counts[place]]);
    }
    keys.sort(([a, hitsA], [b, hitsB]) => hitsB - hitsA || (a < b ? -1 : 1));
    // What is counted without a name has come once since the last purge.
    const unnamed = keys.length < this.#size ? 1 : 0;
    return { hits: this.#hits, lacking: this.#lacking + unnamed, keys };
  }
}

/** Shorter strings are never pieces of others in V8. */
const LEAST_PIECE = 13;
const scratch = Buffer.alloc(2 * LONGEST_KEY);

/** A key may be a piece of a long header, which would be kept in memory along with it. */
function copyOf(key: string): string {
  if (key.length < LEAST_PIECE || key.length > LONGEST_KEY) return key;
  return scratch.toString('utf16le', 0, scratch.write(key, 0, 'utf16le'));
}
