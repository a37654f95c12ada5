/**
 * The five algorithms on the same traffic, under the same limit: what each lets through, where it
 * decides otherwise than the exact log does, and how much it lets into a true window at the most.
 */
import { type AlgorithmName, definePolicy, type Policy, type SyncPolicyTable } from 'sluice';
import type { Entry } from '../entry.ts';
import { owned } from '../formats/text.ts';
import { type AdversaryReport, adversaryOf } from './adversary.ts';
import { ClientTable } from './client-table.ts';
import { costOf, isTooDear, roomyStore } from './replay.ts';
import { RowSet } from './rows.ts';
import { Timeline, type TimelineData } from './timeline.ts';
import { WindowCounts } from './window-counts.ts';

/** The exact one first: the others are compared with it. */
export const COMPARED: readonly AlgorithmName[] = [
  'sliding-log',
  'sliding-buckets',
  'sliding-counter',
  'token-bucket',
  'fixed-window',
];
const EXACT = COMPARED[0];

export interface CompareOptions {
  readonly limit: number;
  readonly windowMs: number;
  /** Whom a request counts for. */
  readonly keyOf: (entry: Entry) => string;
}

export interface WorstWindow {
  readonly count: number;
  readonly multiple: number;
  readonly client: string;
  /** The time of the last request in it. */
  readonly atMs: number;
}

/**
 * Bytes a key, computed from the layout of the memory store: a row and its part of empty places,
 * and for logs blocks of four entries. `bench memory` measures the same to a hundredth.
 */
export interface MemoryReport {
  /** Of the keys at their busiest, on average. */
  readonly meanBytes: number;
  /** Of the busiest key. */
  readonly mostBytes: number;
}

/** The same as its requests, in what the log says that they cost. */
export interface AlgorithmCosts {
  readonly admitted: number;
  readonly denied: number;
  readonly falseAdmits: number;
  readonly falseDenials: number;
}

export interface AlgorithmReport {
  readonly algorithm: AlgorithmName;
  readonly admitted: number;
  readonly denied: number;
  readonly deniedClients: number;
  /** Let through what the exact log, run beside it, denies; and the other way round. */
  readonly falseAdmits: number;
  readonly falseDenials: number;
  /** Both, as a part of all requests. */
  readonly wrongShare: number;
  /** Only if the log says what requests cost. */
  readonly costs?: AlgorithmCosts;
  /** The fullest true window of any client, by cost; none if nothing was let through. */
  readonly worst?: WorstWindow;
  readonly adversary: AdversaryReport;
  readonly memory: MemoryReport;
}

export interface CompareResult {
  readonly kind: 'compare';
  readonly limit: number;
  readonly windowMs: number;
  readonly requests: number;
  readonly clients: number;
  readonly firstMs: number | undefined;
  readonly lastMs: number | undefined;
  readonly algorithms: readonly AlgorithmReport[];
  /** Only if the log says what requests cost: then the limit is in units of that. */
  readonly costs?: {
    readonly asked: number;
    /** Requests that none lets through, because they cost more than the limit. */
    readonly tooDear: number;
  };
  /** What each denies. */
  readonly timeline: TimelineData<'requests' | AlgorithmName>;
}

/** A row of 32 bytes in a table that is three quarters full. */
const KEY_BYTES = 43;
const BLOCK_BYTES = 36;
const BLOCK_ENTRIES = 4;

/** How many entries a log holds of each client at the most. */
class EntryCounts {
  readonly #counts: WindowCounts;
  readonly #grainMs: number;
  #stamps = new Float64Array(1024);

  /** Admissions in the same `grainMs` are one entry. */
  constructor(windowMs: number, grainMs: number) {
    this.#counts = new WindowCounts([windowMs]);
    this.#grainMs = grainMs;
  }

