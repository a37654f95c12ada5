/**
 * Deadlines of equal length. They expire in the order in which they started, so one timer serves
 * them all. They form a linked list, so a call that completes is removed in constant time.
 */
import { atEndOfTurn, type Clock } from '../clock.ts';

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
  /** Stops the timer, which runs only while a call waits: it keeps the process alive. */
  #stopTimer: (() => void) | undefined = undefined;

  /** `clock` must be monotonic. */
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
    if (this.#stopTimer === undefined) this.#tick(this.#lengthMs);
  }

  /** Removes a deadline. */
  end(deadline: Deadline): void {
    const { before, after } = deadline;
    if (before === undefined) this.#oldest = after;
    else before.after = after;
    if (after === undefined) this.#newest = before;
    else after.before = before;
    deadline.before = undefined;
    deadline.after = undefined;
    if (this.#oldest === undefined) {
      this.#stopTimer?.();
      this.#stopTimer = undefined;
    }
  }

  #tick(delayMs: number): void {
    // If the event loop was blocked, replies may already be in the sockets. They are read first, so
    // that a pause of this process does not count as a timeout of the store.
    const stop = this.#clock.schedule(delayMs, () => {
      atEndOfTurn(() => {
        if (this.#stopTimer === stop) this.#expire();
      });
    });
    this.#stopTimer = stop;
  }

  #expire(): void {
    this.#stopTimer = undefined;
    const nowMs = this.#clock.now();
    for (let next = this.#oldest; next !== undefined; next = this.#oldest) {
      const leftMs = next.dueMs - nowMs;
      // A timer may fire a fraction of a millisecond early. That needs no second timer.
      if (leftMs >= 1) {
        this.#tick(leftMs);
        return;
      }
      this.end(next);
      next.expire();
    }
  }
}
