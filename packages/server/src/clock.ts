/** The only file of the service that reads the monotonic clock. */

/** Returns fractional milliseconds since an arbitrary origin. */
export const monotonicMs = (): number => performance.now();

/**
 * Calls `callback` after `delayMs`, without keeping the process alive. Returns a function that
 * cancels the call.
 */
export function scheduleInBackground(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs).unref();
  return () => clearTimeout(timer);
}
