/**
 * Long work in slices, so that it never holds the event loop of a process that serves. The work is
 * a generator that yields wherever it may be interrupted.
 */
import { monotonicMs } from './clock.ts';

/** How long one slice may take. The requests that have come in are served between two slices. */
const SLICE_MS = 1;

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

/** The same without a pause, for a process that does not serve yet. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}
