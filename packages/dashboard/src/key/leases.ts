/** The units of a limit that processes have borrowed. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { KeyReport, LentUnits } from '../api/types.ts';
import { countText, durationText } from '../view/format.ts';
import { type Column, table } from '../view/table.ts';

const columnsOf = (nowMs: number): readonly Column<LentUnits>[] => [
  {
    ...{ id: 'lease', head: 'Lease', hint: 'One for each process', isRowHeader: true },
    cell: ({ id }) => id.toString(16),
  },
  {
    ...{ id: 'units', head: 'Units', hint: 'Lent, and not reported as used', isNumber: true },
    cell: ({ units }) => countText(units),
  },
  {
    ...{ id: 'ends', head: 'Ends', isNumber: true },
    cell: ({ endsAtMs }) => `in ${durationText(Math.max(0, endsAtMs - nowMs))}`,
  },
];

/** Lists the leases of a key, or shows nothing if it has none. */
export function leasesCard({ leases = [], atMs }: KeyReport): TemplateResult | typeof nothing {
  if (leases.length === 0) return nothing;
  const units = leases.reduce((sum, lease) => sum + lease.units, 0);
  return html`<section class="card" aria-labelledby="leases-title">
    <h2 id="leases-title">Lent units <span class="dim">${countText(units)}</span></h2>
    ${table({
      label: 'Leases, first to end first',
      stacksWhenNarrow: true,
      columns: columnsOf(atMs),
      rows: leases,
      keyOf: ({ id }) => id,
    })}
  </section>`;
}
