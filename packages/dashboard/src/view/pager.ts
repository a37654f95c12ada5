/** Splits long tables into pages of 100 rows, to avoid redrawing thousands of rows. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { countText } from './format.ts';

const PAGE_ROWS = 100;

export interface RowPage<Row> {
  readonly rows: readonly Row[];
  /** Index of the first row. */
  readonly from: number;
  /** Number of rows on all pages. */
  readonly total: number;
}

/**
 * Returns the page that contains the row at index `from`, or the last page if there is no such row.
 */
export function pageOf<Row>(all: readonly Row[], from: string | undefined): RowPage<Row> {
  const requested = /^\d{1,9}$/.test(from ?? '') ? Number(from) : 0;
  const last = Math.max(Math.ceil(all.length / PAGE_ROWS) - 1, 0);
  const start = Math.min(Math.floor(requested / PAGE_ROWS), last) * PAGE_ROWS;
  return { rows: all.slice(start, start + PAGE_ROWS), from: start, total: all.length };
}

export function pager<Row>(
  { rows, from, total }: RowPage<Row>,
  go: (from: string) => void,
): TemplateResult | typeof nothing {
  if (total <= PAGE_ROWS) return nothing;
  const button = (label: string, to: number, isEnd: boolean): TemplateResult =>
    html`<button type="button" class="quiet small" ?disabled=${isEnd}
      @click=${() => go(to === 0 ? '' : String(to))}>${label}</button>`;
  return html`<p class="row hint">
    ${countText(from + 1)} to ${countText(from + rows.length)} of ${countText(total)}
    ${button('Previous', from - PAGE_ROWS, from === 0)}
    ${button('Next', from + PAGE_ROWS, from + PAGE_ROWS >= total)}
  </p>`;
}
