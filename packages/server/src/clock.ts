/** The only file of the service that reads time itself, for how long things take. */

/** Milliseconds with fractions since some moment; only differences mean something. */
export const monotonicMs = (): number => performance.now();

/** Calls back later, if the process runs for so long. Returns a function that cancels it. */
export function scheduleInBackground(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs).unref();
  return () => clearTimeout(timer);
}
