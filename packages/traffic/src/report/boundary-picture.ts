/**
 * Two bursts around a boundary of fixed windows, as one algorithm decides them: what passed and
 * what was denied, and how much of it lies within one window.
 */

import { count, times } from './format.ts';
import { type Html, type Part, shape, tag } from './html.ts';
import { across, number } from './scale.ts';

export interface BoundaryRun {
  readonly algorithm: string;
  readonly limit: number;
  readonly windowMs: number;
  /** Before the boundary and after. */
  readonly sent: readonly [number, number];
  readonly passed: readonly [number, number];
  /** When the bursts were decided, since the boundary. */
  readonly atMs: readonly [number | undefined, number | undefined];
  /** What the first one that was denied was told. */
  readonly retryAfterMs?: number | undefined;
  /** Whether it passed when it came back then. */
  readonly cameBack?: boolean | undefined;
}

const TOP = 22;
const PLOT = 96;
const BASE = TOP + PLOT;
const HEIGHT = BASE + 44;
const COLUMN = 26;

export const passedOf = ({ passed }: BoundaryRun): number => passed[0] + passed[1];

function burst(run: BoundaryRun, side: 0 | 1, place: (sinceMs: number) => number): Part {
  const sinceMs = run.atMs[side];
  if (sinceMs === undefined) return undefined;
  const denied = run.sent[side] - run.passed[side];
  const tall = (amount: number): number => (amount / run.limit) * PLOT;
  const bar = (css: string, from: number, amount: number): Part =>
    amount > 0 &&
    shape('rect', {
      class: css,
      x: -COLUMN / 2,
      y: number(BASE - tall(from + amount)),
      width: COLUMN,
      height: number(tall(amount)),
    });
  const told = [
    ...(run.passed[side] > 0 ? [`${count(run.passed[side])} passed`] : []),
    ...(denied > 0 ? [`${count(denied)} denied`] : []),
  ];
  const text = side === 0 ? { x: -COLUMN, 'text-anchor': 'end' } : { x: COLUMN };
  return tag(
    'svg',
    { x: across(place(sinceMs)), overflow: 'visible' },
    bar('allowed', 0, run.passed[side]),
    bar('denied', run.passed[side], denied),
    told.map((line, at) =>
      tag('text', { class: 'strong', y: BASE - PLOT / 2 + 16 * at, ...text }, line),
    ),
  );
}

/** The stretch between the two bursts, which is shorter than a window, and what passed in it. */
function bracket(run: BoundaryRun, place: (sinceMs: number) => number): Part {
  const [first, last] = run.atMs;
  if (first === undefined || last === undefined) return undefined;
  const passed = passedOf(run);
  const css = passed > run.limit ? 'bad' : 'good';
  const multiple = passed / run.limit;
  const verdict = multiple > 1 ? `${times(multiple)} the limit` : 'never over the limit';
  const y = BASE + 12;
  const [x1, x2] = [across(place(first)), across(place(last))];
  return [
    shape('line', { class: 'edge', x1, x2, y1: y, y2: y }),
    [x1, x2].map((x) => shape('line', { class: 'edge', x1: x, x2: x, y1: y - 5, y2: y + 5 })),
    tag(
      'text',
      {
        class: css,
        x: across((place(first) + place(last)) / 2),
        y: y + 20,
        'text-anchor': 'middle',
      },
      `${count(passed)} in ${count(Math.round(last - first))} ms: ${verdict}`,
    ),
  ];
}

export function boundaryPicture(run: BoundaryRun): Html {
  const shownMs = run.windowMs / 2;
  const place = (sinceMs: number): number =>
    Math.min(1, Math.max(0, 0.5 + sinceMs / (2 * shownMs)));
  const [before, after] = run.passed;
  const title = `${run.algorithm}: ${before} passed before the boundary, ${after} after`;
  return tag(
    'svg',
    { id: `boundary-${run.algorithm}`, role: 'img', 'aria-label': title, height: HEIGHT },
    shape('line', { class: 'edge', x2: '100%', y1: BASE, y2: BASE }),
    shape('line', { class: 'dashed', x1: '50%', x2: '50%', y1: TOP - 4, y2: BASE }),
    tag('text', { x: '50%', y: 12, 'text-anchor': 'middle' }, 'a new window of the clock begins'),
    burst(run, 0, place),
    burst(run, 1, place),
    bracket(run, place),
  );
}
