/** Why a request is answered as it is, in words and numbers: what counts, and the sum. */

import { countText, timeTextBeside, windowText } from '../format.ts';
import type { Explanation } from '../replay/explain.ts';

export interface StateExplanation {
  /** What counts. */
  readonly counts: string;
  /** The sum that decides. */
  readonly sum: string;
  /** What has to happen before the same request fits. */
  readonly frees: string;
}

/** To three places, rounded so that what is too much, or too little, never looks like enough. */
const upTo = (part: number, whole: number): number => Math.ceil((1000 * part) / whole) / 1000;
const downTo = (part: number, whole: number): number => Math.floor((1000 * part) / whole) / 1000;

/** Of numbers that have three places, without the noise of adding them. */
const rounded = (value: number): number => Number(value.toFixed(3));

const relation = (fits: boolean): string => (fits ? '<=' : '>');

/** When the window of the clock began that a time is in. */
export const windowStartMs = ({ atMs, windowMs }: Explanation): number =>
  Math.floor(atMs / windowMs) * windowMs;

/** The two windows that a sliding-counter has a number for, and how much of the first counts. */
export function counterOf(explained: Explanation): {
  readonly current: number;
  readonly previous: number;
  /** How much of the previous window is still in sight. */
  readonly leftMs: number;
  /** What that makes, to three places. */
  readonly estimate: number;
} {
  const { atMs, windowMs, cells } = explained;
  const startMs = windowStartMs(explained);
  const [horizonMs = 0, newest = 0, before = 0] = cells;
  const isNewest = horizonMs === startMs + 2 * windowMs;
  const current = isNewest ? newest : 0;
  const previous = isNewest ? before : horizonMs === startMs + windowMs ? newest : 0;
  const leftMs = startMs + windowMs - atMs;
  const estimate = upTo(previous * leftMs + current * windowMs, windowMs);
  return { current, previous, leftMs, estimate };
}

/** How many tokens there are, to three places. */
export function tokensOf({ limit, capacity, atMs, windowMs, cells }: Explanation): number {
  const [fullAtMs = 0, level = 0, chargedAtMs = 0] = cells;
  if (fullAtMs === 0) return capacity;
  return downTo(Math.min(capacity * windowMs, level + (atMs - chargedAtMs) * limit), windowMs);
}

/** Where requests have costs, what counts is these rather than how many there were. */
const amount = (counted: number, { hasCosts }: Explanation): string =>
  hasCosts ? `a cost of ${countText(counted)}` : countText(counted);

/** The entries that have to leave before the same fits: with a cost of 1 that is the oldest. */
function leaving({ entries, used, cost, limit }: Explanation): Explanation['entries'] {
  let excess = used + cost - limit;
  const end = entries.findIndex((each) => {
    excess -= each.cost;
    return excess <= 0;
  });
  return entries.slice(0, end + 1);
}

function freesOf(explained: Explanation): string {
  const { entries, atMs, windowMs, hasCosts } = explained;
  const first = leaving(explained);
  const last = (hasCosts ? first : entries.slice(0, 1)).at(-1);
  if (last === undefined) return '';
  const at = timeTextBeside(last.atMs, atMs);
  const until = `of ${at}, counts until ${timeTextBeside(last.atMs + windowMs, atMs)}`;
  if (first.length < 2 || !hasCosts) return `the oldest, ${until}`;
  const sum = first.reduce((all, each) => all + each.cost, 0);
  const oldest = `the oldest ${countText(first.length)}, a cost of ${countText(sum)}`;
  return `${oldest}; the last of them, ${until}`;
}

function ofLog(explained: Explanation): StateExplanation {
  const { algorithm, used, cost, limit, allowed, atMs, windowMs, bucketMs } = explained;
  const since = timeTextBeside(atMs - windowMs, atMs);
  const isBuckets = algorithm === 'sliding-buckets';
  const grain = isBuckets ? `, each as of the end of its bucket of ${windowText(bucketMs)}` : '';
  return {
    counts: `${amount(used, explained)} admitted after ${since}${grain}`,
    sum: `${used} + ${cost} = ${used + cost} ${relation(allowed)} ${limit}`,
    frees: freesOf(explained),
  };
}

function ofFixedWindow(explained: Explanation): StateExplanation {
  const { used, cost, limit, allowed, atMs, windowMs } = explained;
  const startMs = windowStartMs(explained);
  const since = `${timeTextBeside(startMs, atMs)}, when the window began`;
  return {
    counts: `${amount(used, explained)} admitted since ${since}`,
    sum: `${used} + ${cost} = ${used + cost} ${relation(allowed)} ${limit}`,
    frees: `the next window begins at ${timeTextBeside(startMs + windowMs, atMs)}`,
  };
}

function ofCounter(explained: Explanation): StateExplanation {
  const { cost, limit, allowed, atMs, windowMs } = explained;
  const startMs = windowStartMs(explained);
  const { current, previous, leftMs, estimate } = counterOf(explained);
  const endText = timeTextBeside(startMs + windowMs, atMs);
  return {
    counts:
      `${amount(current, explained)} since ${timeTextBeside(startMs, atMs)}, and of ` +
      `${amount(previous, explained)} in the window ` +
      `before the part that is still in sight: ${countText(leftMs)} of ${countText(windowMs)} ms`,
    sum:
      `${previous} x ${leftMs} / ${windowMs} + ${current} + ${cost} = ` +
      `${rounded(estimate + cost)} ${relation(allowed)} ${limit}`,
    frees:
      current + cost > limit
        ? `this window is full; after ${endText} less and less of it counts`
        : 'what is in sight of the window before shrinks with every millisecond',
  };
}

function ofTokens(explained: Explanation): StateExplanation {
  const { cost, limit, capacity, allowed, windowMs } = explained;
  const tokens = tokensOf(explained);
  const missing = rounded(Math.max(0, cost - tokens));
  return {
    counts:
      `${tokens} of ${countText(capacity)} tokens are there; ${countText(limit)} come back in ` +
      `${windowText(windowMs)}, one every ${upTo(windowMs, limit)} ms`,
    sum: `${tokens} ${allowed ? '>=' : '<'} ${cost}`,
    frees: `${missing} ${missing === 1 ? 'token has' : 'tokens have'} to come back`,
  };
}

export function explainState(explained: Explanation): StateExplanation {
  const { tooDear, cost, capacity } = explained;
  const reckoning = reckoned(explained);
  if (!tooDear) return reckoning;
  const frees = `nothing: the cost ${countText(cost)} exceeds the capacity ${countText(capacity)}`;
  return { ...reckoning, frees };
}

function reckoned(explained: Explanation): StateExplanation {
  switch (explained.algorithm) {
    case 'fixed-window':
      return ofFixedWindow(explained);
    case 'sliding-counter':
      return ofCounter(explained);
    case 'token-bucket':
      return ofTokens(explained);
    default:
      return ofLog(explained);
  }
}
