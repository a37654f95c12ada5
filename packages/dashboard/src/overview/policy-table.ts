/** Rows and columns of the policy table. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { History } from '../api/history.ts';
import type { CountSeries, PolicyDefinition } from '../api/types.ts';
import { hrefTo } from '../route.ts';
import { currentRate, RATE_SECONDS, sum } from '../view/counts.ts';
import type { TableContent } from '../view/data-table.ts';
import { clockText, countWithNoun, percentText, rateText } from '../view/format.ts';
import { heatCells, heatStrip, heatText } from '../view/heat-strip.ts';
import { definitionText } from '../view/policy-text.ts';
import type { Column } from '../view/table.ts';

export interface PolicyRow {
  readonly name: string;
  /** Undefined for labels that group inline limits or further policies. */
  readonly policy: PolicyDefinition | undefined;
  readonly series: CountSeries;
  readonly isIdle: boolean;
  /** Current rate per second; for a shadow policy, its shadow decisions. */
  readonly allowed: number;
  readonly denied: number;
  /** Denied share of current decisions; undefined if there were none. */
  readonly share: number | undefined;
  readonly overrides: number;
}

/** Returns the rows by denials, then by admissions, over the whole range. */
export function policyRows(
  policies: readonly PolicyDefinition[],
  history: History,
  seconds: number,
): readonly PolicyRow[] {
  const defined = new Map(policies.map((policy) => [policy.name, policy]));
  const others = history.policies.filter((name) => !defined.has(name));
  const rows = [...defined.keys(), ...others].map((name) =>
    rowOf(name, defined.get(name), history),
  );
  const weights = new Map(rows.map((row) => [row, weightOf(row, seconds)]));
  return rows.sort((a, b) => weights.get(b)! - weights.get(a)! || (a.name < b.name ? -1 : 1));
}

/** A denial outweighs any number of admissions. */
function weightOf({ isIdle, series }: PolicyRow, seconds: number): number {
  if (isIdle) return 0;
  const denied = sum(series.denied, seconds) + sum(series.shadowDenied, seconds);
  return denied * 1e6 + sum(series.allowed, seconds) + sum(series.shadowAllowed, seconds);
}

function rowOf(name: string, policy: PolicyDefinition | undefined, history: History): PolicyRow {
  const series = history.seriesOf(name);
  const isIdle = !history.has(name);
  const isShadow = policy?.shadow === true;
  const allowed = isShadow ? series.shadowAllowed : series.allowed;
  const denied = isShadow ? series.shadowDenied : series.denied;
  const all = sum(allowed, RATE_SECONDS) + sum(denied, RATE_SECONDS);
  return {
    ...{ name, policy, series, isIdle },
    allowed: isIdle ? 0 : currentRate(allowed),
    denied: isIdle ? 0 : currentRate(denied),
    share: all === 0 ? undefined : sum(denied, RATE_SECONDS) / all,
    overrides: policy?.overrides ?? 0,
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

function deniedCell({ denied, policy }: PolicyRow): TemplateResult {
  if (!policy?.shadow) return html`${rateText(denied)}`;
  return html`<span class="would" title="would have been denied"
    >${rateText(denied)}<span class="unseen"> would have been denied</span></span
  >`;
}

export interface TableSpan {
  readonly lastMs: number;
  readonly seconds: number;
  /** Whether the stream omits some policies. */
  readonly isPartial: boolean;
}

export function columnsFor(span: TableSpan): readonly Column<PolicyRow>[] {
  const { lastMs, seconds } = span;
  // A policy missing from a partial stream is unknown, not idle.
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
      cell: (row) => (isOmitted(row) ? '–' : rateText(row.allowed)),
      sortValue: ({ allowed }) => allowed,
    },
    {
      ...{ id: 'denied', head: 'Denied/s', isNumber: true },
      cell: (row) => (isOmitted(row) ? '–' : deniedCell(row)),
      sortValue: ({ denied }) => denied,
    },
    {
      ...{ id: 'share', head: 'Denied %', hint: 'Share of current decisions', isNumber: true },
      cell: ({ share }) => (share === undefined ? '–' : percentText(share)),
      sortValue: ({ share }) => share ?? -1,
    },
    {
      ...{
        id: 'heat',
        head: 'Fullest key over time',
        className: 'heat-cell',
        isDescendingFirst: true,
      },
      cell: (row) =>
        row.isIdle ? idle : heatStrip(row.name, heatCells(row.series, lastMs, seconds)),
      sortValue: ({ series }) =>
        Math.max(...series.fullest.slice(-seconds).map((each) => each ?? -1)),
    },
    {
      ...{ id: 'overrides', head: 'Overrides', isNumber: true },
      cell: ({ overrides }) => overrides,
      sortValue: ({ overrides }) => overrides,
    },
  ];
}

/** The heat strips as a table of numbers: a row per policy, a column per cell. */
export function heatTable(
  rows: readonly PolicyRow[],
  { lastMs, seconds }: TableSpan,
): Pick<TableContent, 'heads' | 'rows'> {
  const cellsOf = ({ series }: PolicyRow) => heatCells(series, lastMs, seconds);
  const times = rows.slice(0, 1).flatMap(cellsOf);
  return {
    heads: ['Policy', ...times.map(({ time }) => clockText(time * 1000))],
    rows: () => rows.map((row) => [row.name, ...cellsOf(row).map(heatText)]),
  };
}

export function omittedText(omitted: number): string {
  const more = countWithNoun(omitted, 'more policy');
  const reason = 'the stream contains the 100 busiest policies of each second';
  return `${more} had decisions in the last second but are not shown: ${reason}.`;
}
