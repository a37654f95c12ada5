/**
 * Binary heap of timed entries, earliest first. Entries that are due together keep the order in
 * which they were added. Each entry stores its own index, so it can be removed in O(log n).
 */

/** What the heap keeps in an entry. `add` sets its order, and `at`, its index. */
export interface Timed {
  dueMs: number;
  order?: number;
  at?: number;
}

const isBefore = (one: Timed, other: Timed): boolean =>
  one.dueMs < other.dueMs || (one.dueMs === other.dueMs && one.order! < other.order!);

export class Heap<Entry extends Timed> {
  readonly #entries: Entry[] = [];
  #added = 0;

  get first(): Entry | undefined {
    return this.#entries[0];
  }

  add(entry: Entry): void {
    entry.order = this.#added++;
    this.#settle(entry, this.#entries.length);
  }

  /** Removes an entry. Does nothing if the entry is not in this heap. */
  delete(entry: Entry): void {
    if (this.#entries[entry.at!] !== entry) return;
    const last = this.#entries.pop()!;
    if (last !== entry) this.#settle(last, entry.at!);
  }

  /** Puts an entry where there is a gap, or further up or down if it belongs there. */
  #settle(entry: Entry, gap: number): void {
    const entries = this.#entries;
    const put = (moved: Entry, to: number): void => {
      entries[to] = moved;
      moved.at = to;
    };
    let at = gap;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(entry, entries[parent])) break;
      put(entries[parent], at);
      at = parent;
    }
    for (;;) {
      let child = 2 * at + 1;
      if (child + 1 < entries.length && isBefore(entries[child + 1], entries[child])) child++;
      if (child >= entries.length || !isBefore(entries[child], entry)) break;
      put(entries[child], at);
      at = child;
    }
    put(entry, at);
  }
}
