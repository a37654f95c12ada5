/** Recent admissions: the entries of a log, or the increases observed since the page was opened. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { KeyReport } from '../api/types.ts';
import { clockText, countText, durationText, windowText } from '../view/format.ts';
import { type Column, table } from '../view/table.ts';
import type { KeyFacts } from './key-facts.ts';
import type { Sighting, WindowMemory } from './memory.ts';

const MAX_ROWS = 50;

interface Row {
  readonly atMs: number;
  readonly cost: number;
  readonly when: string;
  readonly expires: string;
}

/** `13:05:59.123` */
const exactTime = (timeMs: number): string =>
  `${clockText(timeMs)}.${String(Math.floor(timeMs) % 1000).padStart(3, '0')}`;

const COLUMNS: readonly Column<Row>[] = [
  { id: 'when', head: 'Time', isName: true, cell: ({ when }) => when },
  { id: 'cost', head: 'Cost', isNumber: true, cell: ({ cost }) => countText(cost) },
];
const EXPIRES: Column<Row> = {
  ...{ id: 'expires', head: 'Expires', isNumber: true },
  cell: ({ expires }) => expires,
};

const keepsEntries = ({ algorithm }: KeyFacts): boolean =>
  algorithm === 'sliding-log' || algorithm === 'sliding-buckets';

export function admissions(
  facts: KeyFacts,
  report: KeyReport,
  memory: WindowMemory,
): TemplateResult {
  const isLog = keepsEntries(facts);
  const rows = isLog ? logRows(facts, report, memory) : memory.sightings.map(seenRow);
  const shown = rows.slice(0, MAX_ROWS);
  return html`<section class="card admissions" aria-labelledby="admissions-title">
    <h2 id="admissions-title">Recent admissions</h2>
    <p class="hint">${noteOf(facts, report, shown.length, rows.length)}</p>
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

/** Explains which of the `known` rows are in the table. */
export function noteOf(facts: KeyFacts, report: KeyReport, shown: number, known: number): string {
  if (!keepsEntries(facts)) {
    const what = `A ${facts.algorithm} stores counts, not calls`;
    return shown === 0
      ? `${what}. Admissions from now on are listed here.`
      : `${what}. Listed: admissions since this page was opened.`;
  }
  const { entries, entryCount } = report;
  if (entryCount > entries.length) {
    const listed = `the service returns the newest ${countText(entries.length)}`;
    return `Showing ${shown} of ${countText(entryCount)} entries; ${listed}.`;
  }
  if (known === 0) return `No admissions in the last ${windowText(facts.windowMs)}.`;
  const rest = known > shown ? ` Showing the newest ${shown} of ${countText(known)}.` : '';
  const same = facts.algorithm === 'sliding-buckets' ? 'bucket' : 'millisecond';
  return `Calls in the same ${same} share one entry.${rest}`;
}

function logRows(facts: KeyFacts, { atMs: nowMs }: KeyReport, memory: WindowMemory): Row[] {
  const { windowMs, algorithm, bucketMs } = facts;
  const isBuckets = algorithm === 'sliding-buckets';
  return memory.entries
    .slice(-2 * MAX_ROWS)
    .map(({ atMs, cost }) => {
      const expiresMs = atMs + windowMs - nowMs;
      const from = isBuckets ? `${exactTime(atMs - bucketMs + 1)} – ` : '';
      return {
        ...{ atMs, cost, when: `${from}${exactTime(atMs)}` },
        expires: expiresMs > 0 ? `in ${durationText(expiresMs)}` : 'expired',
      };
    })
    .reverse();
}

function seenRow({ atMs, cost, sinceMs }: Sighting): Row {
  const when = `${exactTime(sinceMs)} – ${exactTime(atMs)}`;
  return { atMs, cost, when, expires: '' };
}
