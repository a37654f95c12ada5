/**
 * Replays a log through planned policies. Reports the denied clients and requests by time, route
 * and policy, and the changes compared with the current policies.
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
  /** The planned policies. */
  readonly next: Rules;
  /** The current policies, to compare with. */
  readonly current?: Rules | undefined;
  /** Returns the client of a request. */
  readonly clientOf: (entry: Entry) => string;
  /** Number of clients and routes to list. Default 20. */
  readonly top?: number | undefined;
}

/**
 * At most this share of the clients, those with the most requests, is heavy. All other clients are
 * ordinary.
 */
export const HEAVIEST_SHARE = 0.01;

export interface ClientReport {
  readonly client: string;
  readonly requests: number;
  readonly denied: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** False for the heaviest 1 % of the clients. */
  readonly ordinary: boolean;
  readonly policies: readonly NamedCount[];
  readonly routes: readonly NamedCount[];
}

/** Numbers of affected requests and clients. */
export interface Impact {
  readonly requests: number;
  readonly clients: number;
  readonly ordinaryClients: number;
}

export interface PolicyReport extends PolicyFacts {
  /**
   * Denials by this policy. A policy in shadow mode decides only requests that the enforced
   * policies admit.
   */
  readonly denied: Impact;
}

/** Sums of the costs in the log. */
export interface PlanCosts {
  readonly requested: number;
  readonly denied: number;
  /** Requests denied because their cost exceeds a limit. */
  readonly requestsAboveLimit: number;
}

export interface PlanChange {
  readonly policies: readonly PolicyFacts[];
  readonly denied: Impact;
  /** Clients that only the planned policies deny. */
  readonly newlyDenied: Impact;
  /** Clients that only the current policies deny. */
  readonly noLongerDenied: Impact;
  /** Requests that only the planned policies deny. */
  readonly requestsLost: number;
  /** Requests that only the current policies deny. */
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
  /**
   * Clients with more requests than this are heavy: at most 1 %. All other clients are ordinary.
   */
  readonly heavyAbove: number;
  readonly ordinaryClients: number;
  readonly denied: Impact;
  readonly firstDeniedMs: number | undefined;
  readonly policies: readonly PolicyReport[];
  /** Clients with the most denials, most first. */
  readonly topClients: readonly ClientReport[];
  /** Routes with the most denials, most first. Ids in paths are replaced by `:id`. */
  readonly topRoutes: readonly NamedCount[];
  readonly timeline: TimelineData<'requests' | 'denied' | 'shadow' | 'current'>;
  /** Only if the log has costs; limits then count cost. */
  readonly costs?: PlanCosts;
  readonly against?: PlanChange;
}

type Column = 'requests' | 'denied' | 'current';

const DEFAULT_TOP = 20;
const ROUTES_KEPT = 2000;

