/**
 * Records that expire, in bounded memory and constant time.
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
  previousBytes: number;
}

export class ExpiringRecords<T> {
  readonly #groups = new Map<string, Group<T>>();
  readonly #maxBytes: number;
  #bytes = 0;
  /** Goes round the groups, so that those that get no new records expire too. */
  #hand = this.#groups.values();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns a record; it may be as old as twice its lifetime. */
  get(group: string, name: number): T | undefined {
    const { current, previous } = this.#groups.get(group) ?? {};
    return current?.get(name) ?? previous?.get(name);
  }

  /** When records of a group may have been dropped before their time, in ms; 0 if none were. */
  droppedMs(group: string): number {
    return this.#groups.get(group)?.droppedMs ?? 0;
  }

  set(
    group: string,
    name: number,
    value: T,
    bytes: number,
    lifetimeMs: number,
    nowMs: number,
  ): void {
    const own = this.#groups.get(group) ?? newGroup(nowMs);
    this.#groups.set(group, own);
    own.lifetimeMs = Math.max(own.lifetimeMs, lifetimeMs);
    own.current.set(name, value);
    own.currentBytes += bytes;
    this.#bytes += bytes;
    this.#expire(own, nowMs);
    const next = this.#hand.next();
    if (next.done) this.#hand = this.#groups.values();
    else this.#expire(next.value, nowMs);
    // A quarter each, so that a quarter of the newest stays when the older generation is dropped.
    if (own.currentBytes * 4 > this.#maxBytes) this.#dropEarly(own, nowMs);
    if (this.#bytes > this.#maxBytes) this.#dropEarly(this.#largest(own), nowMs);
  }

  #expire(group: Group<T>, nowMs: number): void {
    const ageMs = nowMs - group.startMs;
    if (ageMs >= group.lifetimeMs) this.#turn(group, nowMs);
    // A clock that was set back ends a generation too, rather than keep it until then.
    if (-ageMs >= group.lifetimeMs) this.#dropEarly(group, nowMs);
  }

  #largest(largest: Group<T>): Group<T> {
    const bytesOf = (group: Group<T>): number => group.currentBytes + group.previousBytes;
    for (const group of this.#groups.values()) {
      if (bytesOf(group) > bytesOf(largest)) largest = group;
    }
    return largest;
  }

  #dropEarly(group: Group<T>, nowMs: number): void {
    group.droppedMs = Math.max(group.droppedMs, group.startMs);
    this.#turn(group, nowMs);
  }

  #turn(group: Group<T>, nowMs: number): void {
    this.#bytes -= group.previousBytes;
    group.previous = group.current;
    group.previousBytes = group.currentBytes;
    group.current = new Map();
    group.currentBytes = 0;
    group.startMs = nowMs;
  }
}

function newGroup<T>(startMs: number): Group<T> {
  const [current, previous] = [new Map<number, T>(), new Map<number, T>()];
  const empty = { currentBytes: 0, previousBytes: 0, droppedMs: 0 };
  return { ...empty, lifetimeMs: 1, startMs, current, previous };
}
