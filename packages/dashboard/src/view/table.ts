/** Sortable tables. The URL contains the sort order, so links and reloads keep it. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

export interface Column<Row> {
  /** Name of the column in the URL. */
  readonly id: string;
  readonly head: string;
  /** Tooltip of the column header. */
  readonly hint?: string;
  readonly isNumber?: boolean;
  /** Whether the first click sorts in descending order (default: only for numbers). */
  readonly isDescendingFirst?: boolean;
  /** Whether the cells are row headers. */
  readonly isRowHeader?: boolean;
  readonly className?: string;
  readonly cell: (row: Row) => unknown;
  /** Returns the value to sort by. A column without it is not sortable. */
  readonly sortValue?: (row: Row) => number | string;
}

export interface Sorting {
  /** The `id` of a column. */
  readonly by: string;
  readonly isDescending: boolean;
}

export interface TableView<Row> {
  readonly label: string;
  readonly className?: string;
  /** Whether narrow screens show each row as a block. Screen readers still get a table. */
  readonly stacksWhenNarrow?: boolean;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  /** Identifies a row across redraws. */
  readonly keyOf: (row: Row) => unknown;
  readonly sorting?: Sorting;
  readonly onSort?: (sorting: Sorting) => void;
}

/** Parses `name`, or `-name` for descending. Returns `fallback` if the column is not sortable. */
export function parseSorting<Row>(
  text: string | undefined,
  columns: readonly Column<Row>[],
  fallback: Sorting,
): Sorting {
  const isDescending = text?.startsWith('-') === true;
  const by = isDescending ? text!.slice(1) : text;
  const isKnown = columns.some((column) => column.id === by && column.sortValue !== undefined);
  return isKnown ? { by: by!, isDescending } : fallback;
}

export const sortingText = ({ by, isDescending }: Sorting): string =>
  `${isDescending ? '-' : ''}${by}`;

/** Returns the sorted rows. Rows with equal values keep their order. */
export function sortRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { by, isDescending }: Sorting,
): readonly Row[] {
  const value = columns.find(({ id }) => id === by)?.sortValue;
  if (value === undefined) return rows;
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(value(a), value(b)));
}

const collator = new Intl.Collator('en', { numeric: true });

function compare(a: number | string, b: number | string): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(String(a), String(b));
}

/** Renders a table in a box that scrolls sideways if the table is too wide. */
export function table<Row>(view: TableView<Row>): TemplateResult {
  const { label, columns, rows, keyOf, className = '', stacksWhenNarrow = false } = view;
  const row = (each: Row): TemplateResult =>
    html`<tr role="row">${columns.map((column) => cell(column, each))}</tr>`;
  const region = `${label}, scrolls sideways`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${region}>
    <table role="table" class="${className} ${stacksWhenNarrow ? 'stacks' : ''}">
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
  return column.isRowHeader
    ? html`<th scope="row" role="rowheader" class=${classOf(column)}>${content}</th>`
    : html`<td role="cell" class=${classOf(column)} data-head=${column.head}>${content}</td>`;
}

function head<Row>(view: TableView<Row>, column: Column<Row>): TemplateResult {
  const { id, sortValue, hint, isNumber, isDescendingFirst = isNumber === true } = column;
  const { sorting, onSort } = view;
  const title = hint ?? nothing;
  if (sortValue === undefined || onSort === undefined) {
    return html`<th scope="col" role="columnheader" class=${classOf(column)} title=${title}>
      ${column.head}
    </th>`;
  }
  const isSorted = sorting?.by === id;
  const isDescending = sorting?.isDescending === true;
  const arrow = isDescending ? '↓' : '↑';
  const next = { by: id, isDescending: isSorted ? !isDescending : isDescendingFirst };
  return html`<th scope="col" role="columnheader" class=${classOf(column)}
    aria-sort=${isSorted ? (isDescending ? 'descending' : 'ascending') : nothing}>
    <button type="button" class="sort" title=${title} @click=${() => onSort(next)}>
      ${column.head}<span class="arrow" aria-hidden="true">${isSorted ? arrow : ''}</span>
    </button>
  </th>`;
}
