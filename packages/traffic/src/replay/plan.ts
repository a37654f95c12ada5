/**
 * What policies would have done to the traffic of a log: who would have been denied, when, how
 * often and where, by which policy; and, beside the policies of today, what changes.
 */
import type { Entry } from '../entry.ts';
import { BoundedCounts, type NamedCount } from './bounded-counts.ts';
import { ClientTable } from './client-table.ts';
import { type DeniedClient, DeniedClients } from './denied-clients.ts';
import { costOf, type PolicyFacts, Replay, type ReplayOutcome, type Rules } from './replay.ts';
import { routeOf } from './route.ts';
import { RowSet } from './rows.ts';
import { Timeline, type TimelineData } from './timeline.ts';

export interface PlanOptions {
  /** The policies that are asked about. */
  readonly next: Rules;
  /** Those of today, to compare with. */
  readonly today?: Rules | undefined;
  /** Who a request comes from. */
  readonly clientOf: (entry: Entry) => string;
  /** How many clients and routes are listed. Default 20. */
  readonly top?: number | undefined;
}

/** The part of the clients that counts as heavy rather than ordinary, by requests. */
export const HEAVIEST_SHARE = 0.01;

export interface ClientReport {
  readonly client: string;
  readonly requests: number;
  readonly denied: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** Whether it is not among the heaviest 1 % of the clients. */
  readonly ordinary: boolean;
  readonly policies: readonly NamedCount[];
  readonly routes: readonly NamedCount[];
}

/** Requests and clients that are concerned by something. */
export interface Impact {
  readonly requests: number;
  readonly clients: number;
  readonly ordinaryClients: number;
}

export interface PolicyReport extends PolicyFacts {
  /** What it alone has no room for. In shadow: what it would deny of what the others let pass. */
  readonly denied: Impact;
}

/** What is known of costs, where a log says them. Sums are of what the log says. */
export interface PlanCosts {
  readonly asked: number;
  readonly denied: number;
  /** Requests that are denied because they cost more than a limit could ever let through. */
  readonly tooDear: number;
}

export interface PlanChange {
  readonly policies: readonly PolicyFacts[];
  readonly denied: Impact;
  /** Clients that are not denied today and would be; and the other way round. */
  readonly newlyDenied: Impact;
  readonly noLongerDenied: Impact;
  /** Requests that pass today and would not; and the other way round. */
  readonly requestsLost: number;
  readonly requestsWon: number;
  readonly newlyDeniedClients: readonly ClientReport[];
  readonly noLongerDeniedClients: readonly ClientReport[];
}

export interface PlanResult {
  readonly kind: 'plan';
  readonly requests: number;
  readonly clients: number;
  readonly firstMs: number | undefined;
  readonly lastMs: number | undefined;
  /** The heaviest clients, at most 1 %, have more requests than this; the others are ordinary. */
  readonly heavyAbove: number;
  readonly ordinaryClients: number;
  readonly denied: Impact;
  readonly firstDeniedMs: number | undefined;
  readonly policies: readonly PolicyReport[];
  /** The most denied first. */
  readonly topClients: readonly ClientReport[];
  /** Where requests were denied, the most first, with numbers and the like as `:id`. */
  readonly topRoutes: readonly NamedCount[];
  readonly timeline: TimelineData<'requests' | 'denied' | 'shadow' | 'today'>;
  /** Only if the log says what requests cost: then limits are in units of that. */
  readonly costs?: PlanCosts;
  readonly against?: PlanChange;
}

type Column = 'requests' | 'denied' | 'today';

const DEFAULT_TOP = 20;
const ROUTES_KEPT = 2000;

/** What one policy has denied so far. */
class PolicyImpact {
  requests = 0;
  readonly clients = new RowSet();

  constructor(readonly facts: PolicyFacts) {}

  add(row: number): void {
    this.requests++;
    this.clients.add(row);
  }
}

