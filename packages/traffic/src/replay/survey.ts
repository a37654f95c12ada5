/**
 * Summarizes traffic: requests over time, number of clients, and the clients and routes with the
 * most requests.
 */
import type { Entry } from '../entry.ts';
import { owned } from '../formats/text.ts';
import { BoundedCounts, type NamedCount } from './bounded-counts.ts';
import { clientNames } from './client-name.ts';
import { ClientTable } from './client-table.ts';
import { routeOf } from './route.ts';
import { Timeline, type TimelineData } from './timeline.ts';

const CLIENTS_KEPT = 2000;
const ROUTES_KEPT = 2000;
const LISTED = 20;

/** Clients with `from` to `to` requests each. */
export interface ClientClass {
  readonly from: number;
  readonly to: number;
  readonly clients: number;
  readonly requests: number;
}

export interface SurveyResult {
  readonly requests: number;
  /** Number of clients as the service counts them: an IPv6 network is one client. */
  readonly clients: number;
  readonly firstMs: number | undefined;
  readonly lastMs: number | undefined;
  /**
   * Clients by number of requests: 1, 2 to 3, 4 to 7 and so on. Includes empty classes in between.
   */
  readonly classes: readonly ClientClass[];
  readonly topClients: readonly NamedCount[];
  readonly topRoutes: readonly NamedCount[];
  /**
   * True if there were too many clients to count each by name. The counts of `topClients` are then
   * lower bounds.
   */
  readonly isCut: boolean;
  readonly timeline: TimelineData<'requests'>;
}

export class Survey {
  readonly #nameOf = clientNames();
  readonly #table = new ClientTable(['requests']);
  readonly #timeline = new Timeline(['requests']);
  readonly #clients = new BoundedCounts(CLIENTS_KEPT);
  readonly #routes = new BoundedCounts(ROUTES_KEPT);
  #requests = 0;
  #firstMs: number | undefined = undefined;
  #nowMs = Number.NEGATIVE_INFINITY;

  /** Adds the next request, in order of time. */
  add(entry: Entry): void {
    this.#nowMs = Math.max(this.#nowMs, entry.timeMs);
    this.#firstMs ??= this.#nowMs;
    this.#requests++;
    this.#timeline.add(this.#nowMs, 'requests');
    const client = this.#nameOf(entry.client);
    this.#table.increment(this.#table.rowOf(client), 'requests');
    this.#clients.add(owned(client));
    this.#routes.add(routeOf(entry.method, entry.path));
  }

  result(): SurveyResult {
    return {
      requests: this.#requests,
      clients: this.#table.size,
      firstMs: this.#firstMs,
      lastMs: this.#requests === 0 ? undefined : this.#nowMs,
      classes: classesOf(this.#table.column('requests')),
      topClients: this.#clients.largest(LISTED),
      topRoutes: this.#routes.largest(LISTED),
      isCut: this.#clients.others > 0,
      timeline: this.#timeline.data(),
    };
  }
}

/** Returns the classes of clients with 1, 2 to 3, 4 to 7 requests, and so on. */
function classesOf(counts: Uint32Array): readonly ClientClass[] {
  const classes: { from: number; to: number; clients: number; requests: number }[] = [];
  for (const count of counts) {
    const at = Math.floor(Math.log2(count));
    while (classes.length <= at) {
      const from = 2 ** classes.length;
      classes.push({ from, to: 2 * from - 1, clients: 0, requests: 0 });
    }
    classes[at].clients++;
    classes[at].requests += count;
  }
  return classes.slice(classes.findIndex(({ clients }) => clients > 0));
}
