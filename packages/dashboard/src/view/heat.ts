/**
 * Heat strip: utilization of a policy's fullest key over time. Denials are marks above the strip,
 * since a full key does not imply a denial.
 */
import { html, noChange, type TemplateResult } from 'lit-html';
import { Directive, directive, type ElementPart } from 'lit-html/directive.js';
import type { CountSeries } from '../api/types.ts';
import { clockText, counted, percentText } from './format.ts';
import { colour, onTheme } from './theme.ts';

export interface HeatCell {
  /** Start, in seconds since 1970. */
  readonly time: number;
  /** From 0 to 1; null without decisions. */
  readonly fullest: number | null;
  readonly denied: number;
  readonly shadowDenied: number;
}

const CELLS = 60;
const LEVELS = 5;

/** Cells start at multiples of their size, so that they keep their content as time moves on. */
export function heatCells(
  series: CountSeries,
  lastMs: number,
  seconds: number,
): readonly HeatCell[] {
  const size = Math.max(1, Math.round(seconds / CELLS));
  const last = lastMs / 1000;
  const first = (Math.floor(last / size) - CELLS + 1) * size;
  const base = last - series.allowed.length + 1;
  return Array.from({ length: CELLS }, (_, cell) => {
    const time = first + cell * size;
    const [from, to] = [Math.max(time - base, 0), Math.max(time - base + size, 0)];
    const sum = (counts: readonly number[]): number =>
      counts.slice(from, to).reduce((all, each) => all + each, 0);
    const known = series.fullest.slice(from, to).filter((each) => each !== null);
    return {
      time,
      fullest: known.length === 0 ? null : Math.max(...known),
      denied: sum(series.denied),
      shadowDenied: sum(series.shadowDenied),
    };
  });
}

/** Index of the colour; the last is for full keys only. */
export const heatLevel = (fullest: number): number =>
  Math.min(Math.floor(fullest * (LEVELS - 1)), LEVELS - 1);

export function heatText({ fullest, denied, shadowDenied }: HeatCell): string {
  const parts = [
    fullest === null ? 'no decisions' : `fullest key ${percentText(fullest)}`,
    ...(denied > 0 ? [`${counted(denied, 'call')} denied`] : []),
    ...(shadowDenied > 0 ? [`${counted(shadowDenied, 'call')} would have been denied`] : []),
  ];
  return parts.join(', ');
}

/** Description for screen readers. */
export function heatLabel(name: string, cells: readonly HeatCell[]): string {
  const newest = cells.findLast(({ fullest }) => fullest !== null);
  if (newest === undefined) return `${name}: no decisions`;
  const most = Math.max(...cells.map(({ fullest }) => fullest ?? 0));
  const denied = cells.filter((cell) => cell.denied + cell.shadowDenied > 0).length;
  const now = `fullest key ${percentText(newest.fullest!)} full now`;
  return `${name}: ${now}, ${percentText(most)} at most, denials in ${denied} of ${CELLS} cells`;
}

export const heatStrip = (name: string, cells: readonly HeatCell[]): TemplateResult =>
  html`<canvas class="heat" role="img" aria-label=${heatLabel(name, cells)} ${strip(cells)}>
  </canvas>`;

/** Canvas pixels; CSS scales the canvas. */
const CELL_WIDTH = 12;
const MARK_HEIGHT = 14;
const GAP_HEIGHT = 4;
const HEIGHT = 54;

let drawings = 0;
onTheme(() => {
  drawings++;
});

class Strip extends Directive {
  #drawn = '';
  #cells: readonly HeatCell[] = [];
  #canvas: HTMLCanvasElement | undefined = undefined;

  override render(_cells: readonly HeatCell[]): unknown {
    return noChange;
  }

  override update(part: ElementPart, [cells]: [readonly HeatCell[]]): unknown {
    this.#cells = cells;
    if (this.#canvas === undefined) this.#begin(part.element as HTMLCanvasElement);
    const looks = `${drawings} ${cells.map(lookOf).join(' ')}`;
    if (looks === this.#drawn) return noChange;
    this.#drawn = looks;
    this.#draw(this.#canvas!);
    return noChange;
  }

  #begin(canvas: HTMLCanvasElement): void {
    this.#canvas = canvas;
    canvas.width = CELLS * CELL_WIDTH;
    canvas.height = HEIGHT;
    canvas.addEventListener('pointermove', ({ offsetX }) => {
      const at = Math.floor((offsetX / canvas.clientWidth) * CELLS);
      const cell = this.#cells[Math.min(Math.max(at, 0), CELLS - 1)];
      canvas.title = `${clockText(cell.time * 1000)}: ${heatText(cell)}`;
    });
  }

  #draw(canvas: HTMLCanvasElement): void {
    const context = canvas.getContext('2d')!;
    context.clearRect(0, 0, canvas.width, canvas.height);
    const top = MARK_HEIGHT + GAP_HEIGHT;
    for (const [at, { fullest, denied, shadowDenied }] of this.#cells.entries()) {
      const left = at * CELL_WIDTH;
      if (fullest !== null) {
        context.fillStyle = colour(`--heat-${heatLevel(fullest)}`);
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

const strip = directive(Strip);

function lookOf({ fullest, denied, shadowDenied }: HeatCell): string {
  const mark = denied > 0 ? 'd' : shadowDenied > 0 ? 's' : '';
  return `${fullest === null ? '' : heatLevel(fullest)}${mark}`;
}

const LEGEND = ['0%', '25%', '50%', '75%', '100%'];

export const heatLegend = (): TemplateResult => html`<p class="legend heat-legend">
  <span class="dim">Fullest key:</span>
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
</p>`;
