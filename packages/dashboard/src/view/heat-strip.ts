/**
 * Heat strip: a row of 60 coloured cells, one per interval of the time range. The fullest key of a
 * policy is the key that has used the largest share of its limit. The colour of a cell shows that
 * share. A mark above the cell shows that calls were denied in the interval; a key can be full
 * without a denial.
 */
import { html, noChange, type TemplateResult } from 'lit-html';
import { Directive, directive, type ElementPart } from 'lit-html/directive.js';
import type { CountSeries } from '../api/types.ts';
import { clockText, countText, countWithNoun, minuteText, percentText } from './format.ts';
import { colour, onThemeChange } from './theme.ts';

export interface HeatCell {
  /** Start of the interval, in seconds since the epoch. */
  readonly time: number;
  /** Share of its limit that the fullest key had used, from 0 to 1; null without decisions. */
  readonly fullestKeyUse: number | null;
  readonly denied: number;
  readonly shadowDenied: number;
  /** False if the counts are unknown, for example before the start of the service. */
  readonly isKnown: boolean;
}

const CELLS = 60;
const LEVELS = 5;

/**
 * Groups a series into cells. Each cell starts at a multiple of its length, so that a given second
 * stays in the same cell as time passes.
 */
export function heatCells(
  series: CountSeries,
  lastMs: number,
  seconds: number,
  stepMs = 1000,
): readonly HeatCell[] {
  const step = stepMs / 1000;
  const size = Math.max(step, Math.round(seconds / CELLS));
  const last = lastMs / 1000;
  const first = (Math.floor(last / size) - CELLS + 1) * size;
  const base = last - (series.allowed.length - 1) * step;
  return Array.from({ length: CELLS }, (_, cell) => {
    const time = first + cell * size;
    const [from, to] = [time - base, time - base + size].map((at) => Math.max(at / step, 0));
    const sum = (counts: readonly (number | null)[]): number =>
      counts.slice(from, to).reduce<number>((all, each) => all + (each ?? 0), 0);
    const known = series.fullest.slice(from, to).filter((each) => each !== null);
    return {
      time,
      isKnown: series.allowed.slice(from, to).some((each) => each !== null),
      fullestKeyUse: known.length === 0 ? null : Math.max(...known),
      denied: sum(series.denied),
      shadowDenied: sum(series.shadowDenied),
    };
  });
}

/** Returns the index of the colour of a share from 0 to 1. The last colour means a full key. */
export const heatLevel = (keyUse: number): number =>
  Math.min(Math.floor(keyUse * (LEVELS - 1)), LEVELS - 1);

/** Returns the tooltip of a cell: `fullest key 90%, 3 calls denied`. */
export function heatTooltip({ fullestKeyUse, denied, shadowDenied, isKnown }: HeatCell): string {
  if (!isKnown) return 'no data';
  const parts = [
    fullestKeyUse === null ? 'no decisions' : `fullest key ${percentText(fullestKeyUse)}`,
    ...(denied > 0 ? [`${countWithNoun(denied, 'call')} denied`] : []),
    ...(shadowDenied > 0 ? [`${countWithNoun(shadowDenied, 'call')} would have been denied`] : []),
  ];
  return parts.join(', ');
}

export const HEAT_HEADS = ['Fullest key', 'Denied', 'Shadow-denied'] as const;

/** Returns a cell as texts for the columns of `HEAT_HEADS`. */
export const heatColumns = ({
  fullestKeyUse,
  denied,
  shadowDenied,
}: HeatCell): readonly string[] => [
  fullestKeyUse === null ? '–' : percentText(fullestKeyUse),
  countText(denied),
  countText(shadowDenied),
];

/** Returns the description of the strip for screen readers. */
export function heatLabel(name: string, cells: readonly HeatCell[]): string {
  const newest = cells.findLast(({ fullestKeyUse }) => fullestKeyUse !== null);
  if (newest === undefined) return `${name}: no decisions`;
  const highest = percentText(Math.max(...cells.map(({ fullestKeyUse }) => fullestKeyUse ?? 0)));
  const denied = cells.filter((cell) => cell.denied + cell.shadowDenied > 0).length;
  const last = `the fullest key last used ${percentText(newest.fullestKeyUse!)} of its limit`;
  return `${name}: ${last}, at most ${highest}; denials in ${denied} of ${CELLS} intervals`;
}

export const heatStrip = (name: string, cells: readonly HeatCell[]): TemplateResult =>
  html`<canvas class="heat" role="img" aria-label=${heatLabel(name, cells)} ${heatCanvas(cells)}>
  </canvas>`;

/** Dimensions in canvas pixels. CSS scales the canvas to the width of the page. */
const CELL_WIDTH = 12;
const MARK_HEIGHT = 14;
const GAP_HEIGHT = 4;
const HEIGHT = 54;

