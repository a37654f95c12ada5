/** Health of the store and the service. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from '../api/feed.ts';
import type { StoreReport } from '../api/types.ts';
import { countText, dateText, durationText } from '../view/format.ts';

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

export function storeCard({ last, hello, nowMs }: Feed): TemplateResult {
  const store = last?.store;
  const { p50Ms, p99Ms } = last?.decisions ?? {};
  return html`<section class="card" aria-labelledby="store-title">
    <h2 id="store-title">Store</h2>
    <dl class="facts">
      ${fact('Type', store?.kind ?? '–')} ${fact('State', store ? stateOf(store) : '–')}
      ${store?.breaker ? fact('Circuit breaker', BREAKER[store.breaker]) : nothing}
      ${fact('Store latency', wait(store?.latencyMs))}
      ${fact('Keys', store?.keys === undefined ? 'unknown' : countText(store.keys))}
      ${fact('Decision p50', wait(p50Ms))} ${fact('Decision p99', wait(p99Ms))}
      ${fact('Processes', last?.processes ?? hello?.processes ?? '–')}
      ${hello ? uptime(nowMs - hello.startedAtMs, hello.startedAtMs) : fact('Uptime', '–')}
      ${fact('Version', hello?.version ?? '–')}
    </dl>
  </section>`;
}

const uptime = (upMs: number, startedAtMs: number): TemplateResult =>
  fact(
    'Uptime',
    html`<time title=${`since ${dateText(startedAtMs)}`}>${durationText(Math.max(upMs, 0))}</time>`,
  );
