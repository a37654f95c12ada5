/** Rows and columns of the policy table. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Timeline } from '../api/history.ts';
import type { CountSeries, PolicyDefinition } from '../api/types.ts';
import { hrefTo } from '../route.ts';
import { currentRate, RATE_SECONDS, sum } from '../view/counts.ts';
import type { TableContent } from '../view/data-table.ts';
import { clockText, countWithNoun, dateText, percentText, rateText } from '../view/format.ts';
import { HEAT_HEADS, heatCells, heatColumns, heatStrip } from '../view/heat-strip.ts';
import { definitionText } from '../view/policy-text.ts';
import type { Column } from '../view/table.ts';

export interface PolicyRow {
  readonly name: string;
  /** Undefined for the labels `(request)` and `(other)`, each of which groups several limits. */
  readonly policy: PolicyDefinition | undefined;
  /** Counts in the shown range. */
  readonly series: CountSeries;
  /** True if the service has reported no decision of the policy for the shown range. */
  readonly isIdle: boolean;
  /** Current rates per second, in shadow mode those of shadow decisions. Undefined if unknown. */
  readonly allowed: number | undefined;
  readonly denied: number | undefined;
  /** Denied share of current decisions; undefined if there were none. */
  readonly share: number | undefined;
  readonly overrides: number;
}

/** Returns the rows, sorted by the denials in the shown range, then by admissions. */
export function policyRows(
  policies: readonly PolicyDefinition[],
  { shown, live }: TableData,
  steps: number,
): readonly PolicyRow[] {
  const defined = new Map(policies.map((policy) => [policy.name, policy]));
  const others = shown.policies.filter((name) => !defined.has(name));
  const rows = [...defined.keys(), ...others].map((name) =>
    rowOf(name, defined.get(name), shown, live),
  );
  const weights = new Map(rows.map((row) => [row, weightOf(row, steps)]));
  return rows.sort((a, b) => weights.get(b)! - weights.get(a)! || (a.name < b.name ? -1 : 1));
}

/** Returns the sort weight of a row: one denial weighs as much as 1,000,000 admissions. */
function weightOf({ isIdle, series }: PolicyRow, steps: number): number {
  if (isIdle) return 0;
  const denied = sum(series.denied, steps) + sum(series.shadowDenied, steps);
  return denied * 1e6 + sum(series.allowed, steps) + sum(series.shadowAllowed, steps);
}

const UNKNOWN = { allowed: undefined, denied: undefined, share: undefined };

function rowOf(
  name: string,
  policy: PolicyDefinition | undefined,
  shown: Timeline,
  live: Timeline | undefined,
): PolicyRow {
  return {
    ...{ name, policy, series: shown.seriesOf(name), isIdle: !shown.has(name) },
    ...(live === undefined ? UNKNOWN : ratesOf(live.seriesOf(name), policy?.shadow === true)),
    overrides: policy?.overrides ?? 0,
  };
}

function ratesOf(current: CountSeries, isShadow: boolean) {
  const allowed = isShadow ? current.shadowAllowed : current.allowed;
  const denied = isShadow ? current.shadowDenied : current.denied;
  const all = sum(allowed, RATE_SECONDS) + sum(denied, RATE_SECONDS);
  return {
    allowed: currentRate(allowed),
    denied: currentRate(denied),
    share: all === 0 ? undefined : sum(denied, RATE_SECONDS) / all,
  };
}

const LABELS: Readonly<Record<string, string>> = {
  '(request)': 'inline limits sent with requests',
  '(other)': 'policies beyond the first thousand',
};

function nameCell(row: PolicyRow): TemplateResult {
  const { name, policy } = row;
  const definition = html`<div class="words">${definitionOf(row)}</div>`;
  if (policy === undefined) return html`<span class="policy-name">${name}</span> ${definition}`;
  const badge = html`<span class="badge shadow">shadow</span>`;
  return html`<a class="policy-name" href=${hrefTo('policy', [name])}>${name}</a>
    ${policy.shadow ? badge : nothing} ${definition}`;
}

