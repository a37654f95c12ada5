/** Draws the window of an algorithm: the admitted and the denied requests over time. */

import { describeExplanation, type Explanation } from 'sluice-traffic';
import { countText, windowText } from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import { barsText, LABEL_COLUMNS, LINE_COLUMNS, labelled } from './text.ts';

const COLUMNS = LINE_COLUMNS - LABEL_COLUMNS;

/** A time range to draw. */
interface View {
  /** Start of the range, exclusive. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Number of clock-aligned windows in the range; 0 for a sliding window. */
  readonly windows: number;
}

/** Returns the time range to draw: a sliding window, or one or two clock-aligned windows. */
function viewOf(explained: Explanation): View {
  const { atMs, windowMs } = explained;
  const description = describeExplanation(explained);
  if (description.shape !== 'windows') return { fromMs: atMs - windowMs, toMs: atMs, windows: 0 };
  const [{ startMs }] = description.windows;
  const windows = description.windows.length;
  return { fromMs: startMs - 1, toMs: startMs + windows * windowMs - 1, windows };
}

interface TimedCount {
  readonly timeMs: number;
  readonly count: number;
}

/** Sums the counts in each column. */
function columnsOf({ fromMs, toMs }: View, all: readonly TimedCount[]): readonly number[] {
  const counts = new Array<number>(COLUMNS).fill(0);
  for (const { timeMs, count } of all) {
    if (timeMs <= fromMs || timeMs > toMs) continue;
    const at = Math.ceil(((timeMs - fromMs) / (toMs - fromMs)) * COLUMNS) - 1;
    counts[at] += count;
  }
  return counts;
}

export function windowLines(explained: Explanation, paint: Paint): readonly string[] {
  const view = viewOf(explained);
  const { requests, entries, entryCount = 0, atMs, windowMs, hasCosts } = explained;
  const timed = (allowed: boolean): readonly TimedCount[] =>
    requests
      .filter((each) => each.allowed === allowed)
      .map(({ timeMs, cost = 1 }) => ({ timeMs, count: cost }));
  const known = entries.map((each) => ({ timeMs: Math.min(each.atMs, atMs), count: each.cost }));
  const admitted = columnsOf(view, requests.length > 0 ? timed(true) : known);
  const denied = columnsOf(view, timed(false));
  if (requests.length + known.length === 0) return [];
  const most = Math.max(...admitted, ...denied);
  return [
    ...labelled('admitted', paint('green', barsText(admitted, COLUMNS, most))),
    ...(requests.length === 0
      ? []
      : labelled('denied', paint('red', barsText(denied, COLUMNS, most)))),
    ...(hasCosts ? labelled('', paint('dim', 'the height of a column is its cost')) : []),
    ...labelled('', paint('dim', axisOf(view, atMs, windowMs))),
    ...(entryCount > entries.length
      ? labelled(
          '',
          paint('dim', `${countText(entries.length)} of ${countText(entryCount)} entries shown`),
        )
      : []),
  ];
}

/**
 * Returns `1 min ago ... now` for a sliding window, otherwise marks for the current time and the
 * start of each clock-aligned window.
 */
function axisOf(view: View, atMs: number, windowMs: number): string {
  const now = Math.ceil(((atMs - view.fromMs) / (view.toMs - view.fromMs)) * COLUMNS) - 1;
  if (now === COLUMNS - 1) return `${`${windowText(windowMs)} ago`.padEnd(COLUMNS - 3)}now`;
  const cells = new Array<string>(COLUMNS).fill(' ');
  cells[0] = '|';
  if (view.windows === 2) cells[COLUMNS / 2] = '|';
  cells[now] = '^';
  const label = ' now';
  const start = now + label.length < COLUMNS ? now + 1 : now - label.length;
  const text = start > now ? label : 'now ';
  for (const [at, letter] of [...text].entries()) cells[start + at] = letter;
  return cells.join('').trimEnd();
}
