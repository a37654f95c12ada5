/**
 * Those that are denied, by name and in detail. There may be any number of them, so when there are
 * too many the less denied half is let go; one of them that is denied again is taken up anew. How
 * often and since when each client is denied is counted for all, so that is exact in any case.
 */
import { owned } from '../formats/text.ts';
import { BoundedCounts, type NamedCount } from './bounded-counts.ts';
import { FirstTimes } from './rows.ts';

/** How many of the most denied are surely known by name. */
const KEPT = 20_000;
const ROUTES_KEPT = 16;
const ROUTES_TOLD = 3;

export interface DeniedClient {
  readonly client: string;
  readonly row: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** How often each policy had no room for it, the most first. */
  readonly policies: readonly NamedCount[];
  /** Where it was denied, the most first. */
  readonly routes: readonly NamedCount[];
}

interface Detail {
  readonly client: string;
  lastMs: number;
  readonly policies: Map<string, number>;
  readonly routes: BoundedCounts;
}

export class DeniedClients {
  #details = new Map<number, Detail>();
  readonly #first = new FirstTimes();
  readonly #countOf: (row: number) => number;
  readonly #kept: number;

  /** `countOf` says how often a client has been denied by now. */
  constructor(countOf: (row: number) => number, kept = KEPT) {
    this.#countOf = countOf;
    this.#kept = kept;
  }

  add(row: number, client: string, timeMs: number, policies: readonly string[], route: string) {
    this.#first.add(row, timeMs);
    const detail = this.#details.get(row) ?? this.#open(row, client);
    detail.lastMs = timeMs;
    for (const name of policies) detail.policies.set(name, (detail.policies.get(name) ?? 0) + 1);
    detail.routes.add(route);
  }

  #open(row: number, client: string): Detail {
    if (this.#details.size >= 2 * this.#kept) {
      const kept = this.#rows().slice(0, this.#kept);
      this.#details = new Map(kept.map((each) => [each, this.#details.get(each)!]));
    }
    const routes = new BoundedCounts(ROUTES_KEPT);
    const detail = { client: owned(client), lastMs: 0, policies: new Map(), routes };
    this.#details.set(row, detail);
    return detail;
  }

  /** The most denied first; of equals the one that was denied first. */
  #rows(): readonly number[] {
    const since = (row: number): number => this.#first.get(row);
    return [...this.#details.keys()].sort(
      (a, b) => this.#countOf(b) - this.#countOf(a) || since(a) - since(b),
    );
  }

  /** The most denied of those that fit. */
  list(most: number, fits: (row: number) => boolean = () => true): readonly DeniedClient[] {
    return this.#rows()
      .filter(fits)
      .slice(0, most)
      .map((row) => {
        const { client, lastMs, policies, routes } = this.#details.get(row)!;
        const firstMs = this.#first.get(row);
        const named = [...policies].map(([name, count]) => ({ name, count }));
        return {
          client,
          row,
          firstMs,
          lastMs,
          policies: named.sort((a, b) => b.count - a.count),
          routes: routes.largest(ROUTES_TOLD),
        };
      });
  }
}
