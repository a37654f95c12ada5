/**
 * Shared parts of charts. Horizontal positions are percentages and vertical ones pixels, so that
 * charts fill the width while text keeps its size.
 */

import { axisTimeText, shortCount } from '../format.ts';
import { Html, type Part, shape, tag } from './html.ts';

/** Default height of a plot. */
export const PLOT = 168;
/** Space above it, for the number of the highest line. */
export const TOP = 16;
/** Space below it, for the labels. */
export const AXIS = 22;

export const number = (value: number): string => String(Number(value.toFixed(3)));
export const across = (part: number): string => `${number(100 * part)}%`;

/** Not escaped or cut: it consists of numbers. */
export const pathData = (steps: readonly string[]): Html => new Html(steps.join(''));

const ROUND = [1, 2, 3, 4, 5, 6, 8, 10];

/** Rounds up to a digit followed by zeros, for the end of a scale. */
export function niceEnd(most: number): number {
  if (most <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ROUND.map((each) => each * power).find((each) => each >= most)!;
}

export type SeriesClass = 'allowed' | 'denied' | 'shadow' | 'current' | 'gone';

/** Legend with a sample of each series. */
export const legend = (all: readonly (readonly [SeriesClass, string])[]): Html =>
  tag(
    'ul',
    { class: 'legend' },
    all.map(([css, name]) => {
      const sample =
        css === 'current'
          ? shape('path', { class: css, d: 'M0 5H12' })
          : shape('rect', { class: css, width: 12, height: 10, rx: 2 });
      return tag('li', {}, tag('svg', { 'aria-hidden': 'true' }, sample), name);
    }),
  );

/** Grid lines; none at half of an odd number. */
const partsOf = (end: number): readonly number[] => (end % 2 === 0 ? [0.5, 1] : [1]);

/** Horizontal lines at half and full height, and the base line. */
export function gridLines(end: number, height: number, top = TOP): Part {
  const line = (css: string, y: number): Html =>
    shape('line', { class: css, x2: '100%', y1: number(y), y2: number(y) });
  const lines = partsOf(end).map((part) => line('grid', top + height * (1 - part)));
  return [lines, line('edge', top + height)];
}

/** The numbers left of the plot; the class `chart` reserves the space. */
export const gridNumbers = (end: number, height: number, top = TOP): Part =>
  partsOf(end).map((part) => {
    const y = number(top + height * (1 - part) + 4);
    return tag('text', { x: -6, y, 'text-anchor': 'end' }, shortCount(part * end));
  });

const DAY_MS = 86_400_000;

/** Positions of the time labels: few enough for a phone, fewer if they have dates. */
const marksOf = (lineMs: number): readonly number[] =>
  lineMs > DAY_MS ? [0, 1 / 2, 1] : [0, 1 / 3, 2 / 3, 1];

export const anchorOf = (part: number): 'start' | 'middle' | 'end' =>
  part < 0.05 ? 'start' : part > 0.95 ? 'end' : 'middle';

export const timeMarks = (startMs: number, lineMs: number, y: number): Part =>
  marksOf(lineMs).map((part) =>
    tag(
      'text',
      { x: across(part), y, 'text-anchor': anchorOf(part) },
      axisTimeText(startMs + part * lineMs, lineMs),
    ),
  );
