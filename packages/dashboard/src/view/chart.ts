/**
 * Line chart over time. The legend shows the values at the pointer. Screen readers get a label and
 * the data as a table.
 */
import { html, noChange, type TemplateResult } from 'lit-html';
import { AsyncDirective } from 'lit-html/async-directive.js';
import { directive, type ElementPart } from 'lit-html/directive.js';
import uPlot from 'uplot';
import { dataTable } from './data-table.ts';
import { clockText, countText, shortCount } from './format.ts';
import { colour, onThemeChange } from './theme.ts';

export interface ChartLine {
  readonly label: string;
  /** Name of a CSS custom property: `--denied`. */
  readonly colour: string;
  /** Dash pattern, such as `[6, 4]`, so that lines differ in more than their colour. */
  readonly dash?: readonly number[];
  readonly isFilled?: boolean;
  /** True if the line is filled and drawn on top of the preceding stacked lines. */
  readonly isStacked?: boolean;
  /** True to hide the line while its value is 0: it would cover another line or the axis. */
  readonly isHiddenAtZero?: boolean;
  /** One value per time; null leaves a gap. */
  readonly values: readonly (number | null)[];
}

export interface ChartFigure {
  /** Description for screen readers. */
  readonly label: string;
  /** Times in seconds since the epoch, oldest first. */
  readonly times: readonly number[];
  readonly lines: readonly ChartLine[];
  /** Height in CSS pixels (default 240). */
  readonly height?: number;
  /** Minimum of the value at the top of the axis (default 1). */
  readonly minTop?: number;
  /** Formats a value (default: `countText`). */
  readonly format?: (value: number) => string;
  /** Formats a time in ms on the axis and in the legend (default: `clockText`). */
  readonly timeText?: (timeMs: number) => string;
  /** Formats a time in ms in the table (default: `timeText`). */
  readonly tableTimeText?: (timeMs: number) => string;
}

const HEIGHT = 240;

export const chart = (figure: ChartFigure): TemplateResult => html`<figure
    class="chart"
    ${plot(figure)}
  >
    <div class="plot" role="img" aria-label=${figure.label}></div>
    <figcaption class="legend">
      ${figure.lines.map(
        (line) => html`<span class="legend-line">${swatch(line)}${line.label} <b></b></span>`,
      )}
      <span class="legend-time"></span>
    </figcaption>
    ${dataTable({
      caption: figure.label,
      heads: ['Time', ...figure.lines.map(({ label }) => label)],
      asOfMs: endMs(figure),
      rows: () => tableRows(figure),
    })}
  </figure>`;

/** Returns a short line in the style of a chart line, for legends. */
export const swatch = ({ colour, dash }: Pick<ChartLine, 'colour' | 'dash'>): TemplateResult =>
  html`<svg class="swatch" viewBox="0 0 22 8" aria-hidden="true">
    <line x1="0" x2="22" y1="4" y2="4" stroke-width="3" stroke=${`var(${colour})`}
      stroke-dasharray=${dash?.join(' ') ?? 'none'} />
  </svg>`;

