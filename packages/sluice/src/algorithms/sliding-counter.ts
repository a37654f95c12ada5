/**
 * sliding-counter: `w = floor(now / W)`, `e = now - w*W`. `cur` and `prev` are the costs admitted
 * in the windows w and w-1. The previous window is weighted by the part that still overlaps: a
 * cost c fits when `prev*(W - e) + (cur + c)*W <= L*W`.
 *
 * Stores two counters per key. The result is an estimate, which is rarely wrong for ordinary
 * traffic. But a client that bursts at the end of one window and then sends steadily reaches almost
 * 2L inside one true window.
 *
 * Cells: 0 the end of the window after the newest charged window (ms), 1 the cost in the newest
 * charged window, 2 the cost in the window before it.
 */
import { countText, durationText } from '../format.ts';
import { type Algorithm, adjustCell, fitsAfter, twoWindows } from './algorithm.ts';
import { type AlgorithmInfo, roundedUp, usage, usedOf, windowStart } from './description.ts';

/** Returns the time until which a charge at `timeMs` counts: the end of the next window. */
function horizon(windowMs: number, timeMs: number): number {
  return (Math.floor(timeMs / windowMs) + 2) * windowMs;
}

export const slidingCounter: Algorithm = {
  redisTag: 'C',

  knownMs: (state, params) => state.cells[state.at] - 2 * params.windowMs,

  decide(state, params, timeMs, cost, take, result) {
    const { cells, at } = state;
    const { limit, windowMs } = params;
    const newestMs = cells[at];
    // `timeMs` is never before the newest charged window. If it is in this window, the horizon is
    // known without a division.
    const horizonMs = timeMs < newestMs - windowMs ? newestMs : horizon(windowMs, timeMs);
    const leftMs = horizonMs - windowMs - timeMs;
    // 1. At `timeMs`, the newest charged window is the current one, the previous one, or older.
    let current = 0;
    let previous = 0;
    if (newestMs === horizonMs) {
      current = cells[at + 1];
      previous = cells[at + 2];
    } else if (newestMs === horizonMs - windowMs) previous = cells[at + 1];
    // 2. Subtract the current window and the weighted previous one from the limit.
    let free = limit - current;
    if (previous > 0) free -= Math.ceil((previous * leftMs) / windowMs);
    let retryAfterMs = 0;
    if (cost > free) {
      // In this window, the cost fits once `previous * leftMs <= room * W`. If `room` is 0, that is
      // at the end of the window.
      let room = limit - current - cost;
      let fadingCost = previous;
      retryAfterMs = leftMs;
      if (room < 0) {
        // In the next window, only `current` counts, as the cost of the previous window.
        room += current;
        fadingCost = current;
        retryAfterMs += windowMs;
      }
      retryAfterMs -= Math.floor((room * windowMs) / fadingCost);
    } else if (take) {
      free -= cost;
      current += cost;
      cells[at] = horizonMs;
      cells[at + 1] = current;
      cells[at + 2] = previous;
    }
    result.free = free;
    if (current > 0) result.resetAfterMs = leftMs + windowMs;
    else result.resetAfterMs = previous > 0 ? leftMs : 0;
    return retryAfterMs;
  },

  adjust({ cells, at }, params, timeMs, { atMs }, delta) {
    const chargedHorizonMs = horizon(params.windowMs, atMs);
    if (chargedHorizonMs <= timeMs) return 0;
    const windowsAgo = (cells[at] - chargedHorizonMs) / params.windowMs;
    if (windowsAgo !== 0 && windowsAgo !== 1) return 0;
    return adjustCell(cells, at + (windowsAgo === 0 ? 1 : 2), delta, params);
  },

  restore({ cells, at }, { windowMs }, timeMs, used) {
    // Counts as charged in the current window, because `used` may already be a weighted cost.
    cells[at] = horizon(windowMs, timeMs);
    cells[at + 1] = used;
  },

  refundableMs: twoWindows,

  // The weight of the cost of earlier calls falls as time passes. So the only certain lower bound
  // is the time at which the call's own cost fits.
  queueEstimate: (_params, cost) => fitsAfter(cost, 0),
};

export const slidingCounterInfo: AlgorithmInfo = {
  summary: 'Two counters per key; the previous window is weighted by its remaining overlap.',
  shape: 'windows',

  describe(state, params, nowMs, cost) {
    const { windowMs, limit } = params;
    const [horizonMs = 0, newest = 0, before = 0] = state?.cells ?? [];
    const startMs = windowStart(windowMs, nowMs);
    const isCurrent = horizonMs === startMs + 2 * windowMs;
    const current = isCurrent ? newest : 0;
    const previous = isCurrent ? before : horizonMs === startMs + windowMs ? newest : 0;
    const leftMs = startMs + windowMs - nowMs;
    const weight = leftMs / windowMs;
    const used = current + Math.ceil((previous * leftMs) / windowMs);
    const fits = previous * leftMs + (current + cost) * windowMs <= limit * windowMs;
    const sum = roundedUp((previous * leftMs + current * windowMs) / windowMs + cost);
    const weighted = `${countText(previous)} x ${weight.toFixed(2)} from the previous one`;
    const left = durationText(leftMs);
    let freesText = `this window becomes the previous one in ${left}`;
    if (current + cost > limit)
      freesText = `too much in this window; its weight falls from ${left} on`;
    else if (previous > 0) freesText = 'the weight of the previous window falls every millisecond';
    return {
      shape: 'windows',
      ...usage(used, params),
      countsFromMs: startMs - windowMs,
      windows: [
        { startMs: startMs - windowMs, cost: previous, weight },
        { startMs, cost: current, weight: 1 },
      ],
      usedText: `${usedOf(used, params)}: ${countText(current)} in this window, ${weighted}`,
      sumText:
        `${previous} x ${leftMs} / ${windowMs} + ${current} + ${cost} = ` +
        `${sum} ${fits ? '<=' : '>'} ${limit}`,
      freesText,
    };
  },
};
