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
import { type Algorithm, mostCounted, type State } from './algorithm.ts';

const CURRENT = 1;
const PREVIOUS = 2;

/** The end of the window after the one `timeMs` is in: until then a charge at `timeMs` counts. */
function horizon(windowMs: number, timeMs: number): number {
  return (Math.floor(timeMs / windowMs) + 2) * windowMs;
}

/** The cost in the window of `timeMs`, given how far its horizon lies behind it. */
function current({ cells, at }: State, behindMs: number): number {
  return behindMs === 0 ? cells[at + CURRENT] : 0;
}

/** The cost in the window before that. */
function previous({ cells, at }: State, windowMs: number, behindMs: number): number {
  if (behindMs === 0) return cells[at + PREVIOUS];
  return behindMs === windowMs ? cells[at + CURRENT] : 0;
}

export const slidingCounter: Algorithm = {
  name: 'sliding-counter',
  keepsEntries: false,

  knownMs: ({ cells, at }, { windowMs }) => cells[at] - 2 * windowMs,

  free(state, { limit, windowMs }, timeMs) {
    const horizonMs = horizon(windowMs, timeMs);
    const behindMs = horizonMs - state.cells[state.at];
    const weighed = previous(state, windowMs, behindMs) * (horizonMs - windowMs - timeMs);
    return limit - Math.ceil(weighed / windowMs) - current(state, behindMs);
  },

  retryAfterMs(state, { limit, windowMs }, timeMs, cost) {
    const horizonMs = horizon(windowMs, timeMs);
    const behindMs = horizonMs - state.cells[state.at];
    const leftMs = horizonMs - windowMs - timeMs;
    const cur = current(state, behindMs);
    // In this window it fits once `prev * left <= room * W`; with room 0 that is the next window.
    const room = limit - cur - cost;
    if (room >= 0) {
      return leftMs - Math.floor((room * windowMs) / previous(state, windowMs, behindMs));
    }
    // In the next window `cur` is the previous one and nothing else counts.
    return leftMs + windowMs - Math.floor(((limit - cost) * windowMs) / cur);
  },

  resetAfterMs(state, { windowMs }, timeMs) {
    const horizonMs = horizon(windowMs, timeMs);
    const behindMs = horizonMs - state.cells[state.at];
    if (current(state, behindMs) > 0) return horizonMs - timeMs;
    return previous(state, windowMs, behindMs) > 0 ? horizonMs - windowMs - timeMs : 0;
  },

  charge(state, { windowMs }, timeMs, cost) {
    const { cells, at } = state;
    const horizonMs = horizon(windowMs, timeMs);
    if (cells[at] !== horizonMs) {
      cells[at + PREVIOUS] = previous(state, windowMs, horizonMs - cells[at]);
      cells[at + CURRENT] = 0;
      cells[at] = horizonMs;
    }
    cells[at + CURRENT] += cost;
    return horizonMs - timeMs;
  },

  adjust({ cells, at }, terms, timeMs, chargedAtMs, delta) {
    const chargedHorizonMs = horizon(terms.windowMs, chargedAtMs);
    if (chargedHorizonMs <= timeMs) return 0;
    const windowsAgo = (cells[at] - chargedHorizonMs) / terms.windowMs;
    if (windowsAgo !== 0 && windowsAgo !== 1) return 0;
    const cell = at + (windowsAgo === 0 ? CURRENT : PREVIOUS);
    const before = cells[cell];
    const after = Math.min(Math.max(before + delta, 0), mostCounted(terms));
    cells[cell] = after;
    return after - before;
  },
};
