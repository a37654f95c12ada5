/** Health of the store and the service. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from '../api/feed.ts';
import type { StoreReport } from '../api/types.ts';
import { clockText, countText, dateText, durationText } from '../view/format.ts';

const BREAKER: Readonly<Record<string, string>> = {
  closed: 'closed',
  open: 'open: store calls are suspended',
  probing: 'half-open: probing the store',
};

const fact = (name: string, value: unknown): TemplateResult =>
  html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

const wait = (timeMs: number | undefined): string =>
  timeMs === undefined ? '–' : durationText(timeMs);

const stateOf = ({ up }: StoreReport): TemplateResult =>
  up
    ? html`<span class="state fine">up</span>`
    : html`<span class="state wrong">down: onFailure applies</span>`;

/** Without a connection, the store may be in any state. */
const lostState = ({ up }: StoreReport, dataMs: number): TemplateResult =>
  html`<span class="state wrong">unknown</span>
    <div class="dim">was ${up ? 'up' : 'down'} at ${clockText(dataMs)}</div>`;

export function storeCard({ last, hello, state, dataMs }: Feed): TemplateResult {
  const store = last?.store;
  const { p50Ms, p99Ms } = last?.decisions ?? {};
  const isLive = state === 'live';
  const asOfMs = dataMs ?? hello?.atMs ?? 0;
  const storeState = store && (isLive ? stateOf(store) : lostState(store, asOfMs));
  return html`<section class="card" aria-labelledby="store-title">
    <div class="row">
      <h2 id="store-title">Store</h2>
      ${isLive || last === undefined ? nothing : staleBadge(asOfMs)}
    </div>
    <dl class="facts">
      ${fact('Type', store?.kind ?? '–')} ${fact('State', storeState ?? '–')}
      ${store?.breaker ? fact('Circuit breaker', BREAKER[store.breaker]) : nothing}
      ${fact('Store latency', wait(store?.latencyMs))}
      ${fact('Keys', store?.keys === undefined ? 'unknown' : countText(store.keys))}
      ${fact('Decision p50', wait(p50Ms))} ${fact('Decision p99', wait(p99Ms))}
      ${fact('Processes', last?.processes ?? hello?.processes ?? '–')}
      ${hello ? uptime(asOfMs - hello.startedAtMs, hello.startedAtMs) : fact('Uptime', '–')}
      ${fact('Version', hello?.version ?? '–')}
    </dl>
  </section>`;
}

const staleBadge = (asOfMs: number): TemplateResult =>
  html`<span class="badge stale end">as of ${clockText(asOfMs)}</span>`;

const uptime = (upMs: number, startedAtMs: number): TemplateResult =>
  fact(
    'Uptime',
    html`<time title=${`since ${dateText(startedAtMs)}`}>${durationText(Math.max(upMs, 0))}</time>`,
  );
