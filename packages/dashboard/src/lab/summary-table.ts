/** Table with one row of numbers per algorithm. */
import type { TemplateResult } from 'lit-html';
import { countText } from '../view/format.ts';
import { type Column, table } from '../view/table.ts';
import { sinceText } from './lab-text.ts';
import type { LabResult } from './run.ts';

type Lane = LabResult['lanes'][number];

const number = (
  id: string,
  head: string,
  cell: (lane: Lane) => string,
  hint?: string,
): Column<Lane> => ({ id, head, isNumber: true, cell, ...(hint && { hint }) });

export function summaryTable({ lanes, traffic }: LabResult): TemplateResult {
  const since = (call: number | undefined): string =>
    call === undefined ? 'none' : sinceText(traffic.calls[call].atMs - traffic.startMs);
  return table({
    label: 'Decisions of each algorithm on the same calls',
    className: 'summary',
    stacksWhenNarrow: true,
    columns: [
      { id: 'name', head: 'Algorithm', isRowHeader: true, cell: ({ algorithm }) => algorithm },
      number('admitted', 'Admitted', ({ admitted }) => countText(admitted)),
      number('denied', 'Denied', ({ denied }) => countText(denied)),
      number(
        'fullest',
        'Fullest window',
        ({ fullest }) => countText(fullest?.count ?? 0),
        'Highest cost admitted in any window',
      ),
      number('multiple', '× limit', ({ fullest }) => (fullest?.multiple ?? 0).toFixed(2)),
      number('first', 'First denial', ({ firstDenial }) => since(firstDenial)),
      number(
        'admits',
        'False admits',
        ({ falseAdmits }) => countText(falseAdmits),
        'Admitted, but denied by the exact sliding log',
      ),
      number(
        'denials',
        'False denials',
        ({ falseDenials }) => countText(falseDenials),
        'Denied, but admitted by the exact sliding log',
      ),
    ],
    rows: lanes,
    keyOf: ({ algorithm }) => algorithm,
  });
}
