/** The only file of the service that reads time itself: how long things take, whoever sets clocks. */

/** Milliseconds with fractions since some moment; only differences mean something. */
export const monotonicMs = (): number => performance.now();
