/**
 * Sums the cost of each client in sliding windows of several lengths at once, and keeps the maximum
 * of each sum. The sums are exact. This module shares no code with the limiter algorithms, because
 * it measures what they admit.
 *
 * Each client has a linked list of times with costs, oldest first. For each window, a pointer
 * refers to the first node within the window. Nodes that leave the longest window are freed. A
 * client's row has these words:
 *
 *     | newest | window 0: first, sum, most | window 1: first, sum, most | ...
 *
 * Pointers are node numbers, and 0 means no node. Costs and sums have 32 bits each. When a value
 * needs more, its array is converted to doubles.
 */
const CHUNK_BITS = 14;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;
const FIRST_ROWS = 256;
const WINDOW_WORDS = 3;
const SUM = 1;
const MOST = 2;

/** Integers of 32 or 53 bits. */
type Integers = Uint32Array | Float64Array;

const MAX_UINT32 = 2 ** 32 - 1;

const isTooLarge = (value: number, among: Integers): boolean =>
  value > MAX_UINT32 && among instanceof Uint32Array;

/** The nodes of all lists, in chunks that are never copied. */
class Nodes {
  readonly #times: Float64Array[] = [];
  readonly #costs: Integers[] = [];
  readonly #nexts: Uint32Array[] = [];
  #freed = 0;
  #unused = 1;
  held = 0;

  make(timeMs: number, cost: number): number {
    this.held++;
    let node = this.#freed;
    if (node !== 0) this.#freed = this.next(node);
    else {
      node = this.#unused++;
      if (node >>> CHUNK_BITS === this.#times.length) {
        this.#times.push(new Float64Array(CHUNK_MASK + 1));
        this.#costs.push(new Uint32Array(CHUNK_MASK + 1));
        this.#nexts.push(new Uint32Array(CHUNK_MASK + 1));
      }
    }
    this.#times[node >>> CHUNK_BITS][node & CHUNK_MASK] = timeMs;
    this.#setCost(node, cost);
    this.link(node, 0);
    return node;
  }

  free(node: number): void {
    this.held--;
    this.link(node, this.#freed);
    this.#freed = node;
  }

  time(node: number): number {
    return this.#times[node >>> CHUNK_BITS][node & CHUNK_MASK];
  }

  cost(node: number): number {
    return this.#costs[node >>> CHUNK_BITS][node & CHUNK_MASK];
  }

  charge(node: number, cost: number): void {
    this.#setCost(node, this.cost(node) + cost);
  }

  #setCost(node: number, cost: number): void {
    const chunk = node >>> CHUNK_BITS;
    if (isTooLarge(cost, this.#costs[chunk])) {
      this.#costs[chunk] = new Float64Array(this.#costs[chunk]);
    }
    this.#costs[chunk][node & CHUNK_MASK] = cost;
  }

  next(node: number): number {
    return this.#nexts[node >>> CHUNK_BITS][node & CHUNK_MASK];
  }

  link(node: number, next: number): void {
    this.#nexts[node >>> CHUNK_BITS][node & CHUNK_MASK] = next;
  }
}

export class WindowCounts {
  /** Window lengths, ascending. */
  readonly windowsMs: readonly number[];
  readonly #nodes = new Nodes();
  readonly #width: number;
  readonly #mostHeld: number;
  #rows: Integers;
  /** Number of windows that have not been dropped. */
  #counted: number;

  /**
   * If there are more than `mostHeld` nodes, `add` drops the longest window, unless it is the last.
   */
  constructor(windowsMs: readonly number[], mostHeld = Number.POSITIVE_INFINITY) {
    this.windowsMs = [...windowsMs].sort((a, b) => a - b);
    this.#counted = this.windowsMs.length;
    this.#mostHeld = mostHeld;
    this.#width = 1 + WINDOW_WORDS * this.#counted;
    this.#rows = new Uint32Array(FIRST_ROWS * this.#width);
  }

