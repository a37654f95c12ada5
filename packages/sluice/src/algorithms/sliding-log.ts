/**
 * sliding-log: every admission is kept for a window. One at t counts while `t > now - W`, and a
 * cost c fits when `cost(counting) + c <= L`. Exact: no window of W ever holds more than L.
 *
 * Admissions in the same millisecond are one entry; a call of cost 100 is one entry, not 100.
 *
 * Cells: 0 the newest entry's time + W (ms), 1 the cost of all entries kept, 2 the entries' own.
 */
import type { Algorithm, LimitParams, State } from './algorithm.ts';

const TOTAL = 1;

/** What sets one log apart from another: the time under which an admission is written down. */
interface Grain {
  /** The time of the entry that an admission at `timeMs` goes into. */
  stampOf(params: LimitParams, timeMs: number): number;
  /** The earliest time that goes into the entry stamped `stampMs`. */
  startOf(params: LimitParams, stampMs: number): number;
}

/** Builds a log of that grain. All times in it are compared as stamps. */
export function logAlgorithm(grain: Grain): Algorithm {
  const stamp = ({ cells, at }: State, params: LimitParams): number => cells[at] - params.windowMs;

  /** The cost that no longer counts but has not been dropped yet: that waits for a write. */
  function expired(state: State, params: LimitParams, timeMs: number): number {
    const { cells, at } = state;
    if (cells[at] <= timeMs) return cells[at + TOTAL];
    return state.entries.costOfAge(state, stamp(state, params), cells[at] - timeMs);
  }

  /** Writes an admission down; answers after how long the key is as good as new. */
  function charge(
    state: State,
    params: LimitParams,
    timeMs: number,
    cost: number,
    gone: number,
  ): number {
    const { cells, at, entries } = state;
    const knownMs = stamp(state, params);
    const stampMs = grain.stampOf(params, timeMs);
    // The clock may still step back to where this entry starts, so what counts there is kept.
    const ageMs = cells[at] - grain.startOf(params, stampMs);
    if (gone > 0) entries.drop(state, knownMs, ageMs);
    entries.append(state, knownMs, stampMs, cost);
    cells[at] = stampMs + params.windowMs;
    return cells[at] - timeMs;
  }

  /** The same when nothing is written: the newest entry may have been refunded meanwhile. */
  function resetAfterMs(state: State, params: LimitParams, timeMs: number): number {
    const ageMs = state.entries.ageOfNewest(state, stamp(state, params));
    return ageMs < 0 ? 0 : Math.max(state.cells[state.at] - ageMs - timeMs, 0);
  }

  return {
    keepsEntries: true,

    knownMs: (state, params) => grain.startOf(params, stamp(state, params)),

    decide(state, params, timeMs, cost, take, answer) {
      const { cells, at } = state;
      const gone = expired(state, params, timeMs);
      answer.free = params.limit - (cells[at + TOTAL] - gone);
      if (cost > answer.free) {
        answer.resetAfterMs = resetAfterMs(state, params, timeMs);
        // Counted from the oldest entry kept, this much has to expire before the cost fits. In this
        // order it stays an exact integer: as a sum it could be more than there is.
        const mustExpire = cells[at + TOTAL] + (cost - params.limit);
        const ageMs = state.entries.ageAtCost(state, stamp(state, params), mustExpire);
        return cells[at] - ageMs - timeMs;
      }
      if (take) {
        answer.free -= cost;
        answer.resetAfterMs = charge(state, params, timeMs, cost, gone);
      } else answer.resetAfterMs = resetAfterMs(state, params, timeMs);
      return 0;
    },

    adjust(state, params, timeMs, { atMs }, delta) {
      const stampMs = grain.stampOf(params, atMs);
      if (stampMs + params.windowMs <= timeMs) return 0;
      return state.entries.adjust(state, stamp(state, params), stampMs, delta);
    },

    restore(state, { limit, windowMs }, _timeMs, used, untilMs) {
      const { cells, at, entries } = state;
      const stampMs = untilMs - windowMs;
      // All of it as old as its newest entry, and a debt as a limit used up: neither ends earlier.
      const cost = Math.min(used, limit);
      if (cost > 0) entries.append(state, stampMs, stampMs, cost);
      cells[at] = untilMs;
    },
  };
}

export const slidingLog: Algorithm = logAlgorithm({
  stampOf: (_params, timeMs) => timeMs,
  startOf: (_params, stampMs) => stampMs,
});