const valueText = ({ format }: ChartFigure, value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : (format ?? countText)(value);

const timeTextOf = ({ timeText = clockText }: ChartFigure, time: number): string =>
  timeText(time * 1000);

/** Returns the end of the newest step. */
function endMs({ times }: ChartFigure): number {
  const [last = 0, before = last] = times.slice(-2).reverse();
  return (2 * last - before) * 1000;
}

/** Returns the index of the first time with a known value, or `times.length` if there is none. */
function firstKnown({ times, lines }: ChartFigure): number {
  const at = times.findIndex((_, index) => lines.some(({ values }) => values[index] !== null));
  return at === -1 ? times.length : at;
}

/** Returns the rows of the data table, newest first, back to the first known value. */
function tableRows(figure: ChartFigure): string[][] {
  const { tableTimeText: timeText = figure.timeText ?? clockText } = figure;
  const row = (time: number, at: number): string[] => [
    timeText(time * 1000),
    ...figure.lines.map(({ values }) => valueText(figure, values[at])),
  ];
  return figure.times.map(row).slice(firstKnown(figure)).reverse();
}

/**
 * Returns the values to draw. A stacked line is drawn at the sum of its own value and the values of
 * the stacked lines before it.
 */
export function plotData({ times, lines }: ChartFigure): uPlot.AlignedData {
  const sums: (number | null)[] = new Array(times.length).fill(0);
  const columns = lines.map((line) => {
    const { values, isStacked } = line;
    if (isStacked !== true) return withoutZeros(line, values);
    for (let at = 0; at < sums.length; at++) {
      const [below, value] = [sums[at], values[at]];
      sums[at] = below === null || value === null ? null : below + value;
    }
    return withoutZeros(line, sums);
  });
  return [times as number[], ...columns];
}

/**
 * If the line is hidden at zero, replaces zeros by gaps. Keeps zeros next to a nonzero value, so
 * that each visible part of the line starts and ends at zero.
 */
function withoutZeros(
  { values, isHiddenAtZero }: ChartLine,
  drawn: readonly (number | null)[],
): (number | null)[] {
  if (isHiddenAtZero !== true) return [...drawn];
  return drawn.map((value, at) =>
    values[at] === 0 && !values[at - 1] && !values[at + 1] ? null : value,
  );
}

/** Returns the properties that uPlot cannot change after creation, as text to compare. */
const fixedProperties = ({ lines, height }: ChartFigure): string =>
  JSON.stringify([height, lines.map(({ values: _, ...style }) => style)]);

class Plot extends AsyncDirective {
  #figure!: ChartFigure;
  #element: HTMLElement | undefined = undefined;
  #plot: uPlot | undefined = undefined;
  /** Result of `fixedProperties` for the current plot. */
  #fixed = '';
  #width = 0;
  readonly #resizeObserver = new ResizeObserver(([entry]) => {
    this.#width = Math.floor(entry.contentRect.width);
    this.#draw();
  });
  #stopThemeListener: () => void = () => {};

  override render(_figure: ChartFigure): unknown {
    return noChange;
  }

  override update(part: ElementPart, [figure]: [ChartFigure]): unknown {
    this.#figure = figure;
    // Draw later, because lit-html renders the content of the element after this directive.
    if (this.#element === undefined) {
      this.#element = part.element as HTMLElement;
      this.#start();
    } else queueMicrotask(() => this.#draw());
    return noChange;
  }

  override disconnected(): void {
    this.#resizeObserver.disconnect();
    this.#stopThemeListener();
    this.#destroy();
  }

  override reconnected(): void {
    this.#start();
  }

  #start(): void {
    this.#stopThemeListener = onThemeChange(() => {
      this.#destroy();
      this.#draw();
    });
    queueMicrotask(() => this.#resizeObserver.observe(this.#target));
  }

  #destroy(): void {
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  get #target(): HTMLElement {
    return this.#element!.querySelector<HTMLElement>('.plot')!;
  }

  #draw(): void {
    if (this.#width === 0 || !this.isConnected) return;
    const figure = this.#figure;
    const fixed = fixedProperties(figure);
    if (this.#plot !== undefined && fixed === this.#fixed) {
      if (this.#plot.width === this.#width) this.#plot.setData(plotData(figure));
      else this.#plot.setSize({ width: this.#width, height: this.#plot.height });
    } else {
      this.#destroy();
      this.#fixed = fixed;
      this.#plot = new uPlot(this.#options(), plotData(figure), this.#target);
    }
    this.#fillLegend();
  }

  /** Writes the values at the pointer to the legend, or the newest values without a pointer. */
  #fillLegend(): void {
    const { times, lines } = this.#figure;
    const pointerIndex = this.#plot?.cursor.idx ?? null;
    const at = pointerIndex ?? times.length - 1;
    const texts = lines.map(({ values }) => valueText(this.#figure, values[at]));
    const elements = this.#element!.querySelectorAll('.legend-line b');
    for (const [index, text] of texts.entries()) elements[index].textContent = text;
    const time = times.length === 0 ? '' : `at ${timeTextOf(this.#figure, times[at])}`;
    this.#element!.querySelector('.legend-time')!.textContent = time;
  }

  #options(): uPlot.Options {
    const { lines, height } = this.#figure;
    const stack = lines.flatMap((line, at) => (line.isStacked ? [at] : []));
    const soft = (line: ChartLine): string => colour(line.colour, 0.22);
    return {
      width: this.#width,
      height: height ?? HEIGHT,
      padding: [8, 26, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: {}, y: { range: (_, _min, most) => [0, this.#axisTop(most)] } },
      axes: [
        {
          ...axis(),
          ...{ space: 76, size: 28 },
          values: (_, splits) => splits.map((at) => timeTextOf(this.#figure, at)),
        },
        {
          ...axis(),
          ...{ space: 34, size: 52 },
          ...(this.#figure.format === undefined && { incrs: WHOLE_STEPS }),
          values: (_, splits) => splits.map(this.#figure.format ?? shortCount),
        },
      ],
      series: [
        {},
        ...lines.map((line, at) => ({
          label: line.label,
          stroke: colour(line.colour),
          width: 1.5,
          points: { show: false },
          ...(line.dash && { dash: [...line.dash] }),
          ...((line.isFilled || at === stack[0]) && { fill: soft(line) }),
        })),
      ],
      bands: bandsOf(stack, (at) => soft(lines[at])),
      hooks: {
        setCursor: [() => this.#fillLegend()],
        drawClear: [(plot) => this.#drawUnknown(plot)],
      },
    };
  }

  /** Shades the time before the first known value and labels it. */
  #drawUnknown({ ctx: context, bbox, valToPos }: uPlot): void {
    const { times } = this.#figure;
    const at = firstKnown(this.#figure);
    if (at === 0 || times.length === 0) return;
    const { left, top, width, height } = bbox;
    const end = at === times.length ? left + width : valToPos(times[at], 'x', true);
    const scale = devicePixelRatio;
    context.save();
    context.fillStyle = colour('--line', 0.35);
    context.fillRect(left, top, end - left, height);
    context.fillStyle = colour('--dim');
    context.font = `${12 * scale}px system-ui, sans-serif`;
    context.textAlign = 'center';
    const text = 'no data before the service started';
    const hasRoom = context.measureText(text).width + 12 * scale < end - left;
    if (hasRoom) context.fillText(text, (left + end) / 2, top + height / 2);
    context.restore();
  }

  #axisTop(most: number | null): number {
    return Math.max((most ?? 0) * 1.06, this.#figure.minTop ?? 1);
  }
}

const plot = directive(Plot);

/** Steps of the axis for counts: 1, 2, 5, 10, 20, … without fractions. */
const WHOLE_STEPS = Array.from({ length: 10 }, (_, power) =>
  [1, 2, 5].map((at) => at * 10 ** power),
).flat();

const axis = (): uPlot.Axis => ({
  stroke: colour('--dim'),
  font: '11px system-ui, sans-serif',
  grid: { stroke: colour('--line', 0.6), width: 1 },
  ticks: { show: false },
});

/** Returns the filled bands between stacked lines. The lowest line is filled down to the axis. */
const bandsOf = (stack: readonly number[], fillOf: (at: number) => string): uPlot.Band[] =>
  stack
    .slice(1)
    .map((at, below): uPlot.Band => ({ series: [at + 1, stack[below] + 1], fill: fillOf(at) }));
