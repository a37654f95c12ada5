/** What was admitted lately, as a table: of logs the entries, of others what this page has seen. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { KeyReport } from '../api/types.ts';
import { clockText, countText, durationText, windowText } from '../view/format.ts';
import { type Column, table } from '../view/table.ts';
import type { KeyFacts } from './key-facts.ts';
import type { Sighting, WindowMemory } from './memory.ts';

/** A log may have thousands, and nobody reads them. */
const MAX_ROWS = 50;

interface Row {
  readonly atMs: number;
  readonly cost: number;
  readonly when: string;
  readonly leaves: string;
}

/** `13:05:59.123`, as several come within a second. */
const exactTime = (timeMs: number): string =>
  `${clockText(timeMs)}.${String(Math.floor(timeMs) % 1000).padStart(3, '0')}`;

const COLUMNS: readonly Column<Row>[] = [
  { id: 'when', head: 'When', isName: true, cell: ({ when }) => when },
  { id: 'cost', head: 'Cost', isNumber: true, cell: ({ cost }) => countText(cost) },
];
const LEAVES: Column<Row> = {
  ...{ id: 'leaves', head: 'Leaves the window', isNumber: true },
  cell: ({ leaves }) => leaves,
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
            label: 'Recent admissions, the newest first',
            columns: isLog ? [...COLUMNS, LEAVES] : COLUMNS,
            rows: shown,
            keyOf: ({ atMs }) => atMs,
          })
    }
  </section>`;
}

/** What is shown of what there is: `known` rows, of which `shown` are in the table. */
export function noteOf(facts: KeyFacts, report: KeyReport, shown: number, known: number): string {
  if (!keepsEntries(facts)) {
    const what = `A ${facts.algorithm} keeps counts, not calls`;
    return shown === 0
      ? `${what}: from now on, what this page sees of them is listed here.`
      : `${what}: this is what this page has seen since it was opened.`;
  }
  const { entries, entryCount } = report;
  if (entryCount > entries.length) {
    const listed = `The service lists the newest ${countText(entries.length)}`;
    return `${shown} of ${countText(entryCount)} entries shown. ${listed}.`;
  }
  if (known === 0) return `Nothing was admitted in the last ${windowText(facts.windowMs)}.`;
  const rest = known > shown ? `, the newest ${shown} of ${countText(known)}` : '';
  const same = facts.algorithm === 'sliding-buckets' ? 'bucket' : 'millisecond';
  return `Calls in the same ${same} are one entry${rest}.`;
}

function logRows(facts: KeyFacts, { atMs: nowMs }: KeyReport, memory: WindowMemory): Row[] {
  const { windowMs, algorithm, bucketMs } = facts;
  const isBuckets = algorithm === 'sliding-buckets';
  return memory.entries
    .slice(-2 * MAX_ROWS)
    .map(({ atMs, cost }) => {
      const leavesMs = atMs + windowMs - nowMs;
      const from = isBuckets ? `${exactTime(atMs - bucketMs + 1)} – ` : '';
      return {
        ...{ atMs, cost, when: `${from}${exactTime(atMs)}` },
        leaves: leavesMs > 0 ? `in ${durationText(leavesMs)}` : 'has left',
      };
    })
    .reverse();
}

function seenRow({ atMs, cost, sinceMs }: Sighting): Row {
  const when = `${exactTime(sinceMs)} – ${exactTime(atMs)}`;
  return { atMs, cost, when, leaves: '' };
}
