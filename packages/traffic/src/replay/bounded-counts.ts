/**
 * Counts by name in bounded memory, because the number of names in a log is not bounded. When there
 * are too many names, the half with the smaller counts is merged into `others`.
 */
export interface NamedCount {
  readonly name: string;
  readonly count: number;
}

export class BoundedCounts {
  readonly #most: number;
  #counts = new Map<string, number>();
  /**
   * Sum of the dropped counts. A remaining count may be too low by up to this sum, if its name was
   * dropped earlier.
   */
  others = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(name: string, count = 1): void {
    const before = this.#counts.get(name);
    if (before === undefined && this.#counts.size >= this.#most) this.#prune();
    this.#counts.set(name, (before ?? 0) + count);
  }

  /** Returns the counts, largest first. Equal counts are in the order in which they were added. */
  largest(most: number = this.#most): readonly NamedCount[] {
    return [...this.#counts]
      .map(([name, count]) => ({ name, count }))
      .sort((a, b) => b.count - a.count)
      .slice(0, most);
  }

  #prune(): void {
    const kept = this.largest(Math.floor(this.#most / 2));
    const before = this.#sum();
    this.#counts = new Map(kept.map(({ name, count }) => [name, count]));
    this.others += before - this.#sum();
  }

  #sum(): number {
    let sum = 0;
    for (const count of this.#counts.values()) sum += count;
    return sum;
  }
}
