/** The holds of a concurrency limit, with age, expiry and label. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Hold, KeyReport } from '../api/types.ts';
import { countText, durationText } from '../view/format.ts';
import { keyView } from '../view/key-text.ts';
import { type Column, table } from '../view/table.ts';

const MAX_ROWS = 50;

const columnsOf = (nowMs: number): readonly Column<Hold>[] => [
  {
    ...{ id: 'label', head: 'Label', isRowHeader: true, className: 'key-cell' },
    cell: ({ label = '' }) => (label === '' ? '–' : keyView(label)),
  },
  {
    ...{
      id: 'age',
      head: 'Age',
      hint: 'Time since the hold was taken or last renewed',
      isNumber: true,
    },
    cell: ({ atMs }) => durationText(Math.max(0, nowMs - atMs)),
  },
  {
    ...{ id: 'expires', head: 'Expires', isNumber: true },
    cell: ({ expiresAtMs }) => `in ${durationText(Math.max(0, expiresAtMs - nowMs))}`,
  },
  { id: 'cost', head: 'Cost', isNumber: true, cell: ({ cost }) => countText(cost) },
  { id: 'fence', head: 'Fence', isNumber: true, cell: ({ fence }) => String(fence) },
];

/** Card with the holds. Lists at most `MAX_ROWS`, those that expire first. */
export function holdsCard({ holds = [], atMs }: KeyReport): TemplateResult {
  const rows = holds.slice(0, MAX_ROWS);
  const total = countText(holds.length);
  return html`<section class="card" aria-labelledby="holds-title">
    <h2 id="holds-title">Holds <span class="dim">${total}</span></h2>
    ${
      rows.length === 0
        ? html`<p class="empty">Nothing is held.</p>`
        : table({
            label: 'Holds, first to expire first',
            stacksWhenNarrow: true,
            columns: columnsOf(atMs),
            rows,
            keyOf: ({ fence }) => fence,
          })
    }
    ${
      rows.length === holds.length
        ? nothing
        : html`<p class="hint">Showing ${rows.length} of ${total}.</p>`
    }
  </section>`;
}
