/**
 * What all charts share. Across, everything is in percent of the page, down in pixels, so that
 * charts are as wide as there is room while their words keep their size.
 */

import { axisTimeText, shortCount } from '../format.ts';
import { Html, type Part, shape, tag } from './html.ts';

/** How high a plot is, unless told. */
export const PLOT = 168;
/** Above it, for the number of the highest line. */
export const TOP = 16;
/** Below it, for what is written there. */
export const AXIS = 22;

export const number = (value: number): string => String(Number(value.toFixed(3)));
export const across = (part: number): string => `${number(100 * part)}%`;

/** A path is made of numbers alone, and may be long. */
export const pathData = (steps: readonly string[]): Html => new Html(steps.join(''));

const ROUND = [1, 2, 3, 4, 5, 6, 8, 10];

/** The next number that is a digit and zeros: where a scale ends. */
export function niceEnd(most: number): number {
  if (most <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ROUND.map((each) => each * power).find((each) => each >= most)!;
}

export type SeriesClass = 'allowed' | 'denied' | 'shadow' | 'today' | 'gone';

/** Small samples of what is drawn, with its names. */
export const legend = (all: readonly (readonly [SeriesClass, string])[]): Html =>
  tag(
    'ul',
    { class: 'legend' },
    all.map(([css, name]) => {
      const sample =
        css === 'today'
          ? shape('path', { class: css, d: 'M0 5H12' })
          : shape('rect', { class: css, width: 12, height: 10, rx: 2 });
      return tag('li', {}, tag('svg', { 'aria-hidden': 'true' }, sample), name);
    }),
  );

/** Half of a request is nothing that anybody counts. */
const partsOf = (end: number): readonly number[] => (end % 2 === 0 ? [0.5, 1] : [1]);

/** Lines across at half and full height, and one below. */
export function gridLines(end: number, height: number, top = TOP): Part {
  const line = (css: string, y: number): Html =>
    shape('line', { class: css, x2: '100%', y1: number(y), y2: number(y) });
  const lines = partsOf(end).map((part) => line('grid', top + height * (1 - part)));
  return [lines, line('edge', top + height)];
}

/** Their numbers, left of the plot: a picture with them is of the class `chart`. */
export const gridNumbers = (end: number, height: number, top = TOP): Part =>
  partsOf(end).map((part) => {
    const y = number(top + height * (1 - part) + 4);
    return tag('text', { x: -6, y, 'text-anchor': 'end' }, shortCount(part * end));
  });

const DAY_MS = 86_400_000;

/** Where times stand below a plot: few enough for a phone, and fewer where they have dates. */
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
