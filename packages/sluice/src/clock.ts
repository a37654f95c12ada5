/**
 * The only file that reads time. Everything else is told what time it is.
 */
import { Heap, type Timed } from './heap.ts';

/** Whole milliseconds since the epoch, and a way to be woken. */
export interface Clock {
  now(): number;
  /** Calls `wake` once `delayMs` have passed on this clock; the answer cancels that. */
  schedule(delayMs: number, wake: () => void): () => void;
}

/** Longer timers overflow a 32-bit integer and fire at once, so longer waits are made of slices. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** How much a timer may be ahead of the wall clock without anybody having set the clock. */
const EARLY_MS = 5;

/** The machine's clock. It looks `Date.now` up at each call, so a test's fake timers work. */
export const systemClock: Clock = {
  now: () => Date.now(),

  schedule(delayMs, wake) {
    const dueMs = Date.now() + delayMs;
    let timer: ReturnType<typeof setTimeout>;
    const arm = (remainingMs: number): void => {
      const sliceMs = Math.min(remainingMs, MAX_TIMER_MS);
      timer = setTimeout(() => {
        const earlyMs = dueMs - Date.now();
        if (remainingMs > sliceMs) arm(remainingMs - sliceMs);
        // By the wall clock a timer may fire a little early; if it is much, the clock was set.
        else if (earlyMs > 0 && earlyMs <= EARLY_MS) arm(earlyMs);
        else wake();
      }, sliceMs);
    };
    arm(delayMs);
    return () => clearTimeout(timer);
  },
};

/**
 * Milliseconds since an arbitrary moment, with fractions. Setting the machine's clock does not
 * change it, so it is for durations and never for dates.
 */
export const monotonicClock: Clock = {
  now: () => performance.now(),

  schedule(delayMs, wake) {
    const timer = setTimeout(wake, Math.ceil(delayMs));
    return () => clearTimeout(timer);
  },
};

/** Calls `wake` after `delayMs` at the earliest. Does not keep the process alive for it. */
export function scheduleInBackground(delayMs: number, wake: () => void): () => void {
  const timer: unknown = setTimeout(wake, delayMs);
  (timer as { unref?: () => void }).unref?.();
  return () => clearTimeout(timer as number);
}

interface Sleeper extends Timed {
  readonly wake: () => void;
}

/**
 * A clock that stands still until it is told otherwise: for tests, simulations and replays.
 *
 *     const clock = new ManualClock(1_000);
 *     clock.advance(250); // now() is 1_250, and whoever was due has been woken in order
 */
export class ManualClock implements Clock {
  #nowMs: number;
  readonly #sleepers = new Heap<Sleeper>();

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs;
  }

  schedule(delayMs: number, wake: () => void): () => void {
    const sleeper = { dueMs: this.#nowMs + delayMs, wake };
    this.#sleepers.add(sleeper);
    return () => this.#sleepers.delete(sleeper);
  }

  /** Moves on by `deltaMs`, waking sleepers at their times. */
  advance(deltaMs: number): void {
    const endMs = this.#nowMs + deltaMs;
    const sleepers = this.#sleepers;
    for (let next = sleepers.first; next && next.dueMs <= endMs; next = sleepers.first) {
      sleepers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.wake();
    }
    // Someone who was woken may have moved the clock further still.
    this.#nowMs = Math.max(this.#nowMs, endMs);
  }

  /** Steps to a time, forward or back, as a clock that is being corrected does. Wakes nobody. */
  set(nowMs: number): void {
    this.#nowMs = nowMs;
  }
}

/** After everything that came in with this turn of the event loop; where there is none, soon. */
export const atEndOfTurn: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : queueMicrotask;

/** Calls `work` in a later turn of the event loop, so that other events are handled before it. */
export const inNextTurn: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : (work) => setTimeout(work);

/** A moment as a `Date`, for interfaces that speak in those. */
export const dateOf = (timeMs: number): Date => new Date(timeMs);
