/**
 * The most frequent of many keys, in little memory: a Misra-Gries summary that forgets in batches.
 *
 * At most 400 keys are counted. When another has come, the 201st largest count is taken off every
 * count, and those that come to nothing are forgotten. That takes the same amount off at least 201
 * counts, and no more can be taken off than was counted. So after N hits each count lacks at most
 * N / 201: any key with more hits than that is here, whatever the others were, and the amount that
 * counts may lack is known exactly. Between two such purges 200 new keys have to come, so a hit
 * costs the same on average, however many keys there are.
 */

import { KeyedHash, LONGEST_KEY } from 'sluice/engine';

/** So many keys, the most frequent ones, outlast a purge. */
export const KEPT_KEYS = 200;
const MOST_KEYS = 2 * KEPT_KEYS;

/** A summary as data, to be sent to another process and merged there. */
export interface HitsData {
  /** All hits, whatever their keys. */
  readonly hits: number;
  /** How much each count may lack; a key that is not here has at most as many hits. */
  readonly lacking: number;
  readonly keys: readonly (readonly [key: string, hits: number])[];
}

/** A table that is less than half full finds a key within a step or two. */
const PLACES = 1024;
const MASK = PLACES - 1;

/** All tables share one secret, so that nobody can aim at a place. */
const hasher = new KeyedHash();

export class HeavyHitters {
  /** By place: the 64 bits of a key's hash, its count, 0 if the place is free, and the key. */
  readonly #low = new Int32Array(PLACES);
  readonly #high = new Int32Array(PLACES);
  readonly #counts = new Float64Array(PLACES);
  readonly #keys: string[] = new Array(PLACES).fill('');
  #size = 0;
  #hits = 0;
  #lacking = 0;

  add(key: string): void {
    this.#hits++;
    const place = this.#placeOf(key);
    if (this.#counts[place] > 0) this.#counts[place]++;
    else this.#insert(place, copyOf(key), 1);
  }

  /** Where a key is, or would be; nothing is made for it, as most keys of a flood come once. */
  #placeOf(key: string): number {
    const low = hasher.hash(key);
    const { high } = hasher;
    let place = low & MASK;
    while (this.#counts[place] > 0 && (this.#low[place] !== low || this.#high[place] !== high)) {
      place = (place + 1) & MASK;
    }
    this.#low[place] = low;
    this.#high[place] = high;
    return place;
  }

  #insert(place: number, key: string, hits: number): void {
    this.#keys[place] = key;
    this.#counts[place] = hits;
    this.#size++;
    if (this.#size > MOST_KEYS) this.#purge();
  }

  #purge(): void {
    const all = this.#entries();
    const counts = Float64Array.from(all, ([, hits]) => hits).sort();
    const cut = counts[counts.length - KEPT_KEYS - 1];
    this.#counts.fill(0);
    this.#keys.fill('');
    this.#size = 0;
    this.#lacking += cut;
    for (const [key, hits] of all) {
      if (hits > cut) this.#insert(this.#placeOf(key), key, hits - cut);
    }
  }

  #entries(): [key: string, hits: number][] {
    const all: [string, number][] = [];
    for (let place = 0; place < PLACES; place++) {
      if (this.#counts[place] > 0) all.push([this.#keys[place], this.#counts[place]]);
    }
    return all;
  }

  /** Takes in another summary. What is said about the bound holds for all hits of both. */
  merge({ hits, lacking, keys }: HitsData): this {
    this.#hits += hits;
    this.#lacking += lacking;
    for (const [key, more] of keys) {
      const place = this.#placeOf(key);
      if (this.#counts[place] > 0) this.#counts[place] += more;
      else this.#insert(place, key, more);
    }
    return this;
  }

  data(): HitsData {
    const keys = this.#entries();
    keys.sort(([a, hitsA], [b, hitsB]) => hitsB - hitsA || (a < b ? -1 : 1));
    return { hits: this.#hits, lacking: this.#lacking, keys };
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
