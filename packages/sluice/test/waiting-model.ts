/**
 * The reference for waiting: one list of waiters, searched from the front for everything. It asks a
 * limiter of its own, so it shares the decisions with what it is compared to, but no queue.
 */
import { estimateTurn } from '../src/acquire/waiters.ts';
import { definePolicy, type ManualClock, type Receipt, type SyncLimiter } from '../src/index.ts';

export interface Wanted {
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
}

interface Waiter {
  readonly id: number;
  readonly limits: readonly Wanted[];
  readonly deadlineMs: number;
  askAtMs: number;
  asked: boolean;
}

type AnyLimiter = SyncLimiter<Record<string, never>>;

const isSame = (one: Wanted, other: Wanted): boolean =>
  one.policy === other.policy && one.key === other.key;

export class WaitingModel {
  /** How each waiter ended, by its id. */
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

  arrive(id: number, limits: readonly Wanted[], maxWaitMs: number): void {
    const nowMs = this.#clock.now();
    const waiter = { id, limits, deadlineMs: nowMs + maxWaitMs, askAtMs: nowMs, asked: false };
    this.#waiters.push(waiter);
    this.#settle();
    if (!this.#waiters.includes(waiter) || waiter.asked) return;
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

  reset(limit: Wanted): void {
    this.#limiter.resetSync(limit.policy, limit.key);
    this.#nudge(limit);
    this.#settle();
  }

  /** Moves on by one millisecond. */
  tick(): void {
    this.#clock.advance(1);
    this.#expire();
  }

  /** Denies the waiters whose deadlines have come, after those that can be served. */
  #expire(): void {
    this.#settle();
    for (;;) {
      const due = this.#waiters.find(({ deadlineMs }) => deadlineMs <= this.#clock.now());
      if (due === undefined) return;
      this.#deny(due);
      this.#settle();
    }
  }

  #ahead(waiter: Waiter, limit: Wanted): Waiter[] {
    const before = this.#waiters.slice(0, this.#waiters.indexOf(waiter));
    return before.filter((other) => other.limits.some((each) => isSame(each, limit)));
  }

  #nudge(limit: Wanted): void {
    const first = this.#waiters.find(({ limits }) => limits.some((each) => isSame(each, limit)));
    if (first) first.askAtMs = this.#clock.now();
  }

  /** Lets the first waiters ask until none has a reason to. */
  #settle(): void {
    for (;;) {
      const nowMs = this.#clock.now();
      const next = this.#waiters.find(
        (waiter) =>
          waiter.askAtMs <= nowMs &&
          waiter.limits.every((limit) => this.#ahead(waiter, limit).length === 0),
      );
      if (next === undefined) return;
      next.asked = true;
      const decision = this.#limiter.checkSync(next.limits as never);
      next.askAtMs = nowMs + decision.retryAfterMs;
      if (decision.allowed) {
        this.receipts.push(decision.receipt);
        this.#end(next, ['served']);
      } else if (next.askAtMs > next.deadlineMs) {
        this.#end(next, ['denied', decision.retryAfterMs]);
      }
    }
  }

  /** The shortest wait of a waiter behind the others, for each of its limits. */
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
