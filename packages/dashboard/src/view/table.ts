/** Sortable tables. The sort order is part of the address, so that links preserve it. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

export interface Column<Row> {
  /** Column name in the address. */
  readonly id: string;
  readonly head: string;
  /** Tooltip of the header. */
  readonly hint?: string;
  readonly isNumber?: boolean;
  /** Whether the first click sorts descending (default for numbers). */
  readonly isDownFirst?: boolean;
  /** Whether the cell is the row's header. */
  readonly isName?: boolean;
  readonly className?: string;
  readonly cell: (row: Row) => unknown;
  /** Sort value; without it the column is not sortable. */
  readonly by?: (row: Row) => number | string;
}

export interface Sorting {
  readonly by: string;
  readonly isDown: boolean;
}

export interface TableView<Row> {
  readonly label: string;
  readonly className?: string;
  /** Shows rows as blocks on narrow screens. ARIA roles keep it a table for screen readers. */
  readonly isStacking?: boolean;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => unknown;
  readonly sorting?: Sorting;
  readonly onSort?: (sorting: Sorting) => void;
}

/** Parses `name` or `-denied`. Returns `first` if it names no sortable column. */
export function readSorting<Row>(
  text: string | undefined,
  columns: readonly Column<Row>[],
  first: Sorting,
): Sorting {
  const isDown = text?.startsWith('-') === true;
  const by = isDown ? text!.slice(1) : text;
  const isKnown = columns.some((column) => column.id === by && column.by !== undefined);
  return isKnown ? { by: by!, isDown } : first;
}

export const sortingText = ({ by, isDown }: Sorting): string => `${isDown ? '-' : ''}${by}`;

/** A stable sort. */
export function sorted<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { by, isDown }: Sorting,
): readonly Row[] {
  const value = columns.find(({ id }) => id === by)?.by;
  if (value === undefined) return rows;
  const sign = isDown ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(value(a), value(b)));
}

const alphabet = new Intl.Collator('en', { numeric: true });

function compare(a: number | string, b: number | string): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return alphabet.compare(String(a), String(b));
}

/** In a box that scrolls sideways if the table is too wide. */
export function table<Row>(view: TableView<Row>): TemplateResult {
  const { label, columns, rows, keyOf, className = '', isStacking = false } = view;
  const row = (each: Row): TemplateResult =>
    html`<tr role="row">${columns.map((column) => cell(column, each))}</tr>`;
  const region = `${label}, scrolls sideways`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${region}>
    <table role="table" class="${className} ${isStacking ? 'stacks' : ''}">
      <caption class="unseen">${label}</caption>
      <thead role="rowgroup">
        <tr role="row">${columns.map((column) => head(view, column))}</tr>
      </thead>
      <tbody role="rowgroup">${repeat(rows, keyOf, row)}</tbody>
    </table>
  </div>`;
}

const classOf = <Row>({ isNumber, className = '' }: Column<Row>): string =>
  `${isNumber ? 'number' : ''} ${className}`.trim();

function cell<Row>(column: Column<Row>, row: Row): TemplateResult {
  const content = column.cell(row);
  return column.isName
    ? html`<th scope="row" role="rowheader" class=${classOf(column)}>${content}</th>`
    : html`<td role="cell" class=${classOf(column)} data-head=${column.head}>${content}</td>`;
}

function head<Row>(view: TableView<Row>, column: Column<Row>): TemplateResult {
  const { id, by, hint, isNumber, isDownFirst = isNumber === true } = column;
  const { sorting, onSort } = view;
  const title = hint ?? nothing;
  if (by === undefined || onSort === undefined) {
    return html`<th scope="col" role="columnheader" class=${classOf(column)} title=${title}>
      ${column.head}
    </th>`;
  }
  const isBy = sorting?.by === id;
  const isDown = sorting?.isDown === true;
  const arrow = isDown ? '↓' : '↑';
  const next = { by: id, isDown: isBy ? !isDown : isDownFirst };
  return html`<th scope="col" role="columnheader" class=${classOf(column)}
    aria-sort=${isBy ? (isDown ? 'descending' : 'ascending') : nothing}>
    <button type="button" class="sort" title=${title} @click=${() => onSort(next)}>
      ${column.head}<span class="arrow" aria-hidden="true">${isBy ? arrow : ''}</span>
    </button>
  </th>`;
}
