/**
 * Binary heap, lowest rank first. Entries of equal rank are sorted by the `order` passed to `add`,
 * which by default is the order in which they were added. Each entry stores its index, so removing
 * an entry takes O(log n).
 */

/** The fields that the heap sets: `order`, which sorts equal ranks, and `at`, the index. */
export interface HeapEntry {
  order?: number;
  at?: number;
}

export interface TimedEntry extends HeapEntry {
  dueMs: number;
}

/** Ranks entries by time: the earliest is first. */
export const byTime = ({ dueMs }: TimedEntry): number => dueMs;

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
    this.#sift(entry, this.#entries.length);
  }

  /** Removes an entry. Does nothing if the entry is not in this heap. */
  delete(entry: Entry): void {
    if (this.#entries[entry.at!] !== entry) return;
    const last = this.#entries.pop()!;
    if (last !== entry) this.#sift(last, entry.at!);
  }

  /** Moves a gap up or down to the place where the entry belongs, and stores the entry there. */
  #sift(entry: Entry, gap: number): void {
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