export class Planner {
  readonly #next: Replay;
  readonly #today: Replay | undefined;
  readonly #todayPolicies: readonly PolicyFacts[] | undefined;
  readonly #clientOf: (entry: Entry) => string;
  readonly #top: number;
  readonly #table: ClientTable<Column>;
  readonly #tolls: ReadonlyMap<string, PolicyImpact>;
  readonly #denied = new DeniedClients((row) => this.#table.get(row, 'denied'));
  readonly #deniedToday = new DeniedClients((row) => this.#table.get(row, 'today'));
  readonly #routes = new BoundedCounts(ROUTES_KEPT);
  readonly #timeline = new Timeline(['requests', 'denied', 'shadow', 'today']);
  #requests = 0;
  #firstMs: number | undefined = undefined;
  #nowMs = Number.NEGATIVE_INFINITY;
  #firstDeniedMs: number | undefined = undefined;
  #hasCosts = false;
  #costAsked = 0;
  #costDenied = 0;
  #tooDear = 0;
  /** Requests that today's policies let pass and these do not; and the other way round. */
  #lost = 0;
  #won = 0;

  constructor({ next, today, clientOf, top = DEFAULT_TOP }: PlanOptions) {
    this.#next = new Replay(next);
    this.#today = today && new Replay(today);
    this.#todayPolicies = today?.policies;
    this.#clientOf = clientOf;
    this.#top = top;
    const columns: Column[] = ['requests', 'denied'];
    this.#table = new ClientTable(today ? [...columns, 'today'] : columns);
    this.#tolls = new Map(next.policies.map((facts) => [facts.name, new PolicyImpact(facts)]));
  }

