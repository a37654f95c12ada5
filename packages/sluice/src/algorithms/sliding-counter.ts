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
import { type Algorithm, mostCounted, type State, type Terms } from './algorithm.ts';

const CURRENT = 1;
const PREVIOUS = 2;

/** The end of the window after the one `timeMs` is in: until then a charge at `timeMs` counts. */
function horizon(terms: Terms, timeMs: number): number {
  return (Math.floor(timeMs / terms.windowMs) + 2) * terms.windowMs;
}

function current({ cells, at }: State, horizonMs: number): number {
  return cells[at] === horizonMs ? cells[at + CURRENT] : 0;
}

function previous({ cells, at }: State, horizonMs: number, windowMs: number): number {
  if (cells[at] === horizonMs) return cells[at + PREVIOUS];
  return cells[at] === horizonMs - windowMs ? cells[at + CURRENT] : 0;
}

export const slidingCounter: Algorithm = {
  name: 'sliding-counter',
  keepsEntries: false,

  knownMs: ({ cells, at }, terms) => cells[at] - 2 * terms.windowMs,

  free(state, terms, timeMs) {
    const { limit, windowMs } = terms;
    const horizonMs = horizon(terms, timeMs);
    const leftMs = horizonMs - windowMs - timeMs;
    const weighed = previous(state, horizonMs, windowMs) * leftMs;
    return limit - Math.ceil(weighed / windowMs) - current(state, horizonMs);
  },

  retryAfterMs(state, terms, timeMs, cost) {
    const { limit, windowMs } = terms;
    const horizonMs = horizon(terms, timeMs);
    const leftMs = horizonMs - windowMs - timeMs;
    const cur = current(state, horizonMs);
    // In this window it fits once `prev * left <= room * W`; with room 0 that is the next window.
    const room = limit - cur - cost;
    if (room >= 0) {
      return leftMs - Math.floor((room * windowMs) / previous(state, horizonMs, windowMs));
    }
    // In the next window `cur` is the previous one and nothing else counts.
    return leftMs + windowMs - Math.floor(((limit - cost) * windowMs) / cur);
  },

  resetAfterMs(state, terms, timeMs) {
    const horizonMs = horizon(terms, timeMs);
    if (current(state, horizonMs) > 0) return horizonMs - timeMs;
    const endMs = horizonMs - terms.windowMs;
    return previous(state, horizonMs, terms.windowMs) > 0 ? endMs - timeMs : 0;
  },

  charge(state, terms, timeMs, cost) {
    const { cells, at } = state;
    const horizonMs = horizon(terms, timeMs);
    const cur = current(state, horizonMs) + cost;
    cells[at + PREVIOUS] = previous(state, horizonMs, terms.windowMs);
    cells[at + CURRENT] = cur;
    cells[at] = horizonMs;
  },

  adjust({ cells, at }, terms, timeMs, chargedAtMs, delta) {
    const chargedHorizonMs = horizon(terms, chargedAtMs);
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