const definitionOf = ({ name, policy }: PolicyRow): string =>
  policy === undefined ? (LABELS[name] ?? 'no longer in the files') : definitionText(policy);

const rateCell = (rate: number | undefined): string => (rate === undefined ? '–' : rateText(rate));

function deniedCell({ denied, policy }: PolicyRow): TemplateResult {
  if (denied === undefined || !policy?.shadow) return html`${rateCell(denied)}`;
  return html`<span class="would" title="would have been denied"
    >${rateText(denied)}<span class="unseen"> would have been denied</span></span
  >`;
}

export interface TableData {
  /** Counts in the shown range. */
  readonly shown: Timeline;
  /** Counts of the last seconds, for current rates; undefined if unknown. */
  readonly live: Timeline | undefined;
}

export interface TableSpan {
  readonly lastMs: number;
  readonly seconds: number;
  /** The range as text: `5 min`. */
  readonly text: string;
  readonly stepMs: number;
  /** Whether the stream omits some policies. */
  readonly isPartial: boolean;
}

export function columnsFor(span: TableSpan): readonly Column<PolicyRow>[] {
  const { lastMs, seconds, stepMs } = span;
  const steps = (seconds * 1000) / stepMs;
  // If the stream omits policies, a policy without data may have made decisions.
  const isOmitted = ({ isIdle }: PolicyRow): boolean => isIdle && span.isPartial;
  const idle = html`<span class="dim">${span.isPartial ? 'not sent' : 'no decisions'}</span>`;
  return [
    {
      id: 'name',
      head: 'Policy',
      isRowHeader: true,
      cell: nameCell,
      sortValue: ({ name }) => name,
    },
    {
      ...{ id: 'allowed', head: 'Allowed/s', isNumber: true },
      cell: (row) => (isOmitted(row) ? '–' : rateCell(row.allowed)),
      sortValue: ({ allowed }) => allowed ?? -1,
    },
    {
      ...{ id: 'denied', head: 'Denied/s', isNumber: true },
      cell: (row) => (isOmitted(row) ? '–' : deniedCell(row)),
      sortValue: ({ denied }) => denied ?? -1,
    },
    {
      ...{ id: 'share', head: 'Denied %', hint: 'Share of current decisions', isNumber: true },
      cell: ({ share }) => (share === undefined ? '–' : percentText(share)),
      sortValue: ({ share }) => share ?? -1,
    },
    {
      ...{
        id: 'heat',
        head: `Fullest key, last ${span.text}`,
        hint: 'Share of its limit that the fullest key had used',
        className: 'heat-cell',
        isDescendingFirst: true,
      },
      cell: (row) =>
        row.isIdle ? idle : heatStrip(row.name, heatCells(row.series, lastMs, seconds, stepMs)),
      sortValue: ({ series }) =>
        Math.max(...series.fullest.slice(-steps).map((each) => each ?? -1)),
    },
    {
      ...{ id: 'overrides', head: 'Overrides', isNumber: true },
      cell: ({ overrides }) => overrides,
      sortValue: ({ overrides }) => overrides,
    },
  ];
}

/** Returns the heat strips as a table: a row per policy and interval with decisions. */
export function heatTable(
  rows: readonly PolicyRow[],
  { lastMs, seconds, stepMs }: TableSpan,
): Pick<TableContent, 'heads' | 'rows'> {
  const timeText = stepMs < 60_000 ? clockText : dateText;
  const rowsOf = ({ name, series }: PolicyRow): string[][] =>
    heatCells(series, lastMs, seconds, stepMs)
      .filter(({ fullestKeyUse, denied, shadowDenied }) => {
        return fullestKeyUse !== null || denied + shadowDenied > 0;
      })
      .map((cell) => [name, timeText(cell.time * 1000), ...heatColumns(cell)])
      .reverse();
  return {
    heads: ['Policy', 'From', ...HEAT_HEADS],
    rows: () => rows.flatMap(rowsOf),
  };
}

export function omittedText(omitted: number): string {
  const more = countWithNoun(omitted, 'more policy');
  const reason = 'the stream contains the 100 busiest policies of each second';
  return `${more} had decisions in the last second but are not shown: ${reason}.`;
}
