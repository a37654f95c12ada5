/**
 * Details of the denied clients: names, policies and routes. If there are too many clients, the
 * details of the half with fewer denials are dropped. If a dropped client is denied again, its
 * details start from zero. The number of denials and the time of the first denial are stored for
 * all clients, so they are exact.
 */
import { owned } from '../formats/text.ts';
import { BoundedCounts, type NamedCount } from './bounded-counts.ts';
import { FirstTimes } from './rows.ts';

/** The details of at least this many clients, those with the most denials, are kept. */
const KEPT = 20_000;
const ROUTES_KEPT = 16;
const ROUTES_LISTED = 3;

export interface DeniedClient {
  readonly client: string;
  readonly row: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** Denials by policy, most first. */
  readonly policies: readonly NamedCount[];
  /** Denials by route, most first. */
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

  /** `countOf` returns the number of denials of a client so far. */
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

  /** Returns the rows of the clients, ordered by most denials, then by earliest first denial. */
  #rows(): readonly number[] {
    const since = (row: number): number => this.#first.get(row);
    return [...this.#details.keys()].sort(
      (a, b) => this.#countOf(b) - this.#countOf(a) || since(a) - since(b),
    );
  }

  /**
   * Returns up to `most` clients for which `fits` returns true, those with the most denials first.
   */
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
          routes: routes.largest(ROUTES_LISTED),
        };
      });
  }
}
