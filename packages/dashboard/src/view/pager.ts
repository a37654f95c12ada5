/** Pages of 100 rows, since thousands cannot be rendered every second. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { countText } from './format.ts';

const ROWS = 100;

export interface RowPage<Row> {
  readonly rows: readonly Row[];
  /** Index of the first row. */
  readonly from: number;
  readonly all: number;
}

/** Returns the page containing row `from` of the address, at most the last page. */
export function pageOf<Row>(all: readonly Row[], from: string | undefined): RowPage<Row> {
  const wanted = /^\d{1,9}$/.test(from ?? '') ? Number(from) : 0;
  const last = Math.max(Math.ceil(all.length / ROWS) - 1, 0);
  const start = Math.min(Math.floor(wanted / ROWS), last) * ROWS;
  return { rows: all.slice(start, start + ROWS), from: start, all: all.length };
}

export function pager<Row>(
  { rows, from, all }: RowPage<Row>,
  go: (from: string) => void,
): TemplateResult | typeof nothing {
  if (all <= ROWS) return nothing;
  const button = (label: string, to: number, isEnd: boolean): TemplateResult =>
    html`<button type="button" class="quiet small" ?disabled=${isEnd}
      @click=${() => go(to === 0 ? '' : String(to))}>${label}</button>`;
  return html`<p class="row hint">
    ${countText(from + 1)} to ${countText(from + rows.length)} of ${countText(all)}
    ${button('Previous', from - ROWS, from === 0)}
    ${button('Next', from + ROWS, from + ROWS >= all)}
  </p>`;
}
