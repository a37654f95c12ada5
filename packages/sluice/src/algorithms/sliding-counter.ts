/**
 * sliding-counter: `w = floor(now / W)`, `e = now - w*W`, `cur` and `prev` the cost admitted in the
 * windows w and w-1. The previous window counts by the part of it that is still in sight: a cost c
 * fits when `prev*(W - e) + (cur + c)*W <= L*W`.
 *
 * Two numbers a key. An estimate: honest traffic is rarely misjudged, but a client that bursts at
 * the end of one window and then sends steadily gets close to 2L inside one true window.
 *
 * Cells: 0 the end of the window after the newest (ms), 1 cur, 2 prev, both as of the newest.
 */
import { type Algorithm, adjustCell } from './algorithm.ts';

/** The end of the window after the one `timeMs` is in: until then a charge at `timeMs` counts. */
function horizon(windowMs: number, timeMs: number): number {
  return (Math.floor(timeMs / windowMs) + 2) * windowMs;
}

export const slidingCounter: Algorithm = {
  keepsEntries: false,

  knownMs: (state, params) => state.cells[state.at] - 2 * params.windowMs,

  decide(state, params, timeMs, cost, take, answer) {
    const { cells, at } = state;
    const { limit, windowMs } = params;
    const newestMs = cells[at];
    // The time is never before the newest window, so mostly it is in it: no need to divide.
    const horizonMs = timeMs < newestMs - windowMs ? newestMs : horizon(windowMs, timeMs);
    const leftMs = horizonMs - windowMs - timeMs;
    // 1. What the newest window is to this time: the current one, the previous one, or neither.
    let current = 0;
    let previous = 0;
    if (newestMs === horizonMs) {
      current = cells[at + 1];
      previous = cells[at + 2];
    } else if (newestMs === horizonMs - windowMs) previous = cells[at + 1];
    // 2. What is left of the limit, with the part of the previous window that is still in sight.
    let free = limit - current;
    if (previous > 0) free -= Math.ceil((previous * leftMs) / windowMs);
    let retryAfterMs = 0;
    if (cost > free) {
      // In this window it fits once `previous * left <= room * W`; with room 0 that is the next.
      let room = limit - current - cost;
      let fading = previous;
      retryAfterMs = leftMs;
      if (room < 0) {
        // There `current` is the previous one, and nothing else counts.
        room += current;
        fading = current;
        retryAfterMs += windowMs;
      }
      retryAfterMs -= Math.floor((room * windowMs) / fading);
    } else if (take) {
      free -= cost;
      current += cost;
      cells[at] = horizonMs;
      cells[at + 1] = current;
      cells[at + 2] = previous;
    }
    answer.free = free;
    if (current > 0) answer.resetAfterMs = leftMs + windowMs;
    else answer.resetAfterMs = previous > 0 ? leftMs : 0;
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
    // As if used in the current window: what has faded already must not fade twice.
    cells[at] = horizon(windowMs, timeMs);
    cells[at + 1] = used;
  },
};
