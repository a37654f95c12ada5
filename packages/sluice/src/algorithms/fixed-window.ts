/**
 * fixed-window: windows of W aligned to the clock, `w = floor(now / W)`. A cost c fits when
 * `cost(in window w) + c <= L`.
 *
 * Admits up to 2L around the boundary of two windows. Provided for comparison, and for applications
 * that need classic fixed windows.
 *
 * Cells: 0 the end of the newest window (ms), 1 the cost in that window, 2 unused.
 */
import { durationText } from '../format.ts';
import { type Algorithm, adjustCell, type LimitParams, twoWindows } from './algorithm.ts';
import { type AlgorithmInfo, sumOf, usage, usedOf, windowStart } from './description.ts';

const USED = 1;

function windowEnd(params: LimitParams, timeMs: number): number {
  return (Math.floor(timeMs / params.windowMs) + 1) * params.windowMs;
}

export const fixedWindow: Algorithm = {
  redisTag: 'F',

  knownMs: (state, params) => state.cells[state.at] - params.windowMs,

  decide({ cells, at }, params, timeMs, cost, take, result) {
    let used = cells[at] > timeMs ? cells[at + USED] : 0;
    const retryAfterMs = used + cost <= params.limit ? 0 : cells[at] - timeMs;
    if (take && retryAfterMs === 0) {
      used += cost;
      cells[at + USED] = used;
      cells[at] = windowEnd(params, timeMs);
    }
    result.free = params.limit - used;
    result.resetAfterMs = used > 0 ? cells[at] - timeMs : 0;
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

  refundableMs: twoWindows,

  // The current window admits its remaining capacity, and each later window admits L.
  queueEstimate: ({ limit, windowMs }, cost, demand) => ({
    cost,
    earliestMs({ remaining, resetAfterMs }) {
      const windows = Math.ceil((demand - remaining) / limit);
      return windows > 0 ? resetAfterMs + (windows - 1) * windowMs : 0;
    },
  }),
};

export const fixedWindowInfo: AlgorithmInfo = {
  summary: 'One counter per window of the clock; up to twice the limit around a boundary.',
  shape: 'windows',

  describe(state, params, nowMs, cost) {
    const { windowMs } = params;
    const [endMs = 0, newest = 0] = state?.cells ?? [];
    const used = endMs > nowMs ? newest : 0;
    const startMs = windowStart(windowMs, nowMs);
    const since = `since the window began ${durationText(nowMs - startMs)} ago`;
    return {
      shape: 'windows',
      ...usage(used, params),
      countsFromMs: startMs,
      windows: [{ startMs, cost: used, weight: 1 }],
      usedText: `${usedOf(used, params)} ${since}`,
      sumText: sumOf(used, cost, params),
      freesText: `the next window begins in ${durationText(startMs + windowMs - nowMs)}`,
    };
  },
};
