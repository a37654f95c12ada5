/**
 * Computes figures about admitted calls: windows over the limit, overshoot, and use of the limit.
 */

/** Returns the tokens of the calls admitted in each window that ends with a call. */
export function slidingSums(calls, windowMs) {
  const sorted = [...calls].sort((one, other) => one.atMs - other.atMs);
  let sum = 0;
  let first = 0;
  return sorted.map(({ atMs, tokens }) => {
    sum += tokens;
    while (sorted[first].atMs <= atMs - windowMs) sum -= sorted[first++].tokens;
    return sum;
  });
}

/** Returns the tokens of the calls admitted in each window of a limiter with fixed windows. */
export function fixedSums(calls) {
  const sums = new Map();
  for (const { window, tokens } of calls) sums.set(window, (sums.get(window) ?? 0) + tokens);
  return [...sums.values()];
}

/** Summarizes the sums of windows. `elapsedMs` is the time in which calls were made. */
export function windowFigures(calls, sums, { limit, windowMs, elapsedMs }) {
  const over = sums.filter((sum) => sum > limit).length;
  const tokens = calls.reduce((sum, call) => sum + call.tokens, 0);
  return {
    calls: calls.length,
    'windows over %': round((100 * over) / sums.length),
    'overshoot %': round((100 * Math.max(...sums.map((sum) => sum - limit), 0)) / limit),
    'use %': round((100 * tokens) / (limit * (elapsedMs / windowMs))),
  };
}

const round = (value) => Math.round(10 * value) / 10;
