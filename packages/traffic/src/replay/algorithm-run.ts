/**
 * Runs one algorithm on a sequence of requests. Counts the decisions and how many of them differ
 * from the exact sliding log. Finds the sliding window with the largest admitted cost. Used by
 * `sluice compare` and the dashboard lab.
 */
import type { Policy, SyncPolicyTable } from 'sluice';
import { owned } from '../formats/text.ts';
import { exceedsCapacity, unboundedStore } from './replay.ts';
import { WindowCounts } from './window-counts.ts';

export interface WorstWindow {
  /** The cost admitted in the window. */
  readonly count: number;
  /** `count` as a multiple of the limit. */
  readonly multiple: number;
  readonly client: string;
  /** Time of the last request in the window. */
  readonly atMs: number;
}

export interface RunDecision {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Infinity if the cost exceeds the capacity. */
  readonly retryAfterMs: number;
}

export class AlgorithmRun {
  readonly #table: SyncPolicyTable;
  readonly #counts: WindowCounts;
  admitted = 0;
  denied = 0;
  falseAdmits = 0;
  falseDenials = 0;
  readonly costs = { admitted: 0, denied: 0, falseAdmits: 0, falseDenials: 0 };
  /** Of all sliding windows of single clients, the window with the largest admitted cost. */
  worst: WorstWindow | undefined = undefined;

  constructor(readonly policy: Policy) {
    this.#table = unboundedStore().open(policy);
    this.#counts = new WindowCounts([policy.windowMs]);
  }

  /**
   * Decides the next request. Times must not decrease. `row` is the number of the client, from 0.
   */
  decide(row: number, client: string, cost: number, nowMs: number): RunDecision {
    const decision = this.#decision(client, cost, nowMs);
    if (!decision.allowed) {
      this.denied++;
      this.costs.denied += cost;
      return decision;
    }
    this.admitted++;
    this.costs.admitted += cost;
    this.#counts.add(row, nowMs, cost);
    const count = this.#counts.sum(row, 0);
    if (count > (this.worst?.count ?? 0)) {
      const multiple = count / this.policy.params!.limit;
      this.worst = { count, multiple, client: owned(client), atMs: nowMs };
    }
    return decision;
  }

  #decision(client: string, cost: number, nowMs: number): RunDecision {
    const params = this.policy.params!;
    if (!exceedsCapacity(cost, params)) return this.#table.takeSync(params, client, cost, nowMs);
    return { allowed: false, remaining: this.remaining(client, nowMs), retryAfterMs: Infinity };
  }

  remaining(client: string, nowMs: number): number {
    return this.#table.peekSync(this.policy.params!, client, 0, nowMs).remaining;
  }

  /** Counts a decision of this run if it differs from the decision of the exact sliding log. */
  compareTo(exactAllowed: boolean, allowed: boolean, cost: number): void {
    if (allowed === exactAllowed) return;
    const kind = allowed ? 'falseAdmits' : 'falseDenials';
    this[kind]++;
    this.costs[kind] += cost;
  }
}
