/**
 * Table of recent admissions of a key: the entries of sliding-log or the buckets of
 * sliding-buckets. Other algorithms do not store admissions. For these, the table lists how much
 * the used cost has increased from one report to the next since the page was opened.
 */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { EntriesDescription, KeyDescription } from 'sluice/engine';
import type { KeyReport } from '../api/types.ts';
import { countText, durationText, exactText, windowText } from '../view/format.ts';
import { type Column, table } from '../view/table.ts';
import type { KeyHistory, UsageIncrease } from './key-history.ts';

const MAX_ROWS = 50;

interface Row {
  readonly atMs: number;
  readonly cost: number;
  readonly when: string;
  readonly expires: string;
}

const COLUMNS: readonly Column<Row>[] = [
  { id: 'when', head: 'Time', isRowHeader: true, cell: ({ when }) => when },
  { id: 'cost', head: 'Cost', isNumber: true, cell: ({ cost }) => countText(cost) },
];
const EXPIRES: Column<Row> = {
  ...{ id: 'expires', head: 'Expires', isNumber: true },
  cell: ({ expires }) => expires,
};

export function admissions(
  description: KeyDescription,
  report: KeyReport,
  history: KeyHistory,
): TemplateResult {
  const isLog = description.shape === 'entries';
  const rows = isLog ? logRows(description, report, history) : history.increases.map(increaseRow);
  const shown = rows.slice(0, MAX_ROWS);
  return html`<section class="card admissions" aria-labelledby="admissions-title">
    <h2 id="admissions-title">Recent admissions</h2>
    <p class="hint">${noteText(description, report, shown.length, rows.length)}</p>
    ${
      shown.length === 0
        ? nothing
        : table({
            label: 'Recent admissions, newest first',
            columns: isLog ? [...COLUMNS, EXPIRES] : COLUMNS,
            rows: shown,
            keyOf: ({ atMs }) => atMs,
          })
    }
  </section>`;
}

/** Returns the text above the table. The table shows `shown` of the `known` rows. */
export function noteText(
  description: KeyDescription,
  report: KeyReport,
  shown: number,
  known: number,
): string {
  if (description.shape !== 'entries') {
    const reason = `The ${report.algorithm} algorithm does not store individual calls`;
    return shown === 0
      ? `${reason}. Calls admitted from now on appear here.`
      : `${reason}. The table lists calls admitted since this page was opened.`;
  }
  const { entries, entryCount } = report;
  if (entryCount > entries.length) {
    const newest = `the service returns the newest ${countText(entries.length)}`;
    return `Showing ${shown} of ${countText(entryCount)} entries; ${newest}.`;
  }
  if (known === 0) return `No admissions in the last ${windowText(report.windowMs)}.`;
  const rest = known > shown ? ` Showing the newest ${shown} of ${countText(known)}.` : '';
  const unit = description.entrySpanMs > 1 ? 'bucket' : 'millisecond';
  return `Calls in the same ${unit} share one entry.${rest}`;
}

function logRows(
  { entrySpanMs }: EntriesDescription,
  { atMs: nowMs, windowMs }: KeyReport,
  history: KeyHistory,
): Row[] {
  return history.entries
    .slice(-2 * MAX_ROWS)
    .map(({ atMs, cost }) => {
      const expiresMs = atMs + windowMs - nowMs;
      const from = entrySpanMs > 1 ? `${exactText(atMs - entrySpanMs + 1)} – ` : '';
      return {
        ...{ atMs, cost, when: `${from}${exactText(atMs)}` },
        expires: expiresMs > 0 ? `in ${durationText(expiresMs)}` : 'expired',
      };
    })
    .reverse();
}

function increaseRow({ atMs, cost, sinceMs }: UsageIncrease): Row {
  const when = `${exactText(sinceMs)} – ${exactText(atMs)}`;
  return { atMs, cost, when, expires: '' };
}
