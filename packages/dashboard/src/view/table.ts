/** Tables whose columns can be sorted by; the sorting is in the address, so others see the same. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { repeat } from 'lit-html/directives/repeat.js';

export interface Column<Row> {
  /** Names it in the address. */
  readonly id: string;
  readonly head: string;
  /** Said of the head where it is not enough. */
  readonly hint?: string;
  readonly isNumber?: boolean;
  /** The cell that names the row. */
  readonly isName?: boolean;
  readonly className?: string;
  readonly cell: (row: Row) => unknown;
  /** What it is sorted by; without it, it is not. */
  readonly by?: (row: Row) => number | string;
}

export interface Sorting {
  readonly by: string;
  readonly isDown: boolean;
}

export interface TableView<Row> {
  readonly label: string;
  readonly className?: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => unknown;
  readonly sorting?: Sorting;
  readonly onSort?: (sorting: Sorting) => void;
}

/** `name` or `-denied`, as the address has it. What names no column is the first sorting there is. */
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

/** Equal ones stay in the order they came in. */
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

/** In a box that scrolls by itself where it is too wide. */
export function table<Row>(view: TableView<Row>): TemplateResult {
  const { label, columns, rows, keyOf } = view;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table class=${view.className ?? ''}>
      <caption class="unseen">${label}</caption>
      <thead>
        <tr>${columns.map((column) => head(view, column))}</tr>
      </thead>
      <tbody>
        ${repeat(rows, keyOf, (row) => html`<tr>${columns.map((column) => cell(column, row))}</tr>`)}
      </tbody>
    </table>
  </div>`;
}

const classOf = <Row>({ isNumber, className = '' }: Column<Row>): string =>
  `${isNumber ? 'number' : ''} ${className}`.trim();

function cell<Row>(column: Column<Row>, row: Row): TemplateResult {
  const content = column.cell(row);
  return column.isName
    ? html`<th scope="row" class=${classOf(column)}>${content}</th>`
    : html`<td class=${classOf(column)}>${content}</td>`;
}

function head<Row>({ sorting, onSort }: TableView<Row>, column: Column<Row>): TemplateResult {
  const { id, head: text, by, isNumber, hint } = column;
  if (by === undefined || onSort === undefined) {
    return html`<th scope="col" class=${classOf(column)} title=${hint ?? nothing}>${text}</th>`;
  }
  const isBy = sorting?.by === id;
  const way = sorting?.isDown ? 'descending' : 'ascending';
  // Numbers are first looked at from the largest down.
  const next = { by: id, isDown: isBy ? !sorting!.isDown : isNumber === true };
  return html`<th scope="col" class=${classOf(column)} aria-sort=${isBy ? way : nothing}>
    <button type="button" class="sort" title=${hint ?? nothing} @click=${() => onSort(next)}>
      ${text}<span class="arrow" aria-hidden="true">${isBy ? (sorting!.isDown ? '↓' : '↑') : ''}</span>
    </button>
  </th>`;
}
