/**
 * sliding-log: every admission is kept for one window. An admission at t counts while
 * `t > now - W`, and a cost c fits when `cost(counting admissions) + c <= L`. Exact: no window of W
 * ever contains more than L.
 *
 * Admissions in the same millisecond share an entry. A call of cost 100 is one entry, not 100.
 *
 * Cells: 0 the newest entry's time + W (ms), 1 the cost of all entries kept, 2 used by `Entries`.
 */
import { countText, durationText, windowText } from '../format.ts';
import {
  type Algorithm,
  fitsAfter,
  type LimitParams,
  type State,
  twoWindows,
} from './algorithm.ts';
import {
  type AlgorithmInfo,
  type DescribedState,
  type EntriesDescription,
  type LogEntry,
  sumOf,
  usage,
  usedOf,
} from './description.ts';

const TOTAL = 1;

/**
 * Maps admissions to entries. The algorithms with a log differ only in this mapping, and in how
 * they estimate the turn of a waiting call.
 */
interface EntryMapping extends Pick<Algorithm, 'redisTag' | 'option'> {
  /** Default: the estimate for windows, whose entries only expire. */
  readonly queueEstimate?: Algorithm['queueEstimate'];
  /** Returns the stamp of an admission at `timeMs`: the time of the entry that records it. */
  stampOf(params: LimitParams, timeMs: number): number;
  /** Returns the earliest time whose admissions the entry at `stampMs` records. */
  startOf(params: LimitParams, stampMs: number): number;
}

/** A window admits at most `limit`, so whole windows pass before the last part of the demand. */
const estimateInWindows: Algorithm['queueEstimate'] = ({ limit, windowMs }, _cost, demand) => {
  const windows = Math.ceil(demand / limit) - 1;
  return fitsAfter(demand - windows * limit, windows * windowMs);
};

/** Returns the stamp of the newest entry. */
const newestStamp = ({ cells, at }: State, { windowMs }: LimitParams): number =>
  cells[at] - windowMs;

/** Builds an algorithm with a log. It compares the stamps of admissions, not their times. */
export function logAlgorithm(mapping: EntryMapping): Algorithm {
  /** Returns the cost of expired entries, which are kept until the next admission. */
  function expiredCostAt(state: State, params: LimitParams, timeMs: number): number {
    const { cells, at } = state;
    if (cells[at] <= timeMs) return cells[at + TOTAL];
    return state.entries.costOfAge(state, newestStamp(state, params), cells[at] - timeMs);
  }

  /** Records an admission. Returns the new `resetAfterMs`. */
  function charge(
    state: State,
    params: LimitParams,
    timeMs: number,
    cost: number,
    expiredCost: number,
  ): number {
    const { cells, at, entries } = state;
    const knownMs = newestStamp(state, params);
    const stampMs = mapping.stampOf(params, timeMs);
    // The clock may step back to the start of this entry. Keep the entries that count at that time.
    const ageMs = cells[at] - mapping.startOf(params, stampMs);
    if (expiredCost > 0) entries.drop(state, knownMs, ageMs);
    entries.append(state, knownMs, stampMs, cost);
    cells[at] = stampMs + params.windowMs;
    return cells[at] - timeMs;
  }

  /** Returns `resetAfterMs` of a decision without a charge: when the newest entry expires. */
  function resetAfterMs(state: State, params: LimitParams, timeMs: number): number {
    const ageMs = state.entries.ageOfNewest(state, newestStamp(state, params));
    return ageMs < 0 ? 0 : Math.max(state.cells[state.at] - ageMs - timeMs, 0);
  }

  return {
    redisTag: mapping.redisTag,
    option: mapping.option,
    keepsEntries: true,

    knownMs: (state, params) => mapping.startOf(params, newestStamp(state, params)),

    decide(state, params, timeMs, cost, take, result) {
      const { cells, at } = state;
      const expiredCost = expiredCostAt(state, params, timeMs);
      result.free = params.limit - (cells[at + TOTAL] - expiredCost);
      if (cost > result.free) {
        result.resetAfterMs = resetAfterMs(state, params, timeMs);
        // The cost, counted from the oldest entry kept, that must expire before `cost` fits. This
        // order of additions keeps every sum an exact integer.
        const mustExpire = cells[at + TOTAL] + (cost - params.limit);
        const ageMs = state.entries.ageAtCost(state, newestStamp(state, params), mustExpire);
        return cells[at] - ageMs - timeMs;
      }
      if (take) {
        result.free -= cost;
        result.resetAfterMs = charge(state, params, timeMs, cost, expiredCost);
      } else result.resetAfterMs = resetAfterMs(state, params, timeMs);
      return 0;
    },

    adjust(state, params, timeMs, { atMs }, delta) {
      const stampMs = mapping.stampOf(params, atMs);
      if (stampMs + params.windowMs <= timeMs) return 0;
      return state.entries.adjust(state, newestStamp(state, params), stampMs, delta);
    },

    restore(state, { limit, windowMs }, _timeMs, used, untilMs) {
      const stampMs = untilMs - windowMs;
      // Adds one entry at the time of the evicted key's newest entry. Caps its cost at the limit.
      const cost = Math.min(used, limit);
      if (cost > 0) state.entries.append(state, stampMs, stampMs, cost);
      state.cells[state.at] = untilMs;
    },

    refundableMs: twoWindows,

    queueEstimate: mapping.queueEstimate ?? estimateInWindows,
  };
}

