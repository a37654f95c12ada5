/**
 * sliding-log: every admission is kept for a window. One at t counts while `t > now - W`, and a
 * cost c fits when `cost(counting) + c <= L`. Exact: no window of W ever holds more than L.
 *
 * Admissions in the same millisecond are one entry; a call of cost 100 is one entry, not 100.
 *
 * Cells: 0 the newest entry's time + W (ms), 1 the cost of all entries kept, 2 the entries' own.
 */
import type { Algorithm, AlgorithmName, State, Terms } from './algorithm.ts';

const TOTAL = 1;

/** What sets one log apart from another: the time under which an admission is written down. */
interface Grain {
  readonly name: AlgorithmName;
  /** The time of the entry that an admission at `timeMs` goes into. */
  stampOf(terms: Terms, timeMs: number): number;
  /** The earliest time that goes into the entry stamped `stampMs`. */
  startOf(terms: Terms, stampMs: number): number;
}

/** Builds a log of that grain. All times in it are compared as stamps. */
export function logAlgorithm(grain: Grain): Algorithm {
  const stamp = ({ cells, at }: State, terms: Terms): number => cells[at] - terms.windowMs;

  /** The cost that no longer counts but has not been dropped yet: that waits for a write. */
  function expired(state: State, terms: Terms, timeMs: number): number {
    const { cells, at } = state;
    if (cells[at] <= timeMs) return cells[at + TOTAL];
    return state.entries.costOfAge(state, stamp(state, terms), cells[at] - timeMs);
  }

  return {
    name: grain.name,
    keepsEntries: true,

    knownMs: (state, terms) => grain.startOf(terms, stamp(state, terms)),

    decide(state, terms, timeMs, cost, take, answer) {
      const { cells, at, entries } = state;
      const gone = expired(state, terms, timeMs);
      let counting = cells[at + TOTAL] - gone;
      let retryAfterMs = 0;
      if (counting + cost > terms.limit) {
        // Counted from the oldest entry kept, this much has to expire before the cost fits.
        const mustExpire = cells[at + TOTAL] + cost - terms.limit;
        const ageMs = entries.ageAtCost(state, stamp(state, terms), mustExpire);
        retryAfterMs = cells[at] - ageMs - timeMs;
      } else if (take) {
        const newestMs = stamp(state, terms);
        if (gone > 0) entries.drop(state, newestMs, cells[at] - timeMs);
        const stampMs = grain.stampOf(terms, timeMs);
        entries.append(state, newestMs, stampMs, cost);
        counting += cost;
        cells[at + TOTAL] = counting;
        cells[at] = stampMs + terms.windowMs;
      }
      answer.free = terms.limit - counting;
      answer.resetAfterMs = Math.max(cells[at] - timeMs, 0);
      return retryAfterMs;
    },

    adjust(state, terms, timeMs, chargedAtMs, delta) {
      const { cells, at, entries } = state;
      const stampMs = grain.stampOf(terms, chargedAtMs);
      if (stampMs + terms.windowMs <= timeMs) return 0;
      const change = entries.adjust(state, stamp(state, terms), stampMs, delta);
      cells[at + TOTAL] += change;
      // Without its newest entries the key is as good as new earlier.
      const ageMs = entries.trim(state, stamp(state, terms));
      cells[at] = ageMs < 0 ? 0 : cells[at] - ageMs;
      return change;
    },
  };
}

export const slidingLog: Algorithm = logAlgorithm({
  name: 'sliding-log',
  stampOf: (_terms, timeMs) => timeMs,
  startOf: (_terms, stampMs) => stampMs,
});
