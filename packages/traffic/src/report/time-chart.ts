/** Draws a chart of stacked columns over time, with a tooltip for each column. */

import { dateTimeText, windowText } from '../format.ts';
import type { TimelineData } from '../replay/timeline.ts';
import { type Html, html, type Part, shape, tag } from './html.ts';
import {
  AXIS,
  across,
  gridLines,
  gridNumbers,
  niceEnd,
  number,
  PLOT,
  pathData,
  type SeriesClass,
  TOP,
  timeMarks,
} from './scale.ts';

type Counts<Series extends string> = Readonly<Record<Series, number>>;

export interface Layer<Series extends string> {
  readonly css: SeriesClass;
  /** Returns the value of a bucket. */
  readonly of: (counts: Counts<Series>) => number;
}

export interface TimeChart<Series extends string> {
  readonly id: string;
  readonly title: string;
  readonly data: TimelineData<Series>;
  /** Layers of a column, bottom first. */
  readonly layers: readonly Layer<Series>[];
  /** Returns the value of the line that is drawn over the columns. */
  readonly line?: (counts: Counts<Series>) => number;
  readonly tooltip: (counts: Counts<Series>) => string;
  readonly height?: number;
  /** End of the scale, if several charts share it. */
  readonly end?: number;
}

/** Returns the counts of each bucket by series. */
export function bucketsOf<Series extends string>({
  series,
}: TimelineData<Series>): readonly Counts<Series>[] {
  const names = Object.keys(series) as Series[];
  const counts = (at: number): Counts<Series> =>
    Object.fromEntries(names.map((name) => [name, series[name][at]])) as Counts<Series>;
  return Array.from({ length: series[names[0]].length }, (_, at) => counts(at));
}

/** Columns wider than this share of the chart have gaps between them. */
const GAP_ABOVE = 1 / 60;

export function timeChart<Series extends string>(chart: TimeChart<Series>): Html {
  const { id, title, data, layers, line, height = PLOT } = chart;
  const buckets = bucketsOf(data);
  if (buckets.length === 0) return html`<p class="soft">No data.</p>`;
  const sums = buckets.map((counts) => layers.reduce((sum, layer) => sum + layer.of(counts), 0));
  const lineValues = line === undefined ? [] : buckets.map(line);
  const end = chart.end ?? niceEnd(Math.max(...sums, ...lineValues));
  const base = TOP + height;
  const columns = buckets.map((counts, at) => column(chart, counts, at, buckets.length, end));
  return tag(
    'svg',
    { id, class: 'chart', role: 'img', 'aria-label': title, height: base + AXIS },
    gridLines(end, height),
    columns,
    line !== undefined && stepLine(lineValues, end, height),
    gridNumbers(end, height),
    timeMarks(data.startMs, data.bucketMs * buckets.length, base + 16),
  );
}

function column<Series extends string>(
  { data, layers, tooltip, height = PLOT }: TimeChart<Series>,
  counts: Counts<Series>,
  at: number,
  all: number,
  end: number,
): Part {
  const width = 1 / all;
  const x = across(at * width);
  // Columns without gaps overlap by 2 %, so that no line is visible between them.
  const drawn = width > GAP_ABOVE ? 0.82 * width : 1.02 * width;
  let y = TOP + height;
  const parts = layers.map(({ css, of }) => {
    const tall = (of(counts) / end) * height;
    y -= tall;
    if (tall === 0) return undefined;
    const size = { width: across(drawn), height: number(tall) };
    return shape('rect', { class: `column ${css}`, x, y: number(y), ...size });
  });
  const fromMs = data.startMs + at * data.bucketMs;
  const text = `${dateTimeText(fromMs)}, ${windowText(data.bucketMs)}: ${tooltip(counts)}`;
  const hit = shape('rect', { class: 'hit', x, y: TOP, width: across(width), height });
  return tag('g', {}, tag('title', {}, text), hit, parts);
}

/** Draws a step line in a nested SVG element that is stretched to the width of the columns. */
function stepLine(values: readonly number[], end: number, height: number): Html {
  const steps = values.map((value, at) => {
    const y = number(height * (1 - value / end));
    return `${at === 0 ? 'M' : 'L'}${at} ${y}H${at + 1}`;
  });
  const size = { y: TOP, width: '100%', height, viewBox: `0 0 ${values.length} ${height}` };
  return tag(
    'svg',
    { ...size, preserveAspectRatio: 'none' },
    shape('path', { class: 'current', 'vector-effect': 'non-scaling-stroke', d: pathData(steps) }),
  );
}