export const slidingLog: Algorithm = logAlgorithm({
  redisTag: 'L',
  stampOf: (_params, timeMs) => timeMs,
  startOf: (_params, stampMs) => stampMs,
});

/** Returns the oldest entries, at least one, that must expire before `excess` is freed. */
function expiringFirst(entries: readonly LogEntry[], excess: number): readonly LogEntry[] {
  let freed = 0;
  const last = entries.findIndex(({ cost }) => {
    freed += cost;
    return freed >= excess;
  });
  return entries.slice(0, last + 1);
}

function expiryText(expiring: readonly LogEntry[], edgeMs: number): string {
  if (expiring.length === 0) return '';
  const expiresIn = durationText(expiring[expiring.length - 1].atMs - edgeMs);
  const cost = countText(expiring.reduce((sum, each) => sum + each.cost, 0));
  if (expiring.length === 1) return `oldest entry, of cost ${cost}, expires in ${expiresIn}`;
  return `oldest ${countText(expiring.length)} entries, of cost ${cost}, expire in ${expiresIn}`;
}

/** Describes a log whose entries each cover `entrySpanMs`. */
export function describeLog(
  state: DescribedState | undefined,
  params: LimitParams,
  nowMs: number,
  cost: number,
  entrySpanMs = 1,
): EntriesDescription {
  const { windowMs, limit } = params;
  const edgeMs = nowMs - windowMs;
  const listed = state?.entries ?? [];
  const entries = listed.filter(({ atMs }) => atMs > edgeMs);
  const expired = listed.slice(0, listed.length - entries.length);
  const used = expired.reduce((sum, each) => sum - each.cost, state?.used ?? 0);
  const isComplete = (state?.entryCount ?? listed.length) === listed.length;
  const span = entrySpanMs === 1 ? '' : `, in buckets of ${windowText(entrySpanMs)}`;
  const expiring = isComplete ? expiringFirst(entries, used + cost - limit) : [];
  return {
    shape: 'entries',
    ...usage(used, params),
    countsFromMs: Math.floor((edgeMs + 1) / entrySpanMs) * entrySpanMs,
    ...{ entries, entrySpanMs },
    usedText: `${usedOf(used, params)} in the last ${windowText(windowMs)}${span}`,
    sumText: sumOf(used, cost, params),
    freesText: expiryText(expiring, edgeMs),
  };
}

export const slidingLogInfo: AlgorithmInfo = {
  summary: 'Exact: every admission is kept for one window.',
  shape: 'entries',
  describe: describeLog,
};
