/**
 * Records of holds or blocks. If there are more than `max`, the oldest is deleted. The records form
 * a linked list in order of insertion. The order of the `Map` is not used: finding its first key
 * takes time for each key that was deleted before.
 */

export interface TableRecord {
  readonly id: number;
  /** From this time on, the record has no effect. */
  readonly expiresMs: number;
  /** The neighbours in the list, set by `Records`. */
  before?: TableRecord | undefined;
  after?: TableRecord | undefined;
}

export class Records<T extends TableRecord> {
  readonly #max: number;
  readonly #byId = new Map<number, T>();
  #first: TableRecord | undefined = undefined;
  #last: TableRecord | undefined = undefined;
  /** The largest id so far. */
  lastId = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: number): T | undefined {
    return this.#byId.get(id);
  }

  /** Adds a record as the newest. Replaces the record with the same id, if any. */
  add(record: T): void {
    const { id } = record;
    this.delete(id);
    record.before = this.#last;
    if (record.before) record.before.after = record;
    else this.#first = record;
    this.#last = record;
    this.#byId.set(id, record);
    this.lastId = Math.max(this.lastId, id);
    if (this.size > this.#max) this.delete(this.#first!.id);
  }

  delete(id: number): void {
    const record = this.get(id);
    if (record === undefined) return;
    const { before, after } = record;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    else this.#last = before;
    this.#byId.delete(id);
  }

  /** Deletes at most `most` expired records, oldest first. Stops at a record that still counts. */
  expire(most: number, nowMs: number): void {
    for (
      let remaining = most;
      remaining > 0 && this.#first && this.#first.expiresMs <= nowMs;
      remaining--
    ) {
      this.delete(this.#first.id);
    }
  }

  /** Returns all records, oldest first, in O(n). */
  all(): T[] {
    return [...this.#byId.values()];
  }
}
