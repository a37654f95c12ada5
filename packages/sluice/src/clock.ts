/** Clocks and timers. No other file reads the time. */
import { checkInteger } from './errors.ts';
import { byTime, Heap, type TimedEntry } from './heap.ts';

export interface Clock {
  /** Returns whole milliseconds since the epoch. */
  now(): number;
  /** Calls `wake` after `delayMs` of this clock. Returns a function that cancels the call. */
  schedule(delayMs: number, wake: () => void): () => void;
}

/**
 * The longest delay of `setTimeout`. A longer delay overflows a 32-bit integer, and the timer fires
 * at once. So longer waits are split into several timers.
 */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * A timer that fires early by at most this time is started again for the rest. A larger difference
 * means that the system time was set back meanwhile, so `wake` is called at once.
 */
const EARLY_MS = 5;

/** The system clock. Reads `Date.now` at each call, so that tests can replace it by a fake. */
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
 * Milliseconds since an arbitrary moment, with fractions. Setting the system time does not change
 * this clock. Use it for durations, never for dates.
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

interface Timer extends TimedEntry {
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

  /** Moves the clock forward by `deltaMs`. Timers fire in order, each at its own time. */
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

  /** Sets the time, forward or back, like a correction of the system time. Fires no timers. */
  set(nowMs: number): void {
    this.#nowMs = nowMs;
  }
}

/**
 * Calls `work` after the I/O events of this turn of the event loop. On runtimes without
 * `setImmediate`, calls it in a microtask.
 */
export const atEndOfTurn: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : queueMicrotask;

/** Calls `work` in a later turn of the event loop, so that other events are handled first. */
export const inNextTurn: (work: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : (work) => setTimeout(work);

export const dateOf = (timeMs: number): Date => new Date(timeMs);

/** Wraps the caller's clock. `now` throws if that clock returns anything but whole milliseconds. */
export function checkedClock(clock: Clock): Clock {
  return {
    now() {
      return checkInteger('ERR_INVALID_CLOCK', 'the time of the clock', clock.now(), 0);
    },
    schedule: (delayMs, wake) => clock.schedule(delayMs, wake),
  };
}

/** Waits for `waitMs` of a clock. Rejects with the reason of `signal` if it aborts the wait. */
export function sleep(
  clock: Clock,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      stop();
      reject(signal!.reason);
    };
    const stop = clock.schedule(waitMs, () => {
      signal?.removeEventListener('abort', abort);
      resolve();
    });
    signal?.addEventListener('abort', abort, { once: true });
  });
}
