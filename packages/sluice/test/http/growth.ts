/** Measures how the time of a function grows with the size of its input. */

/** In `growth`, linear time has a ratio of 8, and quadratic time one of 64. */
export const MAX_LINEAR_GROWTH = 30;

function leastMs(run: () => void): number {
  let least = Number.POSITIVE_INFINITY;
  // One call at a time, so that on a busy machine some calls run without interruption.
  for (let time = 0; time < 50; time++) {
    const startMs = performance.now();
    run();
    least = Math.min(least, performance.now() - startMs);
  }
  return least;
}

/** Returns the time for 8 KB divided by the time for 1 KB. */
export function growth(run: (size: number) => void): number {
  run(8192);
  return leastMs(() => run(8192)) / leastMs(() => run(1024));
}
