/**
 * Records that expire, in bounded memory.
 *
 * Each record belongs to a group; there is one group for each policy and client. The group is not
 * needed to find a record, so a retry by another client also finds it. When the memory is full, the
 * oldest record of the group with the most bytes is evicted. So with n groups, a group that needs
 * at most 1/n of the bytes loses no records, however many the other groups add.
 *
 * There is no timer. Each call of `set` deletes up to two expired records of the same group, and up
 * to two of one other group.
 */
import { Heap, type HeapEntry } from '../heap.ts';

/** Estimated bytes of a group without records. Counting them bounds the number of groups. */
const GROUP_BYTES = 300;
const SHARDS = 64;

interface Entry<T> {
  readonly name: number;
  readonly value: T;
  readonly bytes: number;
  readonly atMs: number;
  after: Entry<T> | undefined;
}

interface Group<T> extends HeapEntry {
  readonly name: string;
  lifetimeMs: number;
  /** The oldest and the newest record of a linked list. */
  first?: Entry<T> | undefined;
  last?: Entry<T> | undefined;
  bytes: number;
  /** Records from before this time may have been evicted. */
  evictedMs: number;
}

export class ExpiringRecords<T> {
  #freeBytes: number;
  /** Entries by name, in shards: rehashing one large `Map` blocks for 6 ms at 131,072 entries. */
  readonly #shards = Array.from({ length: SHARDS }, () => new Map<number, Entry<T>>());
  readonly #groups = new Map<string, Group<T>>();
  /** The groups, most bytes first. */
  readonly #heap = new Heap<Group<T>>(({ bytes }) => -bytes);
  /** Iterates over the groups: each call of `set` expires records of the next group. */
  #order = this.#groups.values();
  /** The latest `evictedMs` of all groups that were deleted because the memory was full. */
  #evictedMs = 0;

  constructor(maxBytes: number) {
    this.#freeBytes = maxBytes;
  }

  /** Returns a record, even if it has expired. */
  get(name: number): T | undefined {
    return this.#shards[name % SHARDS].get(name)?.value;
  }

  /** Returns the time before which records of the group may have been evicted. */
  evictedMs(group: string): number {
    return Math.max(this.#evictedMs, this.#groups.get(group)?.evictedMs ?? 0);
  }

  /** Adds a record in O(log n) for n groups. */
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
      own = { name: group, lifetimeMs: 0, bytes: 0, evictedMs: 0 };
      this.#groups.set(group, own);
      this.#resize(own, GROUP_BYTES + 2 * group.length);
    }
    own.lifetimeMs = Math.max(own.lifetimeMs, lifetimeMs);
    const entry: Entry<T> = { name, value, bytes, atMs: nowMs, after: undefined };
    this.#shards[name % SHARDS].set(name, entry);
    if (own.last) own.last.after = entry;
    else own.first = entry;
    own.last = entry;
    this.#resize(own, bytes);
    this.#expire(own, nowMs);
    const { value: other = own, done } = this.#order.next();
    if (done) this.#order = this.#groups.values();
    this.#expire(other, nowMs);
    while (this.#freeBytes < 0) this.#evict(this.#heap.first!);
  }

  /** Deletes up to two expired records, or the group if it is empty and has expired. */
  #expire(group: Group<T>, nowMs: number): void {
    for (let most = 2; most > 0; most--) {
      const ageMs = nowMs - (group.first?.atMs ?? group.evictedMs);
      if (ageMs >= group.lifetimeMs) this.#shrink(group);
    }
  }

  #evict(group: Group<T>): void {
    // Stores the time up to which records were evicted: in the group, or for all groups if the
    // group itself is deleted.
    if (group.first) group.evictedMs = Math.max(group.evictedMs, group.first.atMs + 1);
    else this.#evictedMs = Math.max(this.#evictedMs, group.evictedMs);
    this.#shrink(group);
  }

  /** Deletes the oldest record, or an empty group. */
  #shrink(group: Group<T>): void {
    const { first } = group;
    if (first) {
      // A newer record may have replaced this one under the same name.
      const shard = this.#shards[first.name % SHARDS];
      if (shard.get(first.name) === first) shard.delete(first.name);
      group.first = first.after;
      group.last = first.after && group.last;
      this.#resize(group, -first.bytes);
    } else if (this.#groups.delete(group.name)) {
      this.#freeBytes += group.bytes;
      this.#heap.delete(group);
    }
  }

  #resize(group: Group<T>, change: number): void {
    this.#heap.delete(group);
    this.#freeBytes -= change;
    group.bytes += change;
    this.#heap.add(group);
  }
}
