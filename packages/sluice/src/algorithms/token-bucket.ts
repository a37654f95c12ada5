/**
 * token-bucket: a bucket holds up to `burst` tokens (default L), gains L every W, evenly, and a
 * call takes c. A new key is full.
 *
 * Exact in integers: what is kept is tokens*W (the "level"), which grows by L each millisecond up
 * to burst*W. A cost fits when `level >= c*W`.
 *
 * Cells: 0 when the bucket is full again (ms), 1 the level at the newest charge (negative after an
 * overcharge), 2 the time of that charge (ms).
 */
import type { Algorithm, LimitParams, State } from './algorithm.ts';

const LEVEL = 1;
const CHARGED_AT = 2;

function levelAt({ cells, at }: State, params: LimitParams, timeMs: number): number {
  const full = params.capacity * params.windowMs;
  if (cells[at] === 0) return full;
  return Math.min(full, cells[at + LEVEL] + (timeMs - cells[at + CHARGED_AT]) * params.limit);
}

function setLevel({ cells, at }: State, params: LimitParams, timeMs: number, level: number): void {
  cells[at] = timeMs + Math.ceil((params.capacity * params.windowMs - level) / params.limit);
  cells[at + LEVEL] = level;
  cells[at + CHARGED_AT] = timeMs;
}

export const tokenBucket: Algorithm = {
  keepsEntries: false,

  knownMs: (state) => state.cells[state.at + CHARGED_AT],

  decide(state, params, timeMs, cost, take, answer) {
    const { windowMs } = params;
    let level = levelAt(state, params, timeMs);
    const missing = cost * windowMs - level;
    const retryAfterMs = missing <= 0 ? 0 : Math.ceil(missing / params.limit);
    if (take && retryAfterMs === 0) {
      level -= cost * windowMs;
      setLevel(state, params, timeMs, level);
    }
    answer.free = Math.floor(level / windowMs);
    answer.resetAfterMs = Math.ceil((params.capacity * windowMs - level) / params.limit);
    return retryAfterMs;
  },

  adjust(state, params, timeMs, { cost, atMs }, delta) {
    const { cells, at } = state;
    const { limit, windowMs } = params;
    const full = params.capacity * windowMs;
    const before = levelAt(state, params, timeMs);
    // The bucket refills a charge at its rate: a refund returns only the part still missing.
    const missing = Math.max(cost * windowMs - (timeMs - atMs) * limit, 0);
    const change = Math.max(delta * windowMs, -missing);
    // Applied at the newest charge, so that the state knows no later time than before. The deepest
    // debt is the one whose distance from a full bucket is still an exact integer.
    const level = Math.max(cells[at + LEVEL] - change, full - Number.MAX_SAFE_INTEGER);
    setLevel(state, params, cells[at + CHARGED_AT], Math.min(level, full));
    return Math.ceil((before - levelAt(state, params, timeMs)) / windowMs);
  },

  restore(state, params, timeMs, used, untilMs) {
    const { limit, windowMs, capacity } = params;
    const missing = Math.min((untilMs - timeMs) * limit, used * windowMs);
    setLevel(state, params, timeMs, capacity * windowMs - missing);
    // With nothing used, for as long as evicted keys that share a place count.
    if (used === 0) state.cells[state.at] = untilMs;
  },
};
