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

interface Generation<T> {
  readonly records: Map<number, T>;
  bytes: number;
}

interface Group<T> {
  lifetimeMs: number;
  startMs: number;
  /** Records from before may have been dropped although their lifetime was not over. */
  droppedMs: number;
  current: Generation<T>;
  previous: Generation<T>;
}

export class ExpiringRecords<T> {
  readonly #groups = new Map<string, Group<T>>();
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns a record; it may be as old as twice its lifetime. */
  get(group: string, name: number): T | undefined {
    const { current, previous } = this.#groups.get(group) ?? {};
    return current?.records.get(name) ?? previous?.records.get(name);
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
    const own = this.#groups.get(group) ?? newGroup(nowMs);
    this.#groups.set(group, own);
    own.lifetimeMs = Math.max(own.lifetimeMs, lifetimeMs);
    own.current.records.set(name, value);
    own.current.bytes += bytes;
    let sum = 0;
    let largest = own;
    for (const each of this.#groups.values()) {
      const ageMs = nowMs - each.startMs;
      // A clock that was set back ends a generation too, rather than keep it until then.
      if (Math.abs(ageMs) >= each.lifetimeMs) turn(each, nowMs, ageMs < 0);
      sum += bytesOf(each);
      if (bytesOf(each) > bytesOf(largest)) largest = each;
    }
    // A quarter each, so that a quarter of the newest stays when the older generation is dropped.
    if (sum > this.#maxBytes || own.current.bytes * 4 > this.#maxBytes) turn(largest, nowMs, true);
  }
}

const newGeneration = <T>(): Generation<T> => ({ records: new Map(), bytes: 0 });

function newGroup<T>(startMs: number): Group<T> {
  const [current, previous] = [newGeneration<T>(), newGeneration<T>()];
  return { lifetimeMs: 1, startMs, droppedMs: 0, current, previous };
}

function turn<T>(group: Group<T>, nowMs: number, isEarly: boolean): void {
  if (isEarly) group.droppedMs = Math.max(group.droppedMs, group.startMs);
  group.previous = group.current;
  group.current = newGeneration();
  group.startMs = nowMs;
}

const bytesOf = <T>({ current, previous }: Group<T>): number => current.bytes + previous.bytes;
