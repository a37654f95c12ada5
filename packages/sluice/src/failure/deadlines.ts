/**
 * Deadlines that all have the same length: they end in the order in which they began, so one timer
 * serves them all, and a call that is answered in time costs no timer at all.
 */
import type { Clock } from '../clock.ts';

export interface Awaited {
  /** Whether the answer came. */
  readonly isDone: boolean;
  expire(): void;
}

/** Forgetting what is done is put off until there is this much of it. */
const COMPACTED_FROM = 1024;

export class Deadlines {
  readonly #clock: Clock;
  readonly #lengthMs: number;
  #queue: { readonly dueMs: number; readonly awaited: Awaited }[] = [];
  #head = 0;
  #isTicking = false;

  constructor(clock: Clock, lengthMs: number) {
    this.#clock = clock;
    this.#lengthMs = lengthMs;
  }

  start(awaited: Awaited): void {
    this.#queue.push({ dueMs: this.#clock.now() + this.#lengthMs, awaited });
    this.#tick(this.#lengthMs);
  }

  #tick(delayMs: number): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    // When this process itself was held up, the answers may lie in its sockets already: they are
    // read first, so that a pause of ours is not taken for one of the store's.
    this.#clock.schedule(delayMs, () => afterInput(() => this.#expire()));
  }

  #expire(): void {
    this.#isTicking = false;
    const nowMs = this.#clock.now();
    let next = this.#queue[this.#head];
    while (next !== undefined && (next.awaited.isDone || next.dueMs <= nowMs)) {
      this.#head++;
      if (!next.awaited.isDone) next.awaited.expire();
      next = this.#queue[this.#head];
    }
    if (this.#head >= COMPACTED_FROM || next === undefined) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    if (next !== undefined) this.#tick(Math.max(next.dueMs - nowMs, 1));
  }
}

const afterInput: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : queueMicrotask;
