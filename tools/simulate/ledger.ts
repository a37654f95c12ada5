/** The units of a limit that were really spent, by the server's time. */

export interface Spent {
  readonly atMs: number;
  /** Less than the charge after a refund. */
  cost: number;
}

/** A window that contains more than the limit. */
export interface Exceeded {
  readonly limit: number;
  readonly units: number;
  /** The last millisecond of the window. */
  readonly untilMs: number;
}

export class Ledger {
  readonly #limit: number;
  readonly #windowMs: number;
  readonly #spent: Spent[] = [];
  /** The index of the oldest units in the current window, and the sum of this window. */
  #oldest = 0;
  #units = 0;

  constructor(limit: number, windowMs: number) {
    this.#limit = limit;
    this.#windowMs = windowMs;
  }

  spend(atMs: number, cost: number): Spent {
    const spent = { atMs, cost };
    this.#spent.push(spent);
    this.#units += cost;
    return spent;
  }

  refund(spent: Spent, cost: number): void {
    spent.cost -= cost;
    if (this.#spent[this.#oldest]?.atMs <= spent.atMs) this.#units -= cost;
  }

  /** Returns the units spent in the window that ends at `nowMs`, the latest time so far. */
  inWindow(nowMs: number): number {
    const spent = this.#spent;
    while (spent[this.#oldest]?.atMs <= nowMs - this.#windowMs) {
      this.#units -= spent[this.#oldest++].cost;
    }
    return this.#units;
  }

  /** Returns the windows of W milliseconds that contain more than the limit. */
  exceeded(): Exceeded[] {
    const inOrder = this.#spent.toSorted((one, other) => one.atMs - other.atMs);
    const exceeded: Exceeded[] = [];
    let units = 0;
    let oldest = 0;
    for (const { atMs, cost } of inOrder) {
      units += cost;
      while (inOrder[oldest].atMs <= atMs - this.#windowMs) units -= inOrder[oldest++].cost;
      if (units > this.#limit) exceeded.push({ limit: this.#limit, units, untilMs: atMs });
    }
    return exceeded;
  }
}
