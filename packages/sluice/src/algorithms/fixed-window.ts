/**
 * fixed-window: time is cut into windows of W, `w = floor(now / W)`. A cost c fits when
 * `cost(in window w) + c <= L`.
 *
 * There to compare with, and for those who want it: up to 2L pass around a boundary.
 *
 * Cells: 0 the end of the newest window (ms), 1 the cost in it, 2 unused.
 */
import { type Algorithm, adjustCell, type Terms } from './algorithm.ts';

const USED = 1;

function windowEnd(terms: Terms, timeMs: number): number {
  return (Math.floor(timeMs / terms.windowMs) + 1) * terms.windowMs;
}

export const fixedWindow: Algorithm = {
  keepsEntries: false,

  knownMs: (state, terms) => state.cells[state.at] - terms.windowMs,

  decide({ cells, at }, terms, timeMs, cost, take, answer) {
    let used = cells[at] > timeMs ? cells[at + USED] : 0;
    const retryAfterMs = used + cost <= terms.limit ? 0 : cells[at] - timeMs;
    if (take && retryAfterMs === 0) {
      used += cost;
      cells[at + USED] = used;
      cells[at] = windowEnd(terms, timeMs);
    }
    answer.free = terms.limit - used;
    answer.resetAfterMs = used > 0 ? cells[at] - timeMs : 0;
    return retryAfterMs;
  },

  adjust({ cells, at }, terms, timeMs, { atMs }, delta) {
    if (cells[at] <= timeMs || windowEnd(terms, atMs) !== cells[at]) return 0;
    return adjustCell(cells, at + USED, delta, terms);
  },

  restore({ cells, at }, _terms, _timeMs, used, untilMs) {
    cells[at] = untilMs;
    cells[at + USED] = used;
  },
};
