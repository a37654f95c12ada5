/**
 * token-bucket: a bucket holds up to `burst` tokens (default L) and gains L every W at a constant
 * rate. A call of cost c takes c tokens. A new key has a full bucket.
 *
 * Exact in integers: the state holds tokens*W (the "level"), which grows by L each millisecond up
 * to burst*W. A cost fits when `level >= c*W`.
 *
 * Cells: 0 when the bucket is full again (ms), 1 the level at the newest charge (negative after an
 * overcharge), 2 the time of that charge (ms).
 */
import { countText, durationText, windowText } from '../format.ts';
import { type Algorithm, fitsAfter, type LimitParams, type State } from './algorithm.ts';
import { type AlgorithmInfo, roundedDown, roundedUp, usage } from './description.ts';

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
  redisTag: 'T',
  option: 'burst',

  knownMs: (state) => state.cells[state.at + CHARGED_AT],

  decide(state, params, timeMs, cost, take, result) {
    const { windowMs } = params;
    let level = levelAt(state, params, timeMs);
    const missing = cost * windowMs - level;
    const retryAfterMs = missing <= 0 ? 0 : Math.ceil(missing / params.limit);
    if (take && retryAfterMs === 0) {
      level -= cost * windowMs;
      setLevel(state, params, timeMs, level);
    }
    result.free = Math.floor(level / windowMs);
    result.resetAfterMs = Math.ceil((params.capacity * windowMs - level) / params.limit);
    return retryAfterMs;
  },

  adjust(state, params, timeMs, { cost, atMs }, delta) {
    const { cells, at } = state;
    const { limit, windowMs } = params;
    const full = params.capacity * windowMs;
    const before = levelAt(state, params, timeMs);
    // The bucket refills a charge over time. A refund returns only the part not refilled yet.
    const missing = Math.max(cost * windowMs - (timeMs - atMs) * limit, 0);
    const change = Math.max(delta * windowMs, -missing);
    // Changes the level at the time of the newest charge, so that `knownMs` does not change. The
    // lower bound of the level keeps its difference from a full bucket an exact integer.
    const level = Math.max(cells[at + LEVEL] - change, full - Number.MAX_SAFE_INTEGER);
    setLevel(state, params, cells[at + CHARGED_AT], Math.min(level, full));
    return Math.ceil((before - levelAt(state, params, timeMs)) / windowMs);
  },

  restore(state, params, timeMs, used, untilMs) {
    const { limit, windowMs, capacity } = params;
    const missing = Math.min((untilMs - timeMs) * limit, used * windowMs);
    setLevel(state, params, timeMs, capacity * windowMs - missing);
    // A key that was reset has used nothing, but must not expire before `untilMs`: without its
    // state, it would get the upper bound of the evicted keys, see `PolicyTable.reset`.
    if (used === 0) state.cells[state.at] = untilMs;
  },

  // When the bucket has refilled a charge, its refund has no effect.
  refundableMs: ({ limit, windowMs }, cost) => Math.ceil((cost * windowMs) / limit),

  // Demand beyond a full bucket is served at the refill rate.
  queueEstimate({ limit, capacity, windowMs }, _cost, demand) {
    const cost = Math.min(demand, capacity);
    return fitsAfter(cost, Math.floor(((demand - cost) / limit) * windowMs));
  },
};

export const tokenBucketInfo: AlgorithmInfo = {
  summary: 'Tokens refill at a constant rate; `burst` sets how many can be saved up.',
  shape: 'level',

  describe(state, params, nowMs, cost) {
    const { limit, windowMs, capacity } = params;
    const [fullAtMs = 0, level = 0, chargedAtMs = 0] = state?.cells ?? [];
    const full = capacity * windowMs;
    const isNew = fullAtMs === 0;
    const now = isNew ? full : Math.min(full, level + (nowMs - chargedAtMs) * limit);
    const msPerToken = windowMs / limit;
    const available = roundedDown(now / windowMs);
    const missing = cost * windowMs - now;
    const wait = durationText(Math.ceil((missing > 0 ? missing : full - now) / limit));
    const refill = `${countText(limit)} refill per ${windowText(windowMs)}`;
    let freesText = '';
    if (missing > 0)
      freesText = `${roundedUp(missing / windowMs)} missing tokens refill in ${wait}`;
    else if (now < full) freesText = `the bucket is full in ${wait}`;
    return {
      shape: 'level',
      ...usage(capacity - Math.floor(now / windowMs), params),
      countsFromMs: Number.NEGATIVE_INFINITY,
      tokens: now / windowMs,
      msPerToken,
      charged: isNew ? undefined : { atMs: chargedAtMs, tokens: level / windowMs },
      usedText: `${available} of ${countText(capacity)} tokens available; ${refill}`,
      sumText: `${available} ${missing > 0 ? '<' : '>='} ${cost}`,
      freesText,
    };
  },
};
