/** The only file of the service that reads time itself, for how long things take. */

/** Milliseconds with fractions since some moment; only differences mean something. */
export const monotonicMs = (): number => performance.now();
