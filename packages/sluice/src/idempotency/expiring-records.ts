/**
 * Records that expire, in bounded memory.
 *
 * Records belong to groups, one for each policy, and a group has two generations. When the current
 * generation is as old as the lifetime of its records, it becomes the previous one, and what was
 * the previous one is dropped whole. So a record is kept for one to two lifetimes, and nothing is
 * ever searched. If the bytes run out, the group with the most bytes drops its previous generation
 * early. So of n groups, one that needs no more than 1/n of the bytes, and a quarter at the most,
 * loses nothing to the others.
 */

interface Group<T> {
  lifetimeMs: number;
  startMs: number;
  /** Records from before may have been dropped although their lifetime was not over. */
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

  /** Returns a record; it may be as old as twice its lifetime. */
  get(group: string, name: number): T | undefined {
    const own = this.#groups.get(group);
    return own?.current.get(name) ?? own?.previous.get(name);
  }

  /** Returns a time: records of the group from before may have been dropped early. */
  droppedMs(group: string): number {
    return this.#groups.get(group)?.droppedMs ?? 0;
  }

  /** Takes as many steps as there are groups. */
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
      // A clock that was set back ends a generation too, rather than keep it until then.
      if (Math.abs(ageMs) >= each.lifetimeMs) turn(each, nowMs, ageMs < 0);
      sum += each.bytes;
      if (each.bytes > largest.bytes) largest = each;
    }
    // A quarter each, so that a quarter of the newest stays when the older generation is dropped.
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
