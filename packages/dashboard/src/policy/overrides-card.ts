/** Card with the overrides of a policy: limits for single keys or patterns. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { PolledQuery } from '../api/polled-query.ts';
import type { Override } from '../api/types.ts';
import { hrefTo } from '../route.ts';
import { countText, dateText, durationText } from '../view/format.ts';
import { keyText, keyView } from '../view/key-text.ts';
import { pageOf, pager } from '../view/pager.ts';
import { type Column, table } from '../view/table.ts';

export interface OverrideActions {
  readonly add: () => void;
  readonly change: (override: Override) => void;
  readonly remove: (override: Override) => void;
  readonly go: (from: string) => void;
}

/** Returns `in 3 h 5 min`, `expired`, or `until removed` if the override does not expire. */
export function expiryText(expiresAtMs: number | undefined, nowMs: number): string {
  if (expiresAtMs === undefined) return 'until removed';
  const leftMs = expiresAtMs - nowMs;
  return leftMs <= 0 ? 'expired' : `in ${durationText(leftMs)}`;
}

const keyCell = ({ policy, key }: Override): TemplateResult =>
  key.includes('*')
    ? html`<code class="key">${keyView(key)}</code> <span class="badge">pattern</span>`
    : html`<a class="key" href=${hrefTo('key', [policy, key])}>${keyView(key)}</a>`;

const endCell = ({ expiresAtMs }: Override, nowMs: number): TemplateResult =>
  html`${expiryText(expiresAtMs, nowMs)}
  ${expiresAtMs === undefined ? nothing : html`<div class="dim">${dateText(expiresAtMs)}</div>`}`;

const sourceCell = ({ source, persisted }: Override): TemplateResult => {
  if (source === 'file') return html`file <div class="dim">edit the file to change it</div>`;
  return html`API
    <div class="dim">${persisted ? 'survives a restart' : 'lost on restart'}</div>`;
};

function actionCell(override: Override, { change, remove }: OverrideActions): unknown {
  if (override.source === 'file') return nothing;
  const key = keyText(override.key);
  return html`<div class="row cell-buttons">
    <button type="button" class="quiet small" aria-label=${`Edit the override of ${key}`}
      @click=${() => change(override)}>Edit</button>
    <button type="button" class="danger small" aria-label=${`Remove the override of ${key}`}
      @click=${() => remove(override)}>Remove</button>
  </div>`;
}

const columnsOf = (nowMs: number, actions: OverrideActions): readonly Column<Override>[] => [
  { id: 'key', head: 'Key or pattern', isRowHeader: true, className: 'key-cell', cell: keyCell },
  { id: 'limit', head: 'Limit', isNumber: true, cell: ({ limit }) => countText(limit) },
  { id: 'end', head: 'Expires', cell: (each) => endCell(each, nowMs) },
  { id: 'reason', head: 'Reason', className: 'words', cell: ({ reason = '–' }) => keyView(reason) },
  { id: 'source', head: 'Source', cell: sourceCell },
  { id: 'actions', head: 'Actions', cell: (each) => actionCell(each, actions) },
];

export function overridesCard(
  { value, problem }: PolledQuery<readonly Override[]>,
  nowMs: number,
  from: string | undefined,
  actions: OverrideActions,
): TemplateResult {
  return html`<section class="card" aria-labelledby="overrides-title">
    <div class="row">
      <h2 id="overrides-title">
        Overrides <span class="dim">${value && countText(value.length)}</span>
      </h2>
      <button type="button" class="quiet small end" @click=${actions.add}>Add override</button>
    </div>
    ${
      value === undefined
        ? html`<p class="empty">${problem?.message ?? 'Loading overrides…'}</p>`
        : listed(value, nowMs, from, actions)
    }
  </section>`;
}

function listed(
  overrides: readonly Override[],
  nowMs: number,
  from: string | undefined,
  actions: OverrideActions,
): TemplateResult {
  if (overrides.length === 0) {
    return html`<p class="empty">
      Every key has the policy's limit. An override sets another limit for one key or for all keys
      that match a pattern.
    </p>`;
  }
  const page = pageOf(overrides, from);
  return html`${table({
    label: 'Overrides',
    stacksWhenNarrow: true,
    columns: columnsOf(nowMs, actions),
    rows: page.rows,
    keyOf: ({ key, source }) => `${source} ${key}`,
  })}
  ${pager(page, actions.go)}`;
}
