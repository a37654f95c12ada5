/**
 * The most frequent of many keys, in little memory: a Misra-Gries summary that forgets in batches.
 *
 * At most 400 keys are counted. When another comes, the 201st largest count is taken off every
 * count, and those that come to nothing are forgotten. That takes the same amount off at least 201
 * counts, and no more can be taken off than was counted. So after N hits each count lacks at most
 * N / 201: any key with more hits than that is here, whatever the others were, and the amount that
 * counts may lack is known exactly. Between two such purges 200 new keys have to come, so a hit
 * costs the same on average, however many keys there are.
 */

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

interface Counter {
  hits: number;
}

export class HeavyHitters {
  #counters = new Map<string, Counter>();
  #hits = 0;
  #lacking = 0;

  add(key: string): void {
    this.#hits++;
    const counter = this.#counters.get(key);
    if (counter !== undefined) counter.hits++;
    else this.#insert(key);
  }

  #insert(key: string): void {
    if (this.#counters.size >= MOST_KEYS) this.#purge();
    this.#counters.set(copyOf(key), { hits: 1 });
  }

  #purge(): void {
    const counts = new Float64Array(this.#counters.size);
    let at = 0;
    for (const { hits } of this.#counters.values()) counts[at++] = hits;
    counts.sort();
    const cut = counts[counts.length - KEPT_KEYS - 1];
    const kept = new Map<string, Counter>();
    for (const [key, counter] of this.#counters) {
      counter.hits -= cut;
      if (counter.hits > 0) kept.set(key, counter);
    }
    this.#counters = kept;
    this.#lacking += cut;
  }

  /** Takes in another summary. What is said about the bound holds for all hits of both. */
  merge({ hits, lacking, keys }: HitsData): this {
    this.#hits += hits;
    this.#lacking += lacking;
    for (const [key, more] of keys) {
      const counter = this.#counters.get(key);
      if (counter !== undefined) counter.hits += more;
      else this.#counters.set(key, { hits: more });
    }
    if (this.#counters.size > MOST_KEYS) this.#purge();
    return this;
  }

  data(): HitsData {
    const keys = [...this.#counters].map(([key, { hits }]) => [key, hits] as const);
    keys.sort(([a, hitsA], [b, hitsB]) => hitsB - hitsA || (a < b ? -1 : 1));
    return { hits: this.#hits, lacking: this.#lacking, keys };
  }
}

/** A key may be a piece of a long header, which would be kept in memory along with it. */
const copyOf = (key: string): string => Buffer.from(key, 'utf16le').toString('utf16le');