  add(row: number, nowMs: number): void {
    if (row >= this.#stamps.length) {
      const stamps = new Float64Array(2 * row);
      stamps.set(this.#stamps);
      this.#stamps = stamps;
    }
    const stamp = Math.floor(nowMs / this.#grainMs) + 1;
    if (this.#stamps[row] === stamp) return;
    this.#stamps[row] = stamp;
    this.#counts.add(row, nowMs);
  }

  most(row: number): number {
    return this.#counts.most(row, 0);
  }
}

/** One algorithm and what it has done so far. */
class Run {
  readonly policy: Policy;
  readonly #space: SyncPolicyTable;
  readonly #counts: WindowCounts;
  readonly #entries: EntryCounts | undefined;
  readonly deniedClients = new RowSet();
  admitted = 0;
  denied = 0;
  falseAdmits = 0;
  falseDenials = 0;
  readonly costs = { admitted: 0, denied: 0, falseAdmits: 0, falseDenials: 0 };
  worst: WorstWindow | undefined = undefined;

  constructor(
    readonly algorithm: AlgorithmName,
    { limit, windowMs }: CompareOptions,
  ) {
    this.policy = definePolicy(algorithm, { limit, window: windowMs, algorithm });
    this.#space = roomyStore().open(this.policy);
    this.#counts = new WindowCounts([windowMs]);
    const grainMs = { 'sliding-log': 1, 'sliding-buckets': this.policy.bucketMs };
    const ownMs = grainMs[algorithm as keyof typeof grainMs];
    this.#entries = ownMs === undefined ? undefined : new EntryCounts(windowMs, ownMs);
  }

  decide(row: number, key: string, cost: number, nowMs: number): boolean {
    const params = this.policy.params!;
    const allowed =
      !isTooDear(cost, params) && this.#space.takeSync(params, key, cost, nowMs).allowed;
    if (!allowed) {
      this.denied++;
      this.costs.denied += cost;
      this.deniedClients.add(row);
      return false;
    }
    this.admitted++;
    this.costs.admitted += cost;
    this.#entries?.add(row, nowMs);
    this.#counts.add(row, nowMs, cost);
    const count = this.#counts.sum(row, 0);
    if (count > (this.worst?.count ?? 0)) {
      const multiple = count / params.limit;
      this.worst = { count, multiple, client: owned(key), atMs: nowMs };
    }
    return true;
  }

  /** Notes what the exact log says of a request that was just decided. */
  judge(allowed: boolean, isRight: boolean, cost: number): void {
    if (allowed && !isRight) {
      this.falseAdmits++;
      this.costs.falseAdmits += cost;
    } else if (!allowed && isRight) {
      this.falseDenials++;
      this.costs.falseDenials += cost;
    }
  }

  memory(clients: number): MemoryReport {
    let sum = 0;
    let most = 0;
    for (let row = 0; row < clients; row++) {
      const blocks = Math.ceil((this.#entries?.most(row) ?? 0) / BLOCK_ENTRIES);
      const bytes = KEY_BYTES + BLOCK_BYTES * blocks;
      sum += bytes;
      most = Math.max(most, bytes);
    }
    return { meanBytes: clients === 0 ? 0 : sum / clients, mostBytes: most };
  }
}

export class Comparison {
  readonly #options: CompareOptions;
  readonly #table = new ClientTable<never>([]);
  readonly #runs: readonly Run[];
  readonly #timeline = new Timeline(['requests', ...COMPARED]);
  #requests = 0;
  #firstMs: number | undefined = undefined;
  #nowMs = Number.NEGATIVE_INFINITY;
  #hasCosts = false;
  #costAsked = 0;
  #tooDear = 0;

  constructor(options: CompareOptions) {
    this.#options = options;
    this.#runs = COMPARED.map((algorithm) => new Run(algorithm, options));
  }

  /** Takes the next requests, in the order of their times. */
  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#addOne(entry);
  }

  #addOne(entry: Entry): void {
    const nowMs = Math.max(this.#nowMs, entry.timeMs);
    this.#nowMs = nowMs;
    this.#firstMs ??= nowMs;
    this.#requests++;
    this.#timeline.add(nowMs, 'requests');
    const key = this.#options.keyOf(entry);
    const row = this.#table.rowOf(key);
    const cost = costOf(entry);
    if (entry.cost !== undefined) this.#hasCosts = true;
    this.#costAsked += cost;
    if (isTooDear(cost, this.#runs[0].policy.params!)) this.#tooDear++;
    let isRight = true;
    for (const run of this.#runs) {
      const allowed = run.decide(row, key, cost, nowMs);
      if (!allowed) this.#timeline.add(nowMs, run.algorithm);
      if (run.algorithm === EXACT) isRight = allowed;
      else run.judge(allowed, isRight, cost);
    }
  }

  result(): CompareResult {
    const { limit, windowMs } = this.#options;
    return {
      kind: 'compare',
      limit,
      windowMs,
      requests: this.#requests,
      clients: this.#table.size,
      firstMs: this.#firstMs,
      lastMs: this.#requests === 0 ? undefined : this.#nowMs,
      algorithms: this.#runs.map((run) => this.#report(run)),
      ...(this.#hasCosts && { costs: { asked: this.#costAsked, tooDear: this.#tooDear } }),
      timeline: this.#timeline.data(),
    };
  }

  #report(run: Run): AlgorithmReport {
    const { algorithm, admitted, denied, falseAdmits, falseDenials, worst } = run;
    let deniedClients = 0;
    for (let row = 0; row < this.#table.size; row++) {
      if (run.deniedClients.has(row)) deniedClients++;
    }
    return {
      algorithm,
      admitted,
      denied,
      deniedClients,
      falseAdmits,
      falseDenials,
      wrongShare: this.#requests === 0 ? 0 : (falseAdmits + falseDenials) / this.#requests,
      ...(this.#hasCosts && { costs: run.costs }),
      ...(worst !== undefined && { worst }),
      adversary: adversaryOf(run.policy),
      memory: run.memory(this.#table.size),
    };
  }
}
