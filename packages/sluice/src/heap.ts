/**
 * Binary heap of timed entries, earliest first. Entries that are due at the same time keep the
 * order in which they were added, or the order passed to `add`. Each entry stores its index, so
 * removing one takes O(log n).
 */

/** The fields that the heap uses. `add` sets `order`, and `at`, the index. */
export interface Timed {
  dueMs: number;
  order?: number;
  at?: number;
}

const isBefore = (one: Timed, other: Timed): boolean =>
  (one.dueMs - other.dueMs || one.order! - other.order!) < 0;

export class Heap<Entry extends Timed> {
  readonly #entries: Entry[] = [];
  #added = 0;

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
      if (at === 0 || !isBefore(entry, entries[from])) {
        from = 2 * at + 1;
        if (from + 1 < entries.length && isBefore(entries[from + 1], entries[from])) from++;
        if (from >= entries.length || !isBefore(entries[from], entry)) break;
      }
      entries[at] = entries[from];
      entries[at].at = at;
      at = from;
    }
    entries[at] = entry;
    entry.at = at;
  }
}
