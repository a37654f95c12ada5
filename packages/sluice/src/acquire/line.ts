/**
 * Lines that waiters stand in. Joining, leaving from anywhere and summing up the cost of the
 * waiters ahead take O(log n).
 */

/** A linked list. `add` returns the item's place, which is what `remove` takes. */
export class List<T> {
  first: Place<T> | undefined;
  last: Place<T> | undefined;

  add(item: T): Place<T> {
    const before = this.last;
    const place: Place<T> = { item, before, after: undefined, at: 0, up: undefined };
    if (before) before.after = place;
    else this.first = place;
    this.last = place;
    return place;
  }

  remove({ before, after }: Place<T>): void {
    if (before) before.after = after;
    else this.first = after;
    if (after) after.before = before;
    else this.last = before;
  }
}

export interface Place<T> extends Addend {
  readonly item: T;
  before: Place<T> | undefined;
  after: Place<T> | undefined;
}

/** One number of a sum. */
interface Addend {
  up: Sum | undefined;
  /** The index in `up.parts`. */
  at: number;
}

/**
 * A node of a tree of sums. Nodes refer to their parents only, so the nodes of waiters that left
 * are garbage.
 */
interface Sum extends Addend {
  readonly parts: number[];
}

const MOST_PARTS = 32;

function addTo(place: Addend, cost: number): void {
  for (let { up, at } = place; up; { up, at } = up) up.parts[at] += cost;
}

/** The waiters of one key, in order of arrival. */
export class Lane<T> extends List<T> {
  /** The newest node of each level of the tree, leaves first. */
  readonly #newest: Sum[] = [];
  /** The first waiter whose wait has not been estimated yet; all after it have not been either. */
  unjudged: Place<T> | undefined;
  /** The place among the lanes that have something to do. */
  ready: Place<Lane<T>> | undefined;
  /** The cost served so far. With the demand ahead it makes a position, which serving keeps. */
  served = 0;
  /** Waiters from this position on, with this deadline or an earlier one, are too late. */
  late: { readonly position: number; readonly deadlineMs: number } | undefined;

  constructor(readonly id: string) {
    super();
  }

  join(item: T, cost: number): Place<T> {
    const place = this.add(item);
    this.#attach(place, 0);
    addTo(place, cost);
    this.unjudged ??= place;
    return place;
  }

  override remove(place: Place<T>): void {
    super.remove(place);
    addTo(place, -place.up!.parts[place.at]);
    if (this.unjudged === place) this.unjudged = place.after;
  }

  /** Whether a waiter with no later a deadline has been found too late no further back. */
  isLate(position: number, deadlineMs: number): boolean {
    const { late } = this;
    return !!late && position >= late.position && deadlineMs <= late.deadlineMs;
  }

  /** Returns the cost of the waiter at a place and of all waiters before it. */
  demandAt(place: Place<T>): number {
    let demand = place.up!.parts[place.at];
    for (let { up, at } = place as Addend; up; { up, at } = up) {
      for (let part = 0; part < at; part++) demand += up.parts[part];
    }
    return demand;
  }

  /** Makes a place, or a node, the last part of the newest node of a level. */
  #attach(child: Addend, level: number): void {
    let node = this.#newest[level];
    if (node === undefined || node.parts.length === MOST_PARTS) {
      const full = node;
      node = { parts: [], up: undefined, at: 0 };
      if (full) {
        // A root that is full gets a parent, which holds the sum so far.
        if (full.up === undefined) {
          this.#attach(full, level + 1);
          addTo(
            full,
            full.parts.reduce((sum, part) => sum + part),
          );
        }
        this.#attach(node, level + 1);
      }
      this.#newest[level] = node;
    }
    child.up = node;
    child.at = node.parts.push(0) - 1;
  }
}

const MOST_IN_PART = 8192;

/**
 * A map in parts of limited size. When a `Map` grows it is rehashed at once, which takes 3 ms at
 * 65,536 entries.
 */
export class PartedMap<K, V> {
  readonly #parts = [new Map<K, V>()];

  get(key: K): V | undefined {
    for (const part of this.#parts) {
      const value = part.get(key);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  /** Adds a key that is not there yet. */
  add(key: K, value: V): V {
    if (this.#parts.every(({ size }) => size === MOST_IN_PART)) this.#parts.push(new Map());
    this.#parts.find(({ size }) => size < MOST_IN_PART)!.set(key, value);
    return value;
  }

  delete(key: K): void {
    this.#parts.some((part) => part.delete(key));
  }

  *values(): Iterable<V> {
    for (const part of this.#parts) yield* part.values();
  }
}
