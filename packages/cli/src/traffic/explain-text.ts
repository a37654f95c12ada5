/** Why a request is answered as it is: the window, what counts in it, and the sum in numbers. */
import { dateText, type Explanation } from 'sluice-traffic';
import { durationText, numberText, type Paint, windowText } from '../output.ts';
import { cut, LABEL_COLUMNS, LINE_COLUMNS, labelled, whenText, wrapped } from './text.ts';
import { windowLines } from './window-text.ts';

const ROOM = LINE_COLUMNS - LABEL_COLUMNS;

/** What counts, and the sum that decides. */
interface Reckoning {
  readonly counts: string;
  readonly sum: string;
  /** What has to happen before the same request fits. */
  readonly frees: string;
}

const trimmed = (value: number): string => String(Number(value.toFixed(3)));

/** A time near another: without the date if that is the same. */
function near(timeMs: number, otherMs: number): string {
  const text = whenText(timeMs);
  const date = `${dateText(otherMs)} `;
  return text.startsWith(date) ? text.slice(date.length) : text;
}

const relation = (fits: boolean): string => (fits ? '<=' : '>');

function ofLog(explained: Explanation): Reckoning {
  const { algorithm, used, cost, limit, allowed, entries, atMs, windowMs, bucketMs } = explained;
  const since = near(atMs - windowMs, atMs);
  const isBuckets = algorithm === 'sliding-buckets';
  const grain = isBuckets ? `, each as of the end of its bucket of ${windowText(bucketMs)}` : '';
  const oldest = entries[0];
  return {
    counts: `${numberText(used)} admitted after ${since}${grain}`,
    sum: `${used} + ${cost} = ${used + cost} ${relation(allowed)} ${limit}`,
    frees:
      oldest === undefined
        ? ''
        : `the oldest, of ${near(oldest.atMs, atMs)}, counts until ` +
          near(oldest.atMs + windowMs, atMs),
  };
}

function ofFixedWindow({ used, cost, limit, allowed, atMs, windowMs }: Explanation): Reckoning {
  const startMs = Math.floor(atMs / windowMs) * windowMs;
  return {
    counts: `${numberText(used)} admitted since ${near(startMs, atMs)}, when the window began`,
    sum: `${used} + ${cost} = ${used + cost} ${relation(allowed)} ${limit}`,
    frees: `the next window begins at ${near(startMs + windowMs, atMs)}`,
  };
}

function ofCounter(explained: Explanation): Reckoning {
  const { cost, limit, allowed, atMs, windowMs, cells } = explained;
  const startMs = Math.floor(atMs / windowMs) * windowMs;
  const leftMs = startMs + windowMs - atMs;
  const [horizonMs = 0, newest = 0, before = 0] = cells;
  const isNewest = horizonMs === startMs + 2 * windowMs;
  const current = isNewest ? newest : 0;
  const previous = isNewest ? before : horizonMs === startMs + windowMs ? newest : 0;
  const estimate = (previous * leftMs) / windowMs + current + cost;
  return {
    counts:
      `${current} since ${near(startMs, atMs)}, and of ${previous} in the window before ` +
      `the part that is still in sight: ${leftMs} of ${windowMs} ms`,
    sum:
      `${previous} x ${leftMs} / ${windowMs} + ${current} + ${cost} = ` +
      `${trimmed(estimate)} ${relation(allowed)} ${limit}`,
    frees:
      current + cost > limit
        ? `this window is full; after ${near(startMs + windowMs, atMs)} less and less of it counts`
        : 'what is in sight of the window before shrinks with every millisecond',
  };
}

function ofTokens(explained: Explanation): Reckoning {
  const { cost, limit, capacity, allowed, atMs, windowMs, cells } = explained;
  const [fullAtMs = 0, level = 0, chargedAtMs = 0] = cells;
  const full = capacity * windowMs;
  const now = fullAtMs === 0 ? full : Math.min(full, level + (atMs - chargedAtMs) * limit);
  const tokens = now / windowMs;
  return {
    counts:
      `${trimmed(tokens)} of ${capacity} tokens are there; ${limit} come back in ` +
      `${windowText(windowMs)}, one every ${trimmed(windowMs / limit)} ms`,
    sum: `${trimmed(tokens)} ${allowed ? '>=' : '<'} ${cost}`,
    frees: `${trimmed(Math.max(0, cost - tokens))} tokens have to come back`,
  };
}

function reckon(explained: Explanation): Reckoning {
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

function answerLines(explained: Explanation, paint: Paint): readonly string[] {
  const { allowed, remaining, retryAfterMs, atMs, wasAsked } = explained;
  const would = wasAsked ? '' : 'would be ';
  const left = `${numberText(remaining)} left${wasAsked ? ' after it' : ''}`;
  if (allowed) return [`${paint('green', `${would}allowed`)}, ${left}`];
  const again = `${durationText(retryAfterMs)}, at ${near(atMs + retryAfterMs, atMs)}`;
  return [`${paint('red', `${would}denied`)}; the same fits in ${again}`];
}

export function explainLines(explained: Explanation, paint: Paint): readonly string[] {
  const { key, policy, algorithm, limit, capacity, windowMs, atMs, allowed } = explained;
  const { counts, sum, frees } = reckon(explained);
  const burst = capacity === limit ? '' : `, up to ${numberText(capacity)} at once`;
  const name = policy === '' ? '' : `${policy}: `;
  const terms = `${numberText(limit)} in ${windowText(windowMs)}${burst}, ${algorithm}`;
  const { resetAfterMs } = explained;
  const reset = resetAfterMs === 0 ? 'now' : `in ${durationText(resetAfterMs)}`;
  const drawn = windowLines(explained, paint);
  const part = (label: string, text: string): readonly string[] =>
    text === '' ? [] : labelled(label, ...wrapped(text, ROOM));
  return [
    ...labelled('key', cut(key, ROOM)),
    ...labelled('when', `${whenText(atMs)} UTC`),
    ...labelled('limit', cut(`${name}${terms}`, ROOM)),
    ...labelled('answer', ...answerLines(explained, paint)),
    ...(drawn.length === 0 ? [] : ['', ...drawn, '']),
    ...part('counts', counts),
    ...part('sum', sum),
    ...(allowed ? [] : part('frees', frees)),
    ...part('as new', reset),
  ];
}
