/** The numbers of a key, as they are at a time: what is used, what is left, how long to wait. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { KeyReport, Peek, PolicyDefinition } from '../api/types.ts';
import { clockText, countText, dateText, durationText, windowText } from '../view/format.ts';
import { type KeyFacts, usedAt } from './key-facts.ts';

const DAY_MS = 86_400_000;

const waitText = (waitMs: number): string => (waitMs <= 0 ? 'now' : `in ${durationText(waitMs)}`);

const tile = (name: string, value: unknown, hint: unknown = nothing): TemplateResult =>
  html`<div class="tile">
    <dt>${name}</dt>
    <dd><b>${value}</b> <span class="hint">${hint}</span></dd>
  </div>`;

const wasMs = ({ atMs }: { readonly atMs: number }, waitMs: number, nowMs: number): number =>
  Math.max(0, waitMs - Math.max(0, nowMs - atMs));

export function keyNumbers(
  facts: KeyFacts,
  report: KeyReport,
  policy: PolicyDefinition | undefined,
  nowMs: number,
): TemplateResult {
  const used = usedAt(facts, report, nowMs);
  const { capacity } = facts;
  const nextMs = wasMs(report, report.nextMs, nowMs);
  const resetMs = wasMs(report, report.resetAfterMs, nowMs);
  const isTokens = facts.algorithm === 'token-bucket';
  return html`<dl class="tiles">
    ${tile(isTokens ? 'Taken' : 'Used', countText(used), `of ${countText(capacity)}`)}
    ${tile('Remaining', countText(Math.max(0, capacity - used)), gauge(used, capacity))}
    ${tile('Limit', countText(facts.limit), limitHint(facts, report, policy))}
    ${tile('Next call of cost 1', waitText(nextMs))}
    ${tile(
      'As good as new',
      waitText(resetMs),
      resetMs > 0 ? `at\u00a0${momentText(nowMs + resetMs, nowMs)}` : nothing,
    )}
  </dl>`;
}

/** Today's times without their date. */
const momentText = (timeMs: number, nowMs: number): string =>
  timeMs - nowMs < DAY_MS ? clockText(timeMs) : dateText(timeMs);

/** How full it is; the numbers beside it say the same. */
function gauge(used: number, capacity: number): TemplateResult {
  const share = Math.max(0, Math.min(1, used / capacity));
  return html`<svg class="gauge" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="gauge-all" width="100" height="6" />
    <rect class=${share === 1 ? 'gauge-full' : 'gauge-used'} width=${100 * share} height="6" />
  </svg>`;
}

function limitHint(
  { windowMs, capacity, limit }: KeyFacts,
  { override }: KeyReport,
  policy: PolicyDefinition | undefined,
): unknown {
  const burst = capacity === limit ? '' : `, up to ${countText(capacity)} at once`;
  const per = `per ${windowText(windowMs)}${burst}`;
  if (override === undefined) return per;
  const instead = policy === undefined ? '' : `, not ${countText(policy.limit)}`;
  return html`${per}${instead} <span class="badge override">override</span>`;
}

/** Who gave the key a limit of its own, why, and until when. */
export function overrideNote(
  { override, key }: KeyReport,
  nowMs: number,
): TemplateResult | typeof nothing {
  if (override === undefined) return nothing;
  const { limit, reason, expiresAtMs, source, key: fits } = override;
  const who = source === 'file' ? 'the configuration files' : 'the API';
  return html`<p class="note">
    <span class="badge override">override</span>
    A limit of ${countText(limit)}, set by ${who}${
      fits === key ? nothing : html` for all keys like <code>${fits}</code>`
    }, ${
      expiresAtMs === undefined
        ? 'until it is removed'
        : `until ${dateText(expiresAtMs)} (${waitText(expiresAtMs - nowMs)})`
    }.
    ${reason === undefined ? nothing : html`Reason: <q>${reason}</q>`}
  </p>`;
}

/** What the service says of a call of another cost. */
export type CostAnswer =
  | { readonly kind: 'asking' }
  | { readonly kind: 'told'; readonly cost: number; readonly peek: Peek }
  | { readonly kind: 'never'; readonly most: number }
  | { readonly kind: 'wrong'; readonly text: string };

export function costText(answer: CostAnswer, nowMs: number): string {
  switch (answer.kind) {
    case 'asking':
      return '…';
    case 'wrong':
      return answer.text;
    case 'never':
      return `never passes: ${countText(answer.most)} is the most that ever fits`;
    case 'told': {
      const { peek } = answer;
      return peek.allowed
        ? 'passes now'
        : `passes ${waitText(wasMs(peek, peek.retryAfterMs, nowMs))}`;
    }
  }
}
