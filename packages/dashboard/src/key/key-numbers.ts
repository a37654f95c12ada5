/** The numbers of a key: used, remaining, limit, and the times of the next call and the reset. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { isConcurrency, type KeyDescription } from 'sluice/engine';
import type { KeyReport, LimitParams, PolicyDefinition } from '../api/types.ts';
import { clockText, countText, dateText, durationText, windowText } from '../view/format.ts';
import { keyView } from '../view/key-text.ts';

const waitText = (waitMs: number): string => (waitMs <= 0 ? 'now' : `in ${durationText(waitMs)}`);

/** Replaces the space between a number and its unit by a no-break space. */
const keepUnits = (text: string): string => text.replace(/(\d) (?=[a-z])/g, '$1\u00a0');

const tile = (name: string, value: string, hint: unknown = nothing): TemplateResult =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd><b>${keepUnits(value)}</b> <span class="hint">${hint}</span></dd>
  </div>`;

export function keyNumbers(
  { used, remaining, limit }: KeyDescription,
  params: LimitParams,
  report: KeyReport,
  policy: PolicyDefinition | undefined,
): TemplateResult {
  const { atMs, nextMs, resetAfterMs: resetMs } = report;
  const usedLabel = isConcurrency(report) ? 'Held' : 'Used';
  return html`<dl class="tiles">
    ${tile(usedLabel, countText(used), html`of ${countText(limit)} ${gauge(used, limit)}`)}
    ${tile('Remaining', countText(remaining))}
    ${tile('Limit', countText(params.limit), limitHint(params, report, policy))}
    ${tile('Next call admitted', waitText(nextMs), 'for cost 1')}
    ${
      resetMs > 0
        ? tile('Resets', waitText(resetMs), `at\u00a0${resetTimeText(atMs + resetMs, atMs)}`)
        : tile('Resets', '–', 'nothing used')
    }
  </dl>`;
}

/** Returns the time of day, or the date and time if `timeMs` is on another day than `nowMs`. */
const resetTimeText = (timeMs: number, nowMs: number): string =>
  dateText(timeMs).slice(0, 10) === dateText(nowMs).slice(0, 10)
    ? clockText(timeMs)
    : dateText(timeMs);

/** Draws the used share as a bar. Hidden from screen readers: the tiles have the same numbers. */
function gauge(used: number, capacity: number): TemplateResult {
  const share = Math.max(0, Math.min(1, used / capacity));
  return html`<svg class="gauge" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="gauge-all" width="100" height="6" />
    <rect class=${share === 1 ? 'gauge-full' : 'gauge-used'} width=${100 * share} height="6" />
  </svg>`;
}

function limitHint(
  { windowMs, capacity, limit }: LimitParams,
  report: KeyReport,
  policy: PolicyDefinition | undefined,
): string {
  const { override } = report;
  const burst = capacity === limit ? '' : `, burst ${countText(capacity)}`;
  const window = windowText(windowMs);
  const per = isConcurrency(report) ? `at a time, lease ${window}` : `per ${window}${burst}`;
  if (override === undefined) return per;
  const replaced = policy === undefined ? '' : `, instead of ${countText(policy.limit)}`;
  return `${per}${replaced}`;
}

/** Shows how long the key is blocked, or nothing if it is not blocked. */
export function blockNote({ blockedUntilMs, blocks = 0, atMs }: KeyReport) {
  if (blockedUntilMs === undefined) return nothing;
  const row = blocks > 1 ? ` ${countText(blocks)} blocks in a row.` : '';
  return html`<p class="note" role="status">
    <span class="badge denied">blocked</span>
    Every call is denied until ${resetTimeText(blockedUntilMs, atMs)}, for
    ${durationText(blockedUntilMs - atMs)}.${row}
  </p>`;
}

export function overrideNote({ override, key, atMs }: KeyReport): TemplateResult | typeof nothing {
  if (override === undefined) return nothing;
  const { limit, reason, expiresAtMs, source, key: pattern } = override;
  const setBy = source === 'file' ? 'the configuration files' : 'the API';
  return html`<p class="note">
    <span class="badge override">override</span>
    A limit of ${countText(limit)}, set by ${setBy}${
      pattern === key
        ? nothing
        : html` for all keys matching <code class="key">${keyView(pattern)}</code>`
    }, ${
      expiresAtMs === undefined
        ? 'until removed'
        : `until ${dateText(expiresAtMs)} (${waitText(expiresAtMs - atMs)})`
    }.
    ${reason === undefined ? nothing : html`Reason: <q>${keyView(reason)}</q>`}
  </p>`;
}

/** The result of the form that asks when a call of a given cost would be admitted. */
export type CostResult =
  | { readonly kind: 'pending' }
  | { readonly kind: 'known'; readonly waitMs: number }
  | { readonly kind: 'never'; readonly limit: number }
  | { readonly kind: 'invalid' };

export function costText(result: CostResult): string {
  switch (result.kind) {
    case 'pending':
      return '…';
    case 'invalid':
      return 'is invalid: expected a whole number, at least 1';
    case 'never':
      return `is never admitted: the limit is ${countText(result.limit)}`;
    case 'known':
      return `is admitted ${waitText(result.waitMs)}`;
  }
}
