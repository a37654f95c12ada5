/**
 * Draws a chart of the number of clients that each limit denies, on a logarithmic scale of limits.
 */

import { countText, shortCount } from '../format.ts';
import { type Html, type Part, shape, tag } from './html.ts';
import {
  AXIS,
  across,
  anchorOf,
  gridLines,
  gridNumbers,
  niceEnd,
  number,
  PLOT,
  pathData,
  TOP,
} from './scale.ts';

export interface CurveMark {
  readonly limit: number;
  readonly name: string;
}

export interface Curve {
  readonly id: string;
  readonly title: string;
  readonly points: readonly { readonly limit: number; readonly clients: number }[];
  readonly marks: readonly CurveMark[];
}

const WIDTH = 1000;
const MARK_LINE = 15;
/** Minimum distance of the labels below the plot, as a share of the width. */
const MARK_APART = 0.12;
/** A mark at a position above this share of the width has its label on the left. */
const RIGHT = 0.6;

export function curveChart({ id, title, points, marks }: Curve): Html {
  const limits = [...points, ...marks].map(({ limit }) => Math.max(1, limit));
  const [least, most] = [Math.min(...limits), Math.max(...limits)];
  const width = Math.log(most) - Math.log(least) || 1;
  const place = (limit: number): number => (Math.log(Math.max(1, limit)) - Math.log(least)) / width;
  const top = TOP + marks.length * MARK_LINE;
  const base = top + PLOT;
  const end = niceEnd(Math.max(1, ...points.map(({ clients }) => clients)));
  return tag(
    'svg',
    { id, class: 'chart', role: 'img', 'aria-label': title, height: base + AXIS },
    gridLines(end, PLOT, top),
    plot(points, place, end, top),
    gridNumbers(end, PLOT, top),
    marks.map((each, row) => curveMark(each, place(each.limit), row, base)),
    limitMarks(least, most, place, base + 16),
  );
}

/** Draws the curve in a nested SVG element that is stretched to the full width. */
function plot(
  points: Curve['points'],
  place: (limit: number) => number,
  end: number,
  top: number,
): Html {
  const steps = points.map(({ limit, clients }, at) => {
    const x = number(WIDTH * place(limit));
    const y = number(PLOT * (1 - clients / end));
    return at === 0 ? `M${x} ${y}` : `H${x}V${y}`;
  });
  const path = [...steps, `H${WIDTH}`];
  const first = number(WIDTH * place(points[0]?.limit ?? 1));
  const size = { y: top, width: '100%', height: PLOT, viewBox: `0 0 ${WIDTH} ${PLOT}` };
  const thin = { 'vector-effect': 'non-scaling-stroke' };
  return tag(
    'svg',
    { ...size, preserveAspectRatio: 'none' },
    shape('path', { class: 'under', d: pathData([...path, `V${PLOT}H${first}Z`]) }),
    shape('path', { class: 'curve', ...thin, d: pathData(path) }),
  );
}

function curveMark({ limit, name }: CurveMark, at: number, row: number, base: number): Part {
  const x = across(at);
  const y = 12 + row * MARK_LINE;
  const side = at > RIGHT ? { x: -5, 'text-anchor': 'end' } : { x: 5, 'text-anchor': 'start' };
  const label = tag('text', { class: 'strong', y, ...side }, `${name} ${countText(limit)}`);
  return [
    shape('line', { class: 'dashed', x1: x, x2: x, y1: y - 9, y2: base }),
    tag('svg', { x, overflow: 'visible' }, label),
  ];
}

/** Draws labels of round limits below the plot. */
function limitMarks(
  least: number,
  most: number,
  place: (limit: number) => number,
  y: number,
): Part {
  const powers = Array.from({ length: 16 }, (_, power) => 10 ** power);
  const round = powers.flatMap((power) => [power, 2 * power, 5 * power]);
  let last = Number.NEGATIVE_INFINITY;
  return round
    .filter((limit) => limit >= least && limit <= most)
    .map((limit) => {
      const at = place(limit);
      if (at - last < MARK_APART) return undefined;
      last = at;
      const where = { x: across(at), y, 'text-anchor': anchorOf(at) };
      return tag('text', where, shortCount(limit));
    });
}
