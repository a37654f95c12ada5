/**
 * Binary heap, lowest rank first. Entries of the same rank keep the order in which they were added,
 * or the order passed to `add`. Each entry stores its index, so removing one takes O(log n).
 */

/** The fields that the heap sets: `add` sets `order`, and `at`, the index. */
export interface HeapEntry {
  order?: number;
  at?: number;
}

export interface Timed extends HeapEntry {
  dueMs: number;
}

/** Ranks entries by time: the earliest is first. */
export const byTime = ({ dueMs }: Timed): number => dueMs;

export class Heap<Entry extends HeapEntry> {
  readonly #entries: Entry[] = [];
  readonly #isBefore: (one: Entry, other: Entry) => boolean;
  #added = 0;

  /** To change the rank of an entry, delete it and add it again. */
  constructor(rankOf: (entry: Entry) => number) {
    this.#isBefore = (one, other) => (rankOf(one) - rankOf(other) || one.order! - other.order!) < 0;
  }

  get first(): Entry | undefined {
    return this.#entries[0];
  }

  add(entry: Entry, order = this.#added++): void {
    entry.order = order;
    this.#settle(entry, this.#entries.length);
  }

  /** Removes an entry. Does nothing if the entry is not in this heap. */
  delete(entry: Entry): void {
    if (this.#entries[entry.at!] !== entry) return;
    const last = this.#entries.pop()!;
    if (last !== entry) this.#settle(last, entry.at!);
  }

  /** Puts an entry into a gap, after sifting the gap up or down to where the entry belongs. */
  #settle(entry: Entry, gap: number): void {
    const entries = this.#entries;
    let at = gap;
    for (;;) {
      let from = (at - 1) >> 1;
      if (at === 0 || !this.#isBefore(entry, entries[from])) {
        from = 2 * at + 1;
        if (from + 1 < entries.length && this.#isBefore(entries[from + 1], entries[from])) from++;
        if (from >= entries.length || !this.#isBefore(entries[from], entry)) break;
      }
      entries[at] = entries[from];
      entries[at].at = at;
      at = from;
    }
    entries[at] = entry;
    entry.at = at;
  }
}
