/**
 * Compares the algorithms on the same traffic with the same limit. For each algorithm, counts the
 * admitted requests and the decisions that differ from the exact sliding log, and finds the largest
 * cost admitted in one sliding window.
 */
import { definePolicy, type WindowAlgorithmName } from 'sluice';
import { describeKey, windowAlgorithmNames } from 'sluice/engine';
import type { Entry } from '../entry.ts';
import { type AdversaryReport, adversaryOf } from './adversary.ts';
import { AlgorithmRun, type RunDecision, type WorstWindow } from './algorithm-run.ts';
import { ClientTable } from './client-table.ts';
import { costOf, exceedsCapacity } from './replay.ts';
import { RowSet } from './rows.ts';
import { Timeline, type TimelineData } from './timeline.ts';
import { WindowCounts } from './window-counts.ts';

const EXACT: WindowAlgorithmName = 'sliding-log';
const LEAST_EXACT: WindowAlgorithmName = 'fixed-window';

/** All algorithms. The first is exact; the other algorithms are compared with it. */
export const COMPARED: readonly WindowAlgorithmName[] = [
  EXACT,
  ...windowAlgorithmNames.filter((name) => name !== EXACT && name !== LEAST_EXACT),
  LEAST_EXACT,
];

export interface CompareOptions {
  readonly limit: number;
  readonly windowMs: number;
  /** Returns the key of a request. Each key has its own limit. */
  readonly keyOf: (entry: Entry) => string;
}

/**
 * Bytes per key, computed from the layout of the memory store: a row, its share of the empty slots,
 * and for sliding logs blocks of four entries. The benchmark `memory` measures the same within 1 %.
 */
export interface MemoryReport {
  /** Mean over all keys of the largest size that the key had. */
  readonly meanBytes: number;
  /** Largest size that any key had. */
  readonly mostBytes: number;
}

/** The decisions of an algorithm in units of cost. */
export interface AlgorithmCosts {
  readonly admitted: number;
  readonly denied: number;
  readonly falseAdmits: number;
  readonly falseDenials: number;
}

export interface AlgorithmReport {
  readonly algorithm: WindowAlgorithmName;
  readonly admitted: number;
  readonly denied: number;
  readonly deniedClients: number;
  /** Requests that this algorithm admits and the exact sliding log denies. */
  readonly falseAdmits: number;
  /** Requests that this algorithm denies and the exact sliding log admits. */
  readonly falseDenials: number;
  /** False admits plus false denials, as a share of all requests. */
  readonly wrongShare: number;
  /** Only if the log has costs. */
  readonly costs?: AlgorithmCosts;
  /**
   * Of all sliding windows of single clients, the window with the largest admitted cost. Undefined
   * if all requests were denied.
   */
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
  /** Only if the log has costs; the limit then counts cost. */
  readonly costs?: {
    readonly requested: number;
    /** Number of requests that cost more than the limit. Every algorithm denies them. */
    readonly requestsAboveLimit: number;
  };
  /** All requests, and the denials of each algorithm. */
  readonly timeline: TimelineData<'requests' | WindowAlgorithmName>;
}

/** A row of 32 bytes in a table that is 75% full. */
const KEY_BYTES = 43;
const BLOCK_BYTES = 36;
const BLOCK_ENTRIES = 4;

/** Maximum number of entries in the sliding log of each client. */
class EntryCounts {
  readonly #counts: WindowCounts;
  readonly #grainMs: number;
  #stamps = new Float64Array(1024);

  /** Admissions of a client within the same clock-aligned `grainMs` share an entry. */
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

/** An algorithm run that also records the denied clients and the number of log entries. */
class ComparedRun extends AlgorithmRun {
  readonly deniedClients = new RowSet();
  readonly #entries: EntryCounts | undefined;

  constructor(
    readonly algorithm: WindowAlgorithmName,
    { limit, windowMs }: CompareOptions,
  ) {
    const policy = definePolicy(algorithm, { limit, window: windowMs, algorithm });
    super(policy);
    const empty = describeKey(algorithm, undefined, policy.params!, 0);
    this.#entries =
      empty.shape === 'entries' ? new EntryCounts(windowMs, empty.entrySpanMs) : undefined;
  }

  override decide(row: number, client: string, cost: number, nowMs: number): RunDecision {
    const decision = super.decide(row, client, cost, nowMs);
    if (decision.allowed) this.#entries?.add(row, nowMs);
    else this.deniedClients.add(row);
    return decision;
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
  readonly #runs: readonly ComparedRun[];
  readonly #timeline = new Timeline(['requests', ...COMPARED]);
  #requests = 0;
  #firstMs: number | undefined = undefined;
  #nowMs = Number.NEGATIVE_INFINITY;
  #hasCosts = false;
  #costRequested = 0;
  #requestsAboveLimit = 0;

  constructor(options: CompareOptions) {
    this.#options = options;
    this.#runs = COMPARED.map((algorithm) => new ComparedRun(algorithm, options));
  }

  /** Replays the next requests, in order of time. */
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
    this.#costRequested += cost;
    if (exceedsCapacity(cost, this.#runs[0].policy.params!)) this.#requestsAboveLimit++;
    let exactAllowed: boolean | undefined;
    for (const run of this.#runs) {
      const { allowed } = run.decide(row, key, cost, nowMs);
      if (!allowed) this.#timeline.add(nowMs, run.algorithm);
      exactAllowed ??= allowed;
      run.compareTo(exactAllowed, allowed, cost);
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
      ...(this.#hasCosts && {
        costs: { requested: this.#costRequested, requestsAboveLimit: this.#requestsAboveLimit },
      }),
      timeline: this.#timeline.data(),
    };
  }

  #report(run: ComparedRun): AlgorithmReport {
    const { algorithm, policy, admitted, denied, falseAdmits, falseDenials, worst } = run;
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
      adversary: adversaryOf(policy),
      memory: run.memory(this.#table.size),
    };
  }
}
