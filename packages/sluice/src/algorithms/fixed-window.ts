/**
 * fixed-window: time is cut into windows of W, `w = floor(now / W)`. A cost c fits when
 * `cost(in window w) + c <= L`.
 *
 * There to compare with, and for those who want it: up to 2L pass around a boundary.
 *
 * Cells: 0 the end of the newest window (ms), 1 the cost in it, 2 unused.
 */
import { type Algorithm, adjustCell, type LimitParams } from './algorithm.ts';

const USED = 1;

function windowEnd(params: LimitParams, timeMs: number): number {
  return (Math.floor(timeMs / params.windowMs) + 1) * params.windowMs;
}

export const fixedWindow: Algorithm = {
  keepsEntries: false,

  knownMs: (state, params) => state.cells[state.at] - params.windowMs,

  decide({ cells, at }, params, timeMs, cost, take, answer) {
    let used = cells[at] > timeMs ? cells[at + USED] : 0;
    const retryAfterMs = used + cost <= params.limit ? 0 : cells[at] - timeMs;
    if (take && retryAfterMs === 0) {
      used += cost;
      cells[at + USED] = used;
      cells[at] = windowEnd(params, timeMs);
    }
    answer.free = params.limit - used;
    answer.resetAfterMs = used > 0 ? cells[at] - timeMs : 0;
    return retryAfterMs;
  },

  adjust({ cells, at }, params, timeMs, { atMs }, delta) {
    if (cells[at] <= timeMs || windowEnd(params, atMs) !== cells[at]) return 0;
    return adjustCell(cells, at + USED, delta, params);
  },

  restore({ cells, at }, _params, _timeMs, used, untilMs) {
    cells[at] = untilMs;
    cells[at + USED] = used;
  },
};
