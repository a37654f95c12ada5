/**
 * Runs long work in slices, so that it does not block the event loop. The work is a generator that
 * yields wherever it can be interrupted.
 */
import { monotonicMs } from './clock.ts';

/** Duration of a slice. Pending requests are served between two slices. */
const SLICE_MS = 1;

/** Runs the work in slices. Resolves to its result. */
export async function inSlices<T>(work: Generator<void, T>): Promise<T> {
  for (;;) {
    const untilMs = monotonicMs() + SLICE_MS;
    do {
      const { done, value } = work.next();
      if (done) return value;
    } while (monotonicMs() < untilMs);
    await new Promise(setImmediate);
  }
}

/** Runs the work without a pause, for a process that does not yet accept requests. */
export function runToEnd<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}
