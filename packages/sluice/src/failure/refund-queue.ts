/**
 * Queue of adjustments (refunds, settlements, releases) that no caller waits for. Example: a call
 * timed out and was denied, but the late reply shows that the store has charged it. The queue
 * refunds the charge. Adjustments are sent even while the circuit breaker is open, because the
 * store may be reachable before the breaker closes. If that fails, they are sent again: after the
 * next command that succeeds, when the client connects, and once per second.
 *
 * A store with `adjustOnce` applies an adjustment once, however often it is sent. To other stores,
 * an adjustment is sent again only after an error, never after a missing reply. Releasing a hold is
 * idempotent, so it is sent with `adjust`: `adjustOnce` would store a record.
 *
 * The number of adjustments in the queues of all domains is bounded. An adjustment is dropped when
 * its charge no longer counts. The timer does not keep the process alive.
 */
import { algorithms, isConcurrency } from '../algorithms/index.ts';
import { type Clock, scheduleInBackground } from '../clock.ts';
import type { Adjustment, Store } from '../store.ts';
import { onceOf } from './store-methods.ts';

/** Maximum number of adjustments in all queues. */
const MAX_WAITING = 10_000;
/** Maximum number of entries in flight when `retry` sends entries that wait. */
const MAX_SENT = 64;
/** The pause after a failure, and the timeout of a reply. */
const PAUSE_MS = 1000;

interface Entry {
  /** The id for `adjustOnce`. */
  readonly id: string;
  readonly adjustments: readonly Adjustment[];
  readonly nowMs: number | undefined;
  /** When the adjustments have no effect any more, by the monotonic clock. */
  readonly untilMs: number;
  readonly done: () => void;
  sentMs: number;
}

const isRelease = ({ policy }: Adjustment): boolean => isConcurrency(policy);

/** The state that the queues of all domains share. */
export class RefundBudget {
  /** The number of adjustments that wait to be sent again. */
  waiting = 0;
  #ids = 0;
  readonly #name = Math.random().toString(36).slice(2);
  readonly #store: Store;
  readonly #once: ReturnType<typeof onceOf>;

  constructor(
    store: Store,
    readonly clock: Clock,
  ) {
    this.#store = store;
    this.#once = onceOf(store);
  }

  /** Whether the store applies the adjustments once, however often they are sent. */
  isOnce({ adjustments }: Entry): boolean {
    return this.#once !== undefined || adjustments.every(isRelease);
  }

  /** Sends an entry to the store. Async, so that an exception of the store becomes a rejection. */
  async apply({ id, adjustments, nowMs }: Entry): Promise<void> {
    if (this.#once === undefined || adjustments.every(isRelease)) {
      await this.#store.adjust(adjustments, nowMs);
    } else await this.#once(id, adjustments, nowMs);
  }

  get isFull(): boolean {
    return this.waiting > MAX_WAITING;
  }

  /** Returns an id that is unique over all processes. */
  nextId(): string {
    this.#ids++;
    return `later:${this.#name}:${this.#ids}`;
  }
}

export class RefundQueue {
  readonly #budget: RefundBudget;
  /** Entries to send, in order of arrival. An entry that failed is appended again. */
  #waiting: Entry[] = [];
  readonly #sent = new Set<Entry>();
  /** After a failure nothing is sent before this time. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #stopTimer: (() => void) | undefined = undefined;
  #isClosed = false;

  constructor(budget: RefundBudget) {
    this.#budget = budget;
  }

  /**
   * Sends adjustments, or queues them during the pause after a failure. Sends them again if that
   * fails. Resolves when they are done or dropped.
   */
  add(adjustments: readonly Adjustment[], nowMs: number | undefined): Promise<void> {
    return new Promise((done) => {
      const untilMs = this.#now() + Math.max(...adjustments.map(refundableMs));
      const id = this.#budget.nextId();
      const entry = { id, adjustments, nowMs, untilMs, done, sentMs: 0 };
      if (this.#now() < this.#notBeforeMs || this.#sent.size >= MAX_WAITING) this.#keep(entry);
      else this.#send(entry);
      this.#startTimer();
    });
  }

  /** Sends waiting adjustments, if the pause after the last failure is over. */
  retry(max = MAX_SENT): void {
    if (this.#waiting.length === 0 || this.#now() < this.#notBeforeMs) return;
    const room = Math.max(Math.min(max, MAX_SENT - this.#sent.size), 0);
    const taken = this.#waiting.splice(0, room);
    for (const entry of taken) {
      this.#budget.waiting -= entry.adjustments.length;
      if (entry.untilMs <= this.#now()) entry.done();
      else this.#send(entry);
    }
  }

  /** Call this when the client has connected. */
  ready(): void {
    this.#notBeforeMs = Number.NEGATIVE_INFINITY;
    this.retry();
  }

  /** Sends waiting adjustments a last time, and stops the timer. */
  close(): void {
    this.#isClosed = true;
    this.#stopTimer?.();
    this.ready();
  }

  #now(): number {
    return this.#budget.clock.now();
  }

  #send(entry: Entry): void {
    entry.sentMs = this.#now();
    this.#sent.add(entry);
    this.#budget.apply(entry).then(
      () => this.#succeeded(entry),
      (error) => this.#failed(entry, error),
    );
  }

  #succeeded(entry: Entry): void {
    this.#sent.delete(entry);
    entry.done();
    this.#notBeforeMs = Number.NEGATIVE_INFINITY;
    this.retry();
  }

  #failed(entry: Entry, error: unknown): void {
    if (!this.#sent.delete(entry)) return;
    // The error concerns only this key: its value in the store is unreadable, so it has no charge.
    const isOfKey = (error as { isOfKey?: boolean } | undefined)?.isOfKey === true;
    if (isOfKey) entry.done();
    else this.#keep(entry);
    if (!isOfKey) this.#notBeforeMs = this.#now() + PAUSE_MS;
  }

  /** Queues an entry to be sent again. If there are too many adjustments, drops the oldest. */
  #keep(entry: Entry): void {
    if (entry.untilMs <= this.#now()) {
      entry.done();
      return;
    }
    this.#waiting.push(entry);
    this.#budget.waiting += entry.adjustments.length;
    while (this.#budget.isFull && this.#waiting.length > 0) this.#dropOldest();
  }

  #dropOldest(): void {
    const { adjustments, done } = this.#waiting.shift()!;
    this.#budget.waiting -= adjustments.length;
    done();
  }

  #startTimer(): void {
    if (this.#stopTimer !== undefined || this.#isClosed) return;
    this.#stopTimer = scheduleInBackground(PAUSE_MS, () => {
      this.#stopTimer = undefined;
      this.#requeueLost();
      // One adjustment is enough to probe the store.
      this.retry(1);
      if (this.#waiting.length + this.#sent.size > 0) this.#startTimer();
    });
  }

  /**
   * Queues entries again that have no reply. Without `adjustOnce`, they are not sent again, because
   * the store may have applied them.
   */
  #requeueLost(): void {
    const nowMs = this.#now();
    for (const entry of this.#sent) {
      if (nowMs - entry.sentMs < PAUSE_MS) continue;
      if (entry.untilMs > nowMs && !this.#budget.isOnce(entry)) continue;
      this.#sent.delete(entry);
      this.#keep(entry);
    }
  }
}

const refundableMs = ({ policy, params, charge }: Adjustment): number =>
  algorithms[policy.algorithm].refundableMs(params, charge.cost);
