/**
 * Deadlines that all have the same length: they end in the order in which they began, so one timer
 * serves them all. They are links of a chain, so that a call that is answered leaves nothing behind.
 */
import type { Clock } from '../clock.ts';

export abstract class Deadline {
  dueMs = 0;
  before: Deadline | undefined = undefined;
  after: Deadline | undefined = undefined;

  abstract expire(): void;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly #lengthMs: number;
  #oldest: Deadline | undefined = undefined;
  #newest: Deadline | undefined = undefined;
  #isTicking = false;

  constructor(clock: Clock, lengthMs: number) {
    this.#clock = clock;
    this.#lengthMs = lengthMs;
  }

  start(deadline: Deadline): void {
    deadline.dueMs = this.#clock.now() + this.#lengthMs;
    deadline.before = this.#newest;
    if (this.#newest === undefined) this.#oldest = deadline;
    else this.#newest.after = deadline;
    this.#newest = deadline;
    if (!this.#isTicking) this.#tick(this.#lengthMs);
  }

  /** Takes a deadline out that need not be kept any more. */
  end(deadline: Deadline): void {
    const { before, after } = deadline;
    if (before === undefined) this.#oldest = after;
    else before.after = after;
    if (after === undefined) this.#newest = before;
    else after.before = before;
    deadline.before = undefined;
    deadline.after = undefined;
  }

  #tick(delayMs: number): void {
    this.#isTicking = true;
    // When this process itself was held up, the answers may lie in its sockets already: they are
    // read first, so that a pause of ours is not taken for one of the store's.
    this.#clock.schedule(delayMs, () => afterInput(() => this.#expire()));
  }

  #expire(): void {
    this.#isTicking = false;
    const nowMs = this.#clock.now();
    for (let next = this.#oldest; next !== undefined; next = this.#oldest) {
      if (next.dueMs - nowMs > this.#lengthMs) this.#beginAnew(nowMs);
      const leftMs = next.dueMs - nowMs;
      if (leftMs > 0) {
        this.#tick(leftMs);
        return;
      }
      this.end(next);
      next.expire();
    }
  }

  /** A clock that was set back must not keep anybody waiting until it is as late again. */
  #beginAnew(nowMs: number): void {
    for (let each = this.#oldest; each !== undefined; each = each.after) {
      each.dueMs = Math.min(each.dueMs, nowMs + this.#lengthMs);
    }
  }
}

const afterInput: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : queueMicrotask;
