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
import { type Algorithm, mostCounted } from './algorithm.ts';

const CURRENT = 1;
const PREVIOUS = 2;

/** The end of the window after the one `timeMs` is in: until then a charge at `timeMs` counts. */
function horizon(windowMs: number, timeMs: number): number {
  return (Math.floor(timeMs / windowMs) + 2) * windowMs;
}

/** How long a cost that does not fit has to wait. */
function wait(
  limit: number,
  windowMs: number,
  current: number,
  previous: number,
  leftMs: number,
  cost: number,
): number {
  // In this window it fits once `previous * left <= room * W`; with room 0 that is the next window.
  const room = limit - current - cost;
  if (room >= 0) return leftMs - Math.floor((room * windowMs) / previous);
  // In the next window `current` is the previous one and nothing else counts.
  return leftMs + windowMs - Math.floor(((limit - cost) * windowMs) / current);
}

export const slidingCounter: Algorithm = {
  name: 'sliding-counter',
  keepsEntries: false,

  knownMs: ({ cells, at }, { windowMs }) => cells[at] - 2 * windowMs,

  decide({ cells, at }, { limit, windowMs }, timeMs, cost, take, answer) {
    const horizonMs = horizon(windowMs, timeMs);
    // 1. What the newest window is to this time: the current one, the previous one, or neither.
    const behindMs = horizonMs - cells[at];
    let current = behindMs === 0 ? cells[at + CURRENT] : 0;
    let previous = 0;
    if (behindMs === 0) previous = cells[at + PREVIOUS];
    else if (behindMs === windowMs) previous = cells[at + CURRENT];
    // 2. What of the previous one counts.
    const leftMs = horizonMs - windowMs - timeMs;
    const weighed = previous === 0 ? 0 : Math.ceil((previous * leftMs) / windowMs);
    // 3. Whether it fits.
    const fits = weighed + current + cost <= limit;
    if (fits && take) {
      current += cost;
      cells[at] = horizonMs;
      cells[at + CURRENT] = current;
      cells[at + PREVIOUS] = previous;
    }
    answer.free = limit - weighed - current;
    answer.retryAfterMs = fits ? 0 : wait(limit, windowMs, current, previous, leftMs, cost);
    if (current > 0) answer.resetAfterMs = leftMs + windowMs;
    else answer.resetAfterMs = previous > 0 ? leftMs : 0;
    return fits;
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
