/** Card with the keys of a policy that have the most denials or admissions. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { PolledQuery } from '../api/polled-query.ts';
import type { TopBy, TopReport } from '../api/types.ts';
import { hrefTo } from '../route.ts';
import { clockText, countText, countWithNoun, percentText } from '../view/format.ts';
import { keyText, keyView } from '../view/key-text.ts';
import { type Column, table } from '../view/table.ts';

const MAX_ROWS = 15;

type TopKey = TopReport['keys'][number];

/**
 * Returns a count, or its bounds such as `95–100`: the service estimates the counts, because it
 * uses a fixed amount of memory.
 */
export const boundsText = (atLeast: number, atMost: number): string =>
  atLeast === atMost ? countText(atLeast) : `${countText(atLeast)}–${countText(atMost)}`;

const bar = (share: number, colour: string): TemplateResult => html`<svg
  class="share"
  viewBox="0 0 100 6"
  preserveAspectRatio="none"
  aria-hidden="true"
>
  <rect width=${share * 100} height="6" fill=${`var(--${colour})`} />
</svg>`;

function columnsOf({ policy, hits, keys }: TopReport, colour: string): readonly Column<TopKey>[] {
  const most = keys[0].atMost;
  return [
    {
      id: 'key',
      head: 'Key',
      isRowHeader: true,
      className: 'key-cell',
      cell: ({ key, atMost }) =>
        html`<a class="key" title=${keyText(key)} href=${hrefTo('key', [policy, key])}
            >${keyView(key)}</a
          >
          ${bar(atMost / most, colour)}`,
    },
    {
      id: 'calls',
      head: 'Calls',
      isNumber: true,
      cell: ({ atLeast, atMost }) => boundsText(atLeast, atMost),
    },
    {
      id: 'share',
      head: 'Share',
      hint: 'Share of all these calls',
      isNumber: true,
      cell: ({ atLeast }) => percentText(hits === 0 ? 0 : Math.min(atLeast / hits, 1)),
    },
  ];
}

export interface TopList {
  readonly by: TopBy;
  /** Name of the colour of the bars, without `--`. */
  readonly colour: string;
  readonly title: string;
  readonly empty: (since: string) => unknown;
  readonly query: PolledQuery<TopReport>;
}

export function topCard(list: TopList): TemplateResult {
  const { by, title } = list;
  const { value, problem } = list.query;
  return html`<section class="card" aria-labelledby=${`top-${by}`}>
    <h2 id=${`top-${by}`}>${title}</h2>
    ${
      value === undefined
        ? html`<p class="empty">${problem?.message ?? 'Loading keys…'}</p>`
        : listed(list, value)
    }
  </section>`;
}

function listed({ title, empty, colour }: TopList, report: TopReport): TemplateResult {
  const since = clockText(report.sinceMs);
  if (report.keys.length === 0) return html`<div class="empty">${empty(since)}</div>`;
  const rows = report.keys.slice(0, MAX_ROWS);
  const last = rows[rows.length - 1];
  const others = rows.length < report.keys.length ? last.atMost : report.othersAtMost;
  return html`
    <p class="hint">
      ${countWithNoun(report.hits, 'call')} since ${since}.
      ${others > 0 ? `Keys not listed: at most ${countText(others)} each.` : nothing}
    </p>
    ${table({ label: title, className: 'top', columns: columnsOf(report, colour), rows, keyOf })}
  `;
}

const keyOf = ({ key }: TopKey): string => key;
