/**
 * Shared parts of charts. Horizontal positions are percentages and vertical positions are pixels,
 * so that charts fill the width while text keeps its size.
 */

import { axisTimeText, shortCount } from '../format.ts';
import { Html, type Part, shape, tag } from './html.ts';

/** Default height of a plot, in pixels. */
export const PLOT = 168;
/** Space above the plot, for the number at the highest line. */
export const TOP = 16;
/** Space below the plot, for the labels. */
export const AXIS = 22;

export const number = (value: number): string => String(Number(value.toFixed(3)));
export const across = (part: number): string => `${number(100 * part)}%`;

/**
 * Returns the data of an SVG path. It is not escaped or truncated, because it contains no untrusted
 * text.
 */
export const pathData = (steps: readonly string[]): Html => new Html(steps.join(''));

const ROUND = [1, 2, 3, 4, 5, 6, 8, 10];

/** Returns the end of a scale: rounds up to one digit followed by zeros. */
export function niceEnd(most: number): number {
  if (most <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ROUND.map((each) => each * power).find((each) => each >= most)!;
}

export type SeriesClass = 'allowed' | 'denied' | 'shadow' | 'current' | 'expired';

/** Returns a legend with a sample of each series. */
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

/**
 * Returns the positions of the grid lines, as parts of the height. If `end` is odd, there is no
 * line at half the height, because its number would not be whole.
 */
const partsOf = (end: number): readonly number[] => (end % 2 === 0 ? [0.5, 1] : [1]);

/** Draws the horizontal grid lines and the base line. */
export function gridLines(end: number, height: number, top = TOP): Part {
  const line = (css: string, y: number): Html =>
    shape('line', { class: css, x2: '100%', y1: number(y), y2: number(y) });
  const lines = partsOf(end).map((part) => line('grid', top + height * (1 - part)));
  return [lines, line('edge', top + height)];
}

/** Draws the numbers of the grid lines left of the plot, in the margin of the class `chart`. */
export const gridNumbers = (end: number, height: number, top = TOP): Part =>
  partsOf(end).map((part) => {
    const y = number(top + height * (1 - part) + 4);
    return tag('text', { x: -6, y, 'text-anchor': 'end' }, shortCount(part * end));
  });

const DAY_MS = 86_400_000;

/** Possible steps between time labels: round numbers of seconds, minutes, hours and days. */
const STEPS_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 20, 30].map((seconds) => 1000 * seconds),
  ...[1, 2, 5, 10, 15, 20, 30].map((minutes) => 60_000 * minutes),
  ...[1, 2, 3, 4, 6, 8, 12].map((hours) => 3_600_000 * hours),
  ...[1, 2, 7, 14, 28, 91, 182, 364].map((days) => DAY_MS * days),
];

/**
 * Returns the positions of the time labels, as parts of the width. More than 4 labels, or 3 with
 * dates, do not fit on a phone.
 */
function marksOf(startMs: number, lineMs: number): readonly number[] {
  const most = lineMs > DAY_MS ? 3 : 4;
  const placesOf = (stepMs: number): readonly number[] => {
    const firstMs = Math.ceil(startMs / stepMs) * stepMs;
    const count = Math.max(0, Math.floor((startMs + lineMs - firstMs) / stepMs) + 1);
    return Array.from({ length: count }, (_, at) => (firstMs + at * stepMs - startMs) / lineMs);
  };
  const stepMs = STEPS_MS.find((step) => lineMs / step < most + 1 && placesOf(step).length <= most);
  return stepMs === undefined ? [0, 1] : placesOf(stepMs);
}

export const anchorOf = (part: number): 'start' | 'middle' | 'end' =>
  part < 0.05 ? 'start' : part > 0.95 ? 'end' : 'middle';

export const timeMarks = (startMs: number, lineMs: number, y: number): Part =>
  marksOf(startMs, lineMs).map((part) =>
    tag(
      'text',
      { x: across(part), y, 'text-anchor': anchorOf(part) },
      axisTimeText(startMs + part * lineMs, lineMs),
    ),
  );
