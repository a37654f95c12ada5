/**
 * fixed-window: time is cut into windows of W, `w = floor(now / W)`. A cost c fits when
 * `cost(in window w) + c <= L`.
 *
 * There to compare with, and for those who want it: up to 2L pass around a boundary.
 *
 * Cells: 0 the end of the newest window (ms), 1 the cost in it, 2 unused.
 */
import { type Algorithm, mostCounted, type State, type Terms } from './algorithm.ts';

const USED = 1;

function windowEnd(terms: Terms, timeMs: number): number {
  return (Math.floor(timeMs / terms.windowMs) + 1) * terms.windowMs;
}

function used({ cells, at }: State, timeMs: number): number {
  return cells[at] > timeMs ? cells[at + USED] : 0;
}

export const fixedWindow: Algorithm = {
  name: 'fixed-window',
  keepsEntries: false,

  knownMs: ({ cells, at }, terms) => cells[at] - terms.windowMs,

  free: (state, terms, timeMs) => terms.limit - used(state, timeMs),

  retryAfterMs: ({ cells, at }, _terms, timeMs) => cells[at] - timeMs,

  resetAfterMs: (state, _terms, timeMs) =>
    used(state, timeMs) > 0 ? state.cells[state.at] - timeMs : 0,

  charge(state, terms, timeMs, cost) {
    const { cells, at } = state;
    cells[at + USED] = used(state, timeMs) + cost;
    cells[at] = windowEnd(terms, timeMs);
    return cells[at] - timeMs;
  },

  adjust({ cells, at }, terms, timeMs, chargedAtMs, delta) {
    if (cells[at] <= timeMs || windowEnd(terms, chargedAtMs) !== cells[at]) return 0;
    const before = cells[at + USED];
    const after = Math.min(Math.max(before + delta, 0), mostCounted(terms));
    cells[at + USED] = after;
    return after - before;
  },
};