/** Number of theme changes. After each, all strips are drawn again in other colours. */
let themeVersion = 0;
onThemeChange(() => {
  themeVersion++;
});

class HeatCanvas extends Directive {
  /** Fingerprint of the cells and the theme that are drawn. */
  #drawn = '';
  #cells: readonly HeatCell[] = [];
  #canvas: HTMLCanvasElement | undefined = undefined;

  override render(_cells: readonly HeatCell[]): unknown {
    return noChange;
  }

  override update(part: ElementPart, [cells]: [readonly HeatCell[]]): unknown {
    this.#cells = cells;
    if (this.#canvas === undefined) this.#setUp(part.element as HTMLCanvasElement);
    const fingerprint = `${themeVersion} ${cells.map(fingerprintOf).join(' ')}`;
    if (fingerprint === this.#drawn) return noChange;
    this.#drawn = fingerprint;
    this.#draw(this.#canvas!);
    return noChange;
  }

  #setUp(canvas: HTMLCanvasElement): void {
    this.#canvas = canvas;
    canvas.width = CELLS * CELL_WIDTH;
    canvas.height = HEIGHT;
    canvas.addEventListener('pointermove', ({ offsetX }) => {
      const at = Math.floor((offsetX / canvas.clientWidth) * CELLS);
      const cell = this.#cells[Math.min(Math.max(at, 0), CELLS - 1)];
      const time =
        cell.time % 60 === 0 ? minuteText(cell.time * 1000) : clockText(cell.time * 1000);
      canvas.title = `${time}: ${heatTooltip(cell)}`;
    });
  }

  #draw(canvas: HTMLCanvasElement): void {
    const context = canvas.getContext('2d')!;
    context.clearRect(0, 0, canvas.width, canvas.height);
    const top = MARK_HEIGHT + GAP_HEIGHT;
    for (const [at, { fullestKeyUse, denied, shadowDenied, isKnown }] of this.#cells.entries()) {
      const left = at * CELL_WIDTH;
      if (!isKnown) {
        context.fillStyle = colour('--line');
        context.fillRect(left, (top + HEIGHT) / 2 - 1, CELL_WIDTH / 2, 2);
      } else if (fullestKeyUse !== null) {
        context.fillStyle = colour(`--heat-${heatLevel(fullestKeyUse)}`);
        context.fillRect(left, top, CELL_WIDTH - 1, HEIGHT - top);
      }
      if (denied > 0) {
        context.fillStyle = colour('--heat-full');
        context.fillRect(left, 0, CELL_WIDTH - 1, MARK_HEIGHT);
      } else if (shadowDenied > 0) {
        context.strokeStyle = colour('--shadow-denied');
        context.lineWidth = 3;
        context.strokeRect(left + 1.5, 1.5, CELL_WIDTH - 4, MARK_HEIGHT - 3);
      }
    }
  }
}

const heatCanvas = directive(HeatCanvas);

/** Returns text that is equal for two cells if they look the same. */
function fingerprintOf({ fullestKeyUse, denied, shadowDenied, isKnown }: HeatCell): string {
  if (!isKnown) return '?';
  const mark = denied > 0 ? 'd' : shadowDenied > 0 ? 's' : '';
  return `${fullestKeyUse === null ? '' : heatLevel(fullestKeyUse)}${mark}`;
}

const LEGEND = ['0%', '25%', '50%', '75%', '100%'];

export const heatLegend = (): TemplateResult => html`<p class="legend heat-legend">
  <span class="dim">Used by the fullest key:</span>
  ${LEGEND.map(
    (label, level) => html`<span class="legend-line">
      <svg class="heat-swatch" viewBox="0 0 14 12" aria-hidden="true">
        <rect width="14" height="12" fill=${`var(--heat-${level})`} /></svg
      >${label}
    </span>`,
  )}
  <span class="legend-line">
    <svg class="heat-swatch" viewBox="0 0 14 12" aria-hidden="true">
      <rect width="14" height="5" fill="var(--heat-full)" /></svg
    >denied
  </span>
  <span class="legend-line">
    <svg class="heat-swatch" viewBox="0 0 14 12" aria-hidden="true">
      <rect x="1" y="1" width="12" height="5" fill="none" stroke="var(--shadow-denied)"
        stroke-width="1.6" /></svg
    >shadow-denied
  </span>
  <span class="legend-line">
    <svg class="heat-swatch" viewBox="0 0 14 12" aria-hidden="true">
      <line x1="0" x2="14" y1="6" y2="6" stroke="var(--dim)" stroke-dasharray="4 2" /></svg
    >no data
  </span>
</p>`;
