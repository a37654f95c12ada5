/**
 * Records that expire, in bounded memory.
 *
 * Records belong to groups, one for each policy, and a group has two generations. When the current
 * generation is as old as the lifetime of its records, it replaces the previous one, which is
 * dropped as a whole. So a record is kept for one to two lifetimes, and nothing is ever searched.
 * If the bytes run out, the group with the most bytes drops its previous generation early. So of n
 * groups, one that needs at most 1/n of the bytes, and at most a quarter, loses no records to the
 * others.
 */

interface Group<T> {
  lifetimeMs: number;
  startMs: number;
  /** Records from before this time may have been dropped early. */
  droppedMs: number;
  current: Map<number, T>;
  currentBytes: number;
  previous: Map<number, T>;
  /** The bytes of both generations. */
  bytes: number;
}

export class ExpiringRecords<T> {
  readonly #groups = new Map<string, Group<T>>();
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns a record that is at most twice its lifetime old. */
  get(group: string, name: number): T | undefined {
    const own = this.#groups.get(group);
    return own?.current.get(name) ?? own?.previous.get(name);
  }

  /** Returns the time before which records of the group may have been dropped early. */
  droppedMs(group: string): number {
    return this.#groups.get(group)?.droppedMs ?? 0;
  }

  /** Adds a record in O(number of groups). */
  set(
    group: string,
    name: number,
    value: T,
    bytes: number,
    lifetimeMs: number,
    nowMs: number,
  ): void {
    let own = this.#groups.get(group);
    if (!own) {
      const empty = { current: new Map(), currentBytes: 0, previous: new Map(), bytes: 0 };
      own = { ...empty, lifetimeMs, startMs: nowMs, droppedMs: 0 };
      this.#groups.set(group, own);
    }
    own.lifetimeMs = Math.max(own.lifetimeMs, lifetimeMs);
    own.current.set(name, value);
    own.currentBytes += bytes;
    own.bytes += bytes;
    let sum = 0;
    let largest = own;
    for (const each of this.#groups.values()) {
      const ageMs = nowMs - each.startMs;
      // A clock that was set back also ends a generation, which would otherwise last too long.
      if (Math.abs(ageMs) >= each.lifetimeMs) turn(each, nowMs, ageMs < 0);
      sum += each.bytes;
      if (each.bytes > largest.bytes) largest = each;
    }
    // At most a quarter in a generation, so that dropping one leaves a quarter of the newest.
    if (sum > this.#maxBytes || own.currentBytes * 4 > this.#maxBytes) turn(largest, nowMs, true);
  }
}

function turn<T>(group: Group<T>, nowMs: number, isEarly: boolean): void {
  if (isEarly) group.droppedMs = Math.max(group.droppedMs, group.startMs);
  group.previous = group.current;
  group.bytes = group.currentBytes;
  group.current = new Map();
  group.currentBytes = 0;
  group.startMs = nowMs;
}