/** Denials of one policy so far. */
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
  readonly #current: Replay | undefined;
  readonly #currentPolicies: readonly PolicyFacts[] | undefined;
  readonly #clientOf: (entry: Entry) => string;
  readonly #top: number;
  readonly #table: ClientTable<Column>;
  readonly #impacts: ReadonlyMap<string, PolicyImpact>;
  readonly #denied = new DeniedClients((row) => this.#table.get(row, 'denied'));
  readonly #deniedCurrently = new DeniedClients((row) => this.#table.get(row, 'current'));
  readonly #routes = new BoundedCounts(ROUTES_KEPT);
  readonly #timeline = new Timeline(['requests', 'denied', 'shadow', 'current']);
  #requests = 0;
  #firstMs: number | undefined = undefined;
  #nowMs = Number.NEGATIVE_INFINITY;
  #firstDeniedMs: number | undefined = undefined;
  #hasCosts = false;
  #costRequested = 0;
  #costDenied = 0;
  #requestsAboveLimit = 0;
  /** Requests that only the planned policies deny. */
  #newlyDenied = 0;
  /** Requests that only the current policies deny. */
  #newlyAdmitted = 0;

  constructor({ next, current, clientOf, top = DEFAULT_TOP }: PlanOptions) {
    this.#next = new Replay(next);
    this.#current = current && new Replay(current);
    this.#currentPolicies = current?.policies;
    this.#clientOf = clientOf;
    this.#top = top;
    const columns: Column[] = ['requests', 'denied'];
    this.#table = new ClientTable(current ? [...columns, 'current'] : columns);
    this.#impacts = new Map(next.policies.map((facts) => [facts.name, new PolicyImpact(facts)]));
  }

  /** Replays the next requests, in order of time. */
  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#addOne(entry);
  }

  #addOne(entry: Entry): void {
    // The time of a replay must not decrease.
    const nowMs = Math.max(this.#nowMs, entry.timeMs);
    this.#nowMs = nowMs;
    this.#firstMs ??= nowMs;
    this.#requests++;
    const client = this.#clientOf(entry);
    const row = this.#table.rowOf(client);
    this.#table.increment(row, 'requests');
    this.#timeline.add(nowMs, 'requests');
    if (entry.cost !== undefined) this.#hasCosts = true;
    this.#costRequested += costOf(entry);
    const outcome = this.#next.decide(entry, client, nowMs);
    if (!outcome.allowed) this.#countDenied(entry, client, row, outcome);
    else if (outcome.shadowDenying.length > 0) {
      this.#timeline.add(nowMs, 'shadow');
      for (const name of outcome.shadowDenying) this.#impacts.get(name)!.add(row);
    }
    if (this.#current !== undefined) {
      this.#countChange(entry, client, row, outcome.allowed, this.#current);
    }
  }

  #countDenied(
    entry: Entry,
    client: string,
    row: number,
    { denying, costAboveLimit }: ReplayOutcome,
  ): void {
    const nowMs = this.#nowMs;
    this.#costDenied += costOf(entry);
    if (costAboveLimit) this.#requestsAboveLimit++;
    this.#firstDeniedMs ??= nowMs;
    this.#table.increment(row, 'denied');
    this.#timeline.add(nowMs, 'denied');
    for (const name of denying) this.#impacts.get(name)!.add(row);
    const route = routeOf(entry.method, entry.path);
    this.#routes.add(route);
    this.#denied.add(row, client, nowMs, denying, route);
  }

  #countChange(entry: Entry, client: string, row: number, allowed: boolean, current: Replay): void {
    const outcome = current.decide(entry, client, this.#nowMs);
    if (outcome.allowed) {
      if (!allowed) this.#newlyDenied++;
      return;
    }
    this.#table.increment(row, 'current');
    this.#timeline.add(this.#nowMs, 'current');
    if (allowed) this.#newlyAdmitted++;
    const route = routeOf(entry.method, entry.path);
    this.#deniedCurrently.add(row, client, this.#nowMs, outcome.denying, route);
  }

  result(): PlanResult {
    const summary = new PlanSummary(this.#table);
    const current = this.#currentPolicies;
    return {
      kind: 'plan',
      requests: this.#requests,
      clients: this.#table.size,
      firstMs: this.#firstMs,
      lastMs: this.#requests === 0 ? undefined : this.#nowMs,
      heavyAbove: summary.heavyAbove,
      ordinaryClients: summary.impact(0, () => true).ordinaryClients,
      denied: summary.impactOf('denied', (row) => this.#count(row, 'denied') > 0),
      firstDeniedMs: this.#firstDeniedMs,
      policies: [...this.#impacts.values()].map(({ facts, requests, clients }) => ({
        ...facts,
        denied: summary.impact(requests, (row) => clients.has(row)),
      })),
      topClients: summary.clients(this.#denied.list(this.#top), 'denied'),
      topRoutes: this.#routes.largest(this.#top),
      timeline: this.#timeline.data(),
      ...(this.#hasCosts && { costs: this.#costs() }),
      ...(current !== undefined && { against: this.#change(current, summary) }),
    };
  }

  #costs(): PlanCosts {
    return {
      requested: this.#costRequested,
      denied: this.#costDenied,
      requestsAboveLimit: this.#requestsAboveLimit,
    };
  }

  #count(row: number, column: Column): number {
    return this.#table.get(row, column);
  }

  #change(policies: readonly PolicyFacts[], summary: PlanSummary): PlanChange {
    const isDenied = (row: number): boolean => this.#count(row, 'denied') > 0;
    const isDeniedCurrently = (row: number): boolean => this.#count(row, 'current') > 0;
    const isNewlyDenied = (row: number): boolean => isDenied(row) && !isDeniedCurrently(row);
    const isNoLongerDenied = (row: number): boolean => !isDenied(row) && isDeniedCurrently(row);
    return {
      policies,
      denied: summary.impactOf('current', isDeniedCurrently),
      newlyDenied: summary.impactOf('denied', isNewlyDenied),
      noLongerDenied: summary.impactOf('current', isNoLongerDenied),
      requestsLost: this.#newlyDenied,
      requestsWon: this.#newlyAdmitted,
      newlyDeniedClients: summary.clients(this.#denied.list(this.#top, isNewlyDenied), 'denied'),
      noLongerDeniedClients: summary.clients(
        this.#deniedCurrently.list(this.#top, isNoLongerDenied),
        'current',
      ),
    };
  }
}

/** Counts clients and ordinary clients in the client table. */
class PlanSummary {
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

  /**
   * Like `impact`, but sums the requests in `column` of the clients for which `fits` returns true.
   */
  impactOf(column: Column, fits: (row: number) => boolean): Impact {
    let requests = 0;
    for (let row = 0; row < this.#table.size; row++) {
      if (fits(row)) requests += this.#table.get(row, column);
    }
    return this.impact(requests, fits);
  }

  clients(clients: readonly DeniedClient[], column: Column): readonly ClientReport[] {
    return clients.map(({ row, ...client }) => ({
      ...client,
      requests: this.#table.get(row, 'requests'),
      denied: this.#table.get(row, column),
      ordinary: this.#isOrdinary(row),
    }));
  }
}

/**
 * Returns the maximum number of requests of an ordinary client. At most 1 % of the clients, rounded
 * up, have more requests. All clients with exactly this number are ordinary. Sorts `requests`.
 */
function heavyThreshold(requests: Uint32Array): number {
  const heaviest = Math.ceil(HEAVIEST_SHARE * requests.length);
  const sorted = requests.sort();
  return sorted[sorted.length - 1 - heaviest] ?? sorted[sorted.length - 1] ?? 0;
}
