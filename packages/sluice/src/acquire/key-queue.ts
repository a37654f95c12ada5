/**
 * Queues of waiters: `acquire` calls that wait. Adding a waiter, removing a waiter, and summing the
 * cost of a waiter and all waiters before it each take O(log n).
 */
import { HeldSlots } from './held-slots.ts';
import { Pacing } from './pacing.ts';

export interface QueueNode<T> {
  readonly item: T;
  readonly list: LinkedList<T>;
  before: QueueNode<T> | undefined;
  after: QueueNode<T> | undefined;
  readonly cost: number;
  /** The node of the Fenwick tree that was added for this waiter. Set in a `KeyQueue` only. */
  sum?: Sum;
}

/** A linked list. Calls `onEmpty` after its last item is removed. */
export class LinkedList<T> {
  first: QueueNode<T> | undefined;
  last: QueueNode<T> | undefined;

  constructor(readonly onEmpty?: () => void) {}

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
    if (!this.first) this.onEmpty?.();
  }
}

/**
 * A node of a Fenwick tree. The waiters of a queue are numbered from 1 in order of arrival, and a
 * node holds the summed cost of the waiters `left.at + 1` to `at`. The nodes are linked instead of
 * stored in an array, so that the nodes of removed waiters can be garbage collected.
 */
interface Sum {
  readonly at: number;
  /** The node that sums the waiters directly before those of this node. Undefined if none are. */
  left: Sum | undefined;
  /** The next node whose sum includes the sum of this node. */
  up?: Sum;
  cost: number;
}

/** The waiters of one key, in order of arrival. */
export class KeyQueue<T> extends LinkedList<T> {
  #newest: Sum | undefined;
  /** The first waiter without an estimate of its turn. The waiters after it have no estimate. */
  unestimated: QueueNode<T> | undefined;
  /** The node of this queue in the list of queues with work to do, or undefined. */
  ready: QueueNode<KeyQueue<T>> | undefined;
  /**
   * The summed cost of the waiters that have been decided. `served + demandAt(place)` is the
   * position of a waiter. Decisions of earlier waiters do not change it.
   */
  served = 0;
  readonly pacing = new Pacing();
  readonly slots = new HeldSlots();
  /** Set by an estimate: no waiter at `position` or later is admitted before `earliestMs`. */
  late: { readonly position: number; readonly earliestMs: number } | undefined;

  override add(item: T, cost: number): QueueNode<T> {
    const place = super.add(item, cost);
    const at = (this.#newest?.at ?? 0) + 1;
    const sum: Sum = { at, left: this.#newest, cost };
    // In a Fenwick tree, node `at` sums as many waiters as the value of the lowest set bit of `at`.
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
 * A map that consists of several `Map` objects (shards) of limited size. A single large `Map` is
 * rehashed in one step when it grows, which blocks the event loop for 3 ms at 65,536 entries.
 */
export class ShardedMap<K, V> {
  readonly #shards: Map<K, V>[] = [];

  get(key: K): V | undefined {
    return this.#shards.find((shard) => shard.has(key))?.get(key);
  }

  /** Adds a key that is not in the map yet. Returns `value`. */
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
