/**
 * Queues of waiters: calls of `acquire` that wait. Joining a queue, leaving it, and summing the
 * cost of all waiters before a given one each take O(log n).
 */
import { Turns } from './turns.ts';

export interface QueueNode<T> {
  readonly item: T;
  readonly list: LinkedList<T>;
  before: QueueNode<T> | undefined;
  after: QueueNode<T> | undefined;
  readonly cost: number;
  sum?: Sum;
}

/** A linked list. Calls `emptied` when its last item is removed. */
export class LinkedList<T> {
  first: QueueNode<T> | undefined;
  last: QueueNode<T> | undefined;

  constructor(readonly emptied?: () => void) {}

  add(item: T, cost = 0): QueueNode<T> {
    const place: QueueNode<T> = { item, list: this, before: this.last, after: undefined, cost };
    if (place.before) place.before.after = place;
    else this.first = place;
    this.last = place;
    return place;
  }

  remove({ before, after }: QueueNode<T>): void {
    if (before) before.after = after;
    else this.first = after;
    if (after) after.before = before;
    else this.last = before;
    if (!this.first) this.emptied?.();
  }
}

/**
 * A node of a Fenwick tree: the summed cost of the waiters numbered from `left.at + 1` to `at`. The
 * tree is linked, not an array, so that nodes of waiters that have left are garbage collected.
 */
interface Sum {
  readonly at: number;
  left: Sum | undefined;
  /** The next node whose sum includes this one. */
  up?: Sum;
  cost: number;
}

/** The waiters of one key, in order of arrival. */
export class KeyQueue<T> extends LinkedList<T> {
  #newest: Sum | undefined;
  /** The first waiter whose turn has not been estimated. No later waiter has been estimated. */
  unestimated: QueueNode<T> | undefined;
  /** The place of this queue in the list of queues with work to do. */
  ready: QueueNode<KeyQueue<T>> | undefined;
  /** The summed cost of the waiters that were decided. Added to a demand, it is a position. */
  served = 0;
  readonly turns = new Turns();
  /** No waiter at `position` or later is admitted before `earliestMs`. */
  late: { readonly position: number; readonly earliestMs: number } | undefined;

  override add(item: T, cost: number): QueueNode<T> {
    const place = super.add(item, cost);
    const at = (this.#newest?.at ?? 0) + 1;
    const sum: Sum = { at, left: this.#newest, cost };
    // The lowest set bit of an index is the number of waiters that its node sums.
    while (sum.left && sum.left.at > at - (at & -at)) {
      sum.cost += sum.left.cost;
      sum.left.up = sum;
      sum.left = sum.left.left;
    }
    place.sum = this.#newest = sum;
    return place;
  }

  override remove(place: QueueNode<T>): void {
    for (let { sum } = place; sum; sum = sum.up) sum.cost -= place.cost;
    if (this.unestimated === place) this.unestimated = place.after;
    super.remove(place);
  }

  /** Returns the summed cost of a waiter and of all waiters before it. */
  demandAt(place: QueueNode<T>): number {
    let demand = 0;
    for (let { sum } = place; sum; sum = sum.left) demand += sum.cost;
    return demand;
  }
}

const MAX_IN_SHARD = 8192;

/**
 * A map in shards of limited size. A single growing `Map` would be rehashed in one step, which
 * blocks the event loop for 3 ms at 65,536 entries.
 */
export class ShardedMap<K, V> {
  readonly #shards: Map<K, V>[] = [];

  get(key: K): V | undefined {
    return this.#shards.find((shard) => shard.has(key))?.get(key);
  }

  /** Adds a key that is not in the map yet. */
  add(key: K, value: V): V {
    let shard = this.#shards.find(({ size }) => size < MAX_IN_SHARD);
    if (!shard) {
      shard = new Map();
      this.#shards.push(shard);
    }
    shard.set(key, value);
    return value;
  }

  delete(key: K): void {
    this.#shards.some((shard) => shard.delete(key));
  }
}
