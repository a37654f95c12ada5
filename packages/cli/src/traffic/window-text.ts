/** The time that an algorithm looks at, drawn: when requests came, and which of them passed. */

import type { Explanation } from 'sluice-traffic';
import { countText, windowText } from 'sluice-traffic/format';
import type { Paint } from '../output.ts';
import { barsText, LABEL_COLUMNS, LINE_COLUMNS, labelled } from './text.ts';

const COLUMNS = LINE_COLUMNS - LABEL_COLUMNS;

export interface View {
  /** The first that counts begins right after this. */
  readonly fromMs: number;
  readonly toMs: number;
}

/** What the algorithm looks at: a window that slides, or one or two of the clock's. */
export function viewOf({ algorithm, atMs, windowMs }: Explanation): View {
  const startMs = Math.floor(atMs / windowMs) * windowMs;
  switch (algorithm) {
    case 'fixed-window':
      return { fromMs: startMs - 1, toMs: startMs + windowMs - 1 };
    case 'sliding-counter':
      return { fromMs: startMs - windowMs - 1, toMs: startMs + windowMs - 1 };
    default:
      return { fromMs: atMs - windowMs, toMs: atMs };
  }
}

interface Timed {
  readonly timeMs: number;
  readonly count: number;
}

/** How much came in each column. */
function columnsOf({ fromMs, toMs }: View, all: readonly Timed[]): readonly number[] {
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
  const { requests, entries, entryCount = 0, atMs, algorithm, windowMs, hasCosts } = explained;
  const timed = (allowed: boolean): readonly Timed[] =>
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
    ...(hasCosts ? labelled('', paint('dim', 'a column is as high as the cost in it')) : []),
    ...labelled('', paint('dim', axisOf(view, atMs, algorithm === 'sliding-counter', windowMs))),
    ...(entryCount > entries.length
      ? labelled(
          '',
          paint('dim', `${countText(entries.length)} of ${countText(entryCount)} entries shown`),
        )
      : []),
  ];
}

/** `1 min ago ... now`, or with a mark where now is, and another where a window begins. */
function axisOf(view: View, atMs: number, hasTwo: boolean, windowMs: number): string {
  const now = Math.ceil(((atMs - view.fromMs) / (view.toMs - view.fromMs)) * COLUMNS) - 1;
  if (now === COLUMNS - 1) return `${`${windowText(windowMs)} ago`.padEnd(COLUMNS - 3)}now`;
  const cells = new Array<string>(COLUMNS).fill(' ');
  cells[0] = '|';
  if (hasTwo) cells[COLUMNS / 2] = '|';
  cells[now] = '^';
  const label = ' now';
  const start = now + label.length < COLUMNS ? now + 1 : now - label.length;
  const text = start > now ? label : 'now ';
  for (const [at, letter] of [...text].entries()) cells[start + at] = letter;
  return cells.join('').trimEnd();
}