  /** The lengths of the windows that have not been dropped. */
  get countedMs(): readonly number[] {
    return this.windowsMs.slice(0, this.#counted);
  }

  /** Returns the cost of a client in a window, as of the last `add` for the client. */
  sum(row: number, window: number): number {
    return this.#rows[this.#at(row, window) + SUM] ?? 0;
  }

  /** Returns the maximum cost of a client in a window so far. */
  most(row: number, window: number): number {
    return this.#rows[this.#at(row, window) + MOST] ?? 0;
  }

  /** True if a sum has needed more than 32 bits. */
  get isWide(): boolean {
    return this.#rows instanceof Float64Array;
  }

  #at(row: number, window: number): number {
    return row * this.#width + 1 + WINDOW_WORDS * window;
  }

  /** Adds a cost. `timeMs` must not be before the previous `timeMs` of the client. */
  add(row: number, timeMs: number, cost = 1): void {
    while ((row + 1) * this.#width > this.#rows.length) {
      const Kind = this.isWide ? Float64Array : Uint32Array;
      const rows = new Kind(2 * this.#rows.length);
      rows.set(this.#rows);
      this.#rows = rows;
    }
    const node = this.#append(row, timeMs, cost);
    this.#makeWide(row, cost);
    const rows = this.#rows;
    // Update the longest window last, because that frees nodes: no shorter window refers to them
    // then.
    for (let window = 0; window < this.#counted; window++) {
      const at = this.#at(row, window);
      if (rows[at] === 0) rows[at] = node;
      rows[at + SUM] += cost;
      this.#expire(at, timeMs - this.windowsMs[window], window === this.#counted - 1);
      if (rows[at + SUM] > rows[at + MOST]) rows[at + MOST] = rows[at + SUM];
    }
    if (this.#nodes.held > this.#mostHeld && this.#counted > 1) this.#dropLongest();
  }

  /**
   * Converts the sums to doubles if the sum of the longest window, which is the largest, would
   * exceed 32 bits.
   */
  #makeWide(row: number, cost: number): void {
    const most = this.#rows[this.#at(row, this.#counted - 1) + SUM] + cost;
    if (isTooLarge(most, this.#rows)) this.#rows = new Float64Array(this.#rows);
  }

  /** Appends a cost to a client's list. Returns its node. */
  #append(row: number, timeMs: number, cost: number): number {
    const nodes = this.#nodes;
    const newestAt = row * this.#width;
    const newest = this.#rows[newestAt];
    if (newest !== 0 && nodes.time(newest) === timeMs) {
      nodes.charge(newest, cost);
      return newest;
    }
    const node = nodes.make(timeMs, cost);
    if (newest !== 0) nodes.link(newest, node);
    this.#rows[newestAt] = node;
    return node;
  }

  /**
   * Removes the nodes up to `sinceMs` from a window. The newest node is always later, so at least
   * one node remains.
   */
  #expire(at: number, sinceMs: number, isLongest: boolean): void {
    const nodes = this.#nodes;
    const rows = this.#rows;
    for (let first = rows[at]; nodes.time(first) <= sinceMs; first = rows[at]) {
      rows[at + SUM] -= nodes.cost(first);
      rows[at] = nodes.next(first);
      if (isLongest) nodes.free(first);
    }
  }

  /** Drops the longest window. For each client, frees the nodes that only this window contains. */
  #dropLongest(): void {
    this.#counted--;
    for (let row = 0; (row + 1) * this.#width <= this.#rows.length; row++) {
      const at = this.#at(row, this.#counted);
      const end = this.#rows[this.#at(row, this.#counted - 1)];
      for (let node = this.#rows[at]; node !== end; ) {
        const next = this.#nodes.next(node);
        this.#nodes.free(node);
        node = next;
      }
      this.#rows.fill(0, at, at + WINDOW_WORDS);
    }
  }
}
