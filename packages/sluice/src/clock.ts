/** Clocks and timers. No other file reads the time. */
import { byTime, Heap, type Timed } from './heap.ts';

export interface Clock {
  /** Returns whole milliseconds since the epoch. */
  now(): number;
  /** Calls `wake` when `delayMs` have passed on this clock. Returns a function that cancels it. */
  schedule(delayMs: number, wake: () => void): () => void;
}

/** A longer timer overflows a 32-bit integer and fires at once, so longer waits are split. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A timer that fires earlier than this by the wall clock means that the clock was set. */
const EARLY_MS = 5;

/** The system clock. Looks `Date.now` up at each call, so that fake timers of tests work. */
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

/** Calls `wake` after at least `delayMs`, with a timer that does not keep the process alive. */
export function scheduleInBackground(delayMs: number, wake: () => void): () => void {
  const timer: unknown = setTimeout(wake, delayMs);
  (timer as { unref?: () => void }).unref?.();
  return () => clearTimeout(timer as number);
}

interface Timer extends Timed {
  readonly wake: () => void;
}

/**
 * A clock that moves only by `advance` and `set`, for tests, simulations and replays.
 *
 *     const clock = new ManualClock(1_000);
 *     clock.advance(250); // now() is 1_250, and the timers due until then have fired in order
 */
export class ManualClock implements Clock {
  #nowMs: number;
  readonly #timers = new Heap<Timer>(byTime);

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs;
  }

  schedule(delayMs: number, wake: () => void): () => void {
    const timer = { dueMs: this.#nowMs + delayMs, wake };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves forward by `deltaMs`. Each timer fires at its own time. */
  advance(deltaMs: number): void {
    const endMs = this.#nowMs + deltaMs;
    const timers = this.#timers;
    for (let next = timers.first; next && next.dueMs <= endMs; next = timers.first) {
      timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.wake();
    }
    // A callback may have advanced the clock further.
    this.#nowMs = Math.max(this.#nowMs, endMs);
  }

  /** Steps forward or back, as a clock does that is corrected. Fires no timers. */
  set(nowMs: number): void {
    this.#nowMs = nowMs;
  }
}

/** Calls `work` after the I/O events of this turn of the event loop, or in a microtask. */
export const atEndOfTurn: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : queueMicrotask;

/** Calls `work` in a later turn of the event loop, so that other events are handled before it. */
export const inNextTurn: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : (work) => setTimeout(work);

export const dateOf = (timeMs: number): Date => new Date(timeMs);