  /** Takes the next requests, in the order of their times. */
  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#addOne(entry);
  }

  #addOne(entry: Entry): void {
    // A line that comes too late to be put in its place is decided at the time reached.
    const nowMs = Math.max(this.#nowMs, entry.timeMs);
    this.#nowMs = nowMs;
    this.#firstMs ??= nowMs;
    this.#requests++;
    const client = this.#clientOf(entry);
    const row = this.#table.rowOf(client);
    this.#table.increment(row, 'requests');
    this.#timeline.add(nowMs, 'requests');
    if (entry.cost !== undefined) this.#hasCosts = true;
    this.#costAsked += costOf(entry);
    const outcome = this.#next.decide(entry, client, nowMs);
    if (!outcome.allowed) this.#noteDenied(entry, client, row, outcome);
    else if (outcome.shadowDenying.length > 0) {
      this.#timeline.add(nowMs, 'shadow');
      for (const name of outcome.shadowDenying) this.#tolls.get(name)!.add(row);
    }
    if (this.#today !== undefined) {
      this.#noteChange(entry, client, row, outcome.allowed, this.#today);
    }
  }

  #noteDenied(
    entry: Entry,
    client: string,
    row: number,
    { denying, tooDear }: ReplayOutcome,
  ): void {
    const nowMs = this.#nowMs;
    this.#costDenied += costOf(entry);
    if (tooDear) this.#tooDear++;
    this.#firstDeniedMs ??= nowMs;
    this.#table.increment(row, 'denied');
    this.#timeline.add(nowMs, 'denied');
    for (const name of denying) this.#tolls.get(name)!.add(row);
    const route = routeOf(entry.method, entry.path);
    this.#routes.add(route);
    this.#denied.add(row, client, nowMs, denying, route);
  }

  #noteChange(entry: Entry, client: string, row: number, allowed: boolean, today: Replay): void {
    const outcome = today.decide(entry, client, this.#nowMs);
    if (outcome.allowed) {
      if (!allowed) this.#lost++;
      return;
    }
    this.#table.increment(row, 'today');
    this.#timeline.add(this.#nowMs, 'today');
    if (allowed) this.#won++;
    const route = routeOf(entry.method, entry.path);
    this.#deniedToday.add(row, client, this.#nowMs, outcome.denying, route);
  }

  result(): PlanResult {
    const tell = new Telling(this.#table);
    const today = this.#todayPolicies;
    return {
      kind: 'plan',
      requests: this.#requests,
      clients: this.#table.size,
      firstMs: this.#firstMs,
      lastMs: this.#requests === 0 ? undefined : this.#nowMs,
      heavyAbove: tell.heavyAbove,
      ordinaryClients: tell.impact(0, () => true).ordinaryClients,
      denied: tell.impactOf('denied', (row) => this.#count(row, 'denied') > 0),
      firstDeniedMs: this.#firstDeniedMs,
      policies: [...this.#tolls.values()].map(({ facts, requests, clients }) => ({
        ...facts,
        denied: tell.impact(requests, (row) => clients.has(row)),
      })),
      topClients: tell.clients(this.#denied.list(this.#top), 'denied'),
      topRoutes: this.#routes.largest(this.#top),
      timeline: this.#timeline.data(),
      ...(this.#hasCosts && { costs: this.#costs() }),
      ...(today !== undefined && { against: this.#change(today, tell) }),
    };
  }

  #costs(): PlanCosts {
    return { asked: this.#costAsked, denied: this.#costDenied, tooDear: this.#tooDear };
  }

  #count(row: number, column: Column): number {
    return this.#table.get(row, column);
  }

  #change(policies: readonly PolicyFacts[], tell: Telling): PlanChange {
    const isDenied = (row: number): boolean => this.#count(row, 'denied') > 0;
    const isToday = (row: number): boolean => this.#count(row, 'today') > 0;
    const isNew = (row: number): boolean => isDenied(row) && !isToday(row);
    const isOver = (row: number): boolean => !isDenied(row) && isToday(row);
    return {
      policies,
      denied: tell.impactOf('today', isToday),
      newlyDenied: tell.impactOf('denied', isNew),
      noLongerDenied: tell.impactOf('today', isOver),
      requestsLost: this.#lost,
      requestsWon: this.#won,
      newlyDeniedClients: tell.clients(this.#denied.list(this.#top, isNew), 'denied'),
      noLongerDeniedClients: tell.clients(this.#deniedToday.list(this.#top, isOver), 'today'),
    };
  }
}

/** Puts what was counted into words that say who is ordinary. Reads the table where it lies. */
class Telling {
  readonly #table: ClientTable<Column>;
  readonly heavyAbove: number;

  constructor(table: ClientTable<Column>) {
    this.#table = table;
    this.heavyAbove = heavyThreshold(table.column('requests'));
  }

  #isOrdinary(row: number): boolean {
    return this.#table.get(row, 'requests') <= this.heavyAbove;
  }

  impact(requests: number, fits: (row: number) => boolean): Impact {
    let clients = 0;
    let ordinaryClients = 0;
    for (let row = 0; row < this.#table.size; row++) {
      if (!fits(row)) continue;
      clients++;
      if (this.#isOrdinary(row)) ordinaryClients++;
    }
    return { requests, clients, ordinaryClients };
  }

  /** The same of the requests that a column has counted of those clients. */
  impactOf(column: Column, fits: (row: number) => boolean): Impact {
    let requests = 0;
    for (let row = 0; row < this.#table.size; row++) {
      if (fits(row)) requests += this.#table.get(row, column);
    }
    return this.impact(requests, fits);
  }

  clients(clients: readonly DeniedClient[], column: Column): readonly ClientReport[] {
    return clients.map(({ row, ...told }) => ({
      ...told,
      requests: this.#table.get(row, 'requests'),
      denied: this.#table.get(row, column),
      ordinary: this.#isOrdinary(row),
    }));
  }
}

/**
 * The most requests that an ordinary client has: at most 1 % of the clients have more, rounded up
 * so that of a few clients one can be heavy. Clients that are as busy as each other are alike, so
 * where the line would go through equals, they are all ordinary. Sorts what it is given.
 */
function heavyThreshold(requests: Uint32Array): number {
  const heaviest = Math.ceil(HEAVIEST_SHARE * requests.length);
  const sorted = requests.sort();
  return sorted[sorted.length - 1 - heaviest] ?? sorted[sorted.length - 1] ?? 0;
}
