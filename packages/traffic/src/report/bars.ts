/** Draws bars in table cells, and bar charts of multiples of a limit. */

import { percentText } from '../format.ts';
import { type Html, type Part, shape, tag } from './html.ts';
import { AXIS, across, type SeriesClass, TOP } from './scale.ts';

/**
 * Draws a bar for `value`; a bar for `most` has the full width. The part of the bar for `marked`
 * has the class `css`, and the rest has the class `allowed`.
 */
export function cellBar(
  value: number,
  most: number,
  marked = value,
  css: SeriesClass = 'denied',
): Html {
  const part = (amount: number): string => across(most === 0 ? 0 : amount / most);
  const place = { y: 4, height: 12 };
  return tag(
    'svg',
    { height: 20, role: 'img', 'aria-label': percentText(marked, value) },
    shape('rect', { class: 'track', width: '100%', height: 1, y: 15.5 }),
    marked < value &&
      shape('rect', { class: 'allowed', x: part(marked), width: part(value - marked), ...place }),
    marked > 0 && shape('rect', { class: css, width: part(marked), ...place }),
  );
}

export interface MultipleBar {
  readonly name: string;
  readonly css: SeriesClass;
  readonly multiple: number;
  readonly text: string;
}

export interface BarGroup {
  readonly name: string;
  readonly bars: readonly MultipleBar[];
}

const ROW = 50;
const BAR = 12;
/** Part of the width for the longest bar. The rest is for its label. */
const LONGEST = 0.7;

/** Draws a chart with bars for multiples of a limit, and a line at the limit. */
export function multipleChart(id: string, title: string, groups: readonly BarGroup[]): Html {
  const all = groups.flatMap(({ bars }) => bars.map(({ multiple }) => multiple));
  const end = Math.max(2, Math.ceil(Math.max(...all)));
  const place = (multiple: number): string => across((LONGEST * multiple) / end);
  const bottom = TOP + groups.length * ROW - 10;
  const marks = Array.from({ length: end + 1 }, (_, multiple) => {
    const x = place(multiple);
    const css = multiple === 1 ? 'dashed' : 'grid';
    const anchor = multiple === 0 ? 'start' : 'middle';
    const name = multiple === 1 ? 'limit' : `${multiple}×`;
    return [
      shape('line', { class: css, x1: x, x2: x, y1: TOP, y2: bottom }),
      tag('text', { x, y: bottom + 16, 'text-anchor': anchor }, name),
    ];
  });
  return tag(
    'svg',
    { id, role: 'img', 'aria-label': title, height: bottom + AXIS },
    marks,
    groups.map((group, at) => groupRow(group, TOP + at * ROW, place)),
  );
}

function groupRow(
  { name, bars }: BarGroup,
  top: number,
  place: (multiple: number) => string,
): Part {
  const tooltip = bars.map((bar) => `${bar.name} ${bar.text}`).join(', ');
  const drawn = bars.map(({ css, multiple, text }, at) => {
    const y = top + at * (BAR + 2);
    const end = place(multiple);
    const label = tag('text', { class: 'strong', x: 6, y: BAR - 2 }, text);
    return [
      shape('rect', { class: css, y, width: end, height: BAR, rx: 2 }),
      tag('svg', { x: end, y, overflow: 'visible' }, label),
    ];
  });
  return tag(
    'g',
    {},
    tag('title', {}, `${name}: ${tooltip}`),
    tag('text', { class: 'strong', y: top - 4 }, name),
    drawn,
  );
}
