/**
 * Reference model of `acquire`: one list of waiters, searched from the front. It has its own
 * limiter, so it shares the decisions with the implementation, but no queues.
 */
import { estimateTurn } from '../src/acquire/estimates.ts';
import { definePolicy, type ManualClock, type Receipt, type SyncLimiter } from '../src/index.ts';

export interface WantedLimit {
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
}

interface Waiter {
  readonly id: number;
  readonly limits: readonly WantedLimit[];
  readonly deadlineMs: number;
  checkAtMs: number;
  wasChecked: boolean;
}

type AnyLimiter = SyncLimiter<Record<string, never>>;

const isSame = (one: WantedLimit, other: WantedLimit): boolean =>
  one.policy === other.policy && one.key === other.key;

export class WaitingModel {
  /** The outcome of each waiter, by its id. */
  readonly outcomes = new Map<number, readonly unknown[]>();
  readonly receipts: Receipt[] = [];
  readonly #limiter: AnyLimiter;
  readonly #clock: ManualClock;
  readonly #policies: Readonly<Record<string, never>>;
  #waiters: Waiter[] = [];

  constructor(limiter: unknown, clock: ManualClock, policies: unknown) {
    this.#limiter = limiter as AnyLimiter;
    this.#clock = clock;
    this.#policies = policies as Record<string, never>;
  }

  arrive(id: number, limits: readonly WantedLimit[], maxWaitMs: number): void {
    const nowMs = this.#clock.now();
    const waiter = {
      id,
      limits,
      deadlineMs: nowMs + maxWaitMs,
      checkAtMs: nowMs,
      wasChecked: false,
    };
    this.#waiters.push(waiter);
    this.#settle();
    if (!this.#waiters.includes(waiter) || waiter.wasChecked) return;
    const late = this.#waits(waiter).some((waitMs) => nowMs + waitMs > waiter.deadlineMs);
    if (late) this.#deny(waiter);
    this.#expire();
  }

  abort(id: number): void {
    const waiter = this.#waiters.find((each) => each.id === id);
    if (waiter) this.#end(waiter, ['aborted']);
    this.#settle();
  }

  refund(receipt: Receipt): void {
    this.#limiter.refundSync(receipt);
    for (const charge of receipt.charges) this.#nudge(charge);
    this.#settle();
  }

  reset(limit: WantedLimit): void {
    this.#limiter.resetSync(limit.policy, limit.key);
    this.#nudge(limit);
    this.#settle();
  }

  /** Advances the clock by one millisecond. */
  tick(): void {
    this.#clock.advance(1);
    this.#expire();
  }

  /** Serves the waiters that can be served, then denies those whose deadlines have passed. */
  #expire(): void {
    this.#settle();
    for (;;) {
      const due = this.#waiters.find(({ deadlineMs }) => deadlineMs <= this.#clock.now());
      if (due === undefined) return;
      this.#deny(due);
      this.#settle();
    }
  }

  #ahead(waiter: Waiter, limit: WantedLimit): Waiter[] {
    const before = this.#waiters.slice(0, this.#waiters.indexOf(waiter));
    return before.filter((other) => other.limits.some((each) => isSame(each, limit)));
  }

  #nudge(limit: WantedLimit): void {
    const first = this.#waiters.find(({ limits }) => limits.some((each) => isSame(each, limit)));
    if (first) first.checkAtMs = this.#clock.now();
  }

  /** Checks the first waiters until none is due. */
  #settle(): void {
    for (;;) {
      const nowMs = this.#clock.now();
      const next = this.#waiters.find(
        (waiter) =>
          waiter.checkAtMs <= nowMs &&
          waiter.limits.every((limit) => this.#ahead(waiter, limit).length === 0),
      );
      if (next === undefined) return;
      next.wasChecked = true;
      const decision = this.#limiter.checkSync(next.limits as never);
      next.checkAtMs = nowMs + decision.retryAfterMs;
      if (decision.allowed) {
        this.receipts.push(decision.receipt);
        this.#end(next, ['served']);
      } else if (next.checkAtMs > next.deadlineMs) {
        this.#end(next, ['denied', decision.retryAfterMs]);
      }
    }
  }

  /** Returns the shortest wait of a waiter behind the others, for each of its limits. */
  #waits(waiter: Waiter): number[] {
    return waiter.limits.map((limit) => {
      const { policy: name, key, cost } = limit;
      let demand = cost;
      for (const other of this.#ahead(waiter, limit)) {
        demand += other.limits.find((each) => isSame(each, limit))!.cost;
      }
      const policy = definePolicy(name, this.#policies[name]);
      const turn = estimateTurn({ policy, params: policy.paramsFor(key), key, cost }, demand);
      const result = this.#limiter.peekSync(name as never, key, { cost: turn.cost });
      return turn.earliestMs(result);
    });
  }

  #deny(waiter: Waiter): void {
    this.#end(waiter, ['denied', Math.max(1, ...this.#waits(waiter))]);
  }

  #end(waiter: Waiter, outcome: readonly unknown[]): void {
    this.#waiters = this.#waiters.filter((each) => each !== waiter);
    this.outcomes.set(waiter.id, [...outcome, this.#clock.now()]);
  }
}
