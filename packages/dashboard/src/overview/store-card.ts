/** The store and the service itself: whether they are well. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from '../api/feed.ts';
import type { StoreReport } from '../api/types.ts';
import { countText, dateText, durationText } from '../view/format.ts';

const BREAKER: Readonly<Record<string, string>> = {
  closed: 'closed: the store is asked',
  open: 'open: the store is not asked for a while',
  probing: 'probing: one call tries the store',
};

const fact = (name: string, value: unknown): TemplateResult =>
  html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

const wait = (timeMs: number | undefined): string =>
  timeMs === undefined ? '–' : durationText(timeMs);

const stateOf = ({ up }: StoreReport): TemplateResult =>
  up
    ? html`<span class="state fine">up</span>`
    : html`<span class="state wrong">down: each policy does as its onFailure says</span>`;

export function storeCard({ last, hello, nowMs }: Feed): TemplateResult {
  const store = last?.store;
  const { p50Ms, p99Ms } = last?.decisions ?? {};
  return html`<section class="card" aria-labelledby="store-title">
    <h2 id="store-title">Store and service</h2>
    <dl class="facts">
      ${fact('Store', store?.kind ?? '–')} ${fact('State', store ? stateOf(store) : '–')}
      ${store?.breaker ? fact('Breaker', BREAKER[store.breaker]) : nothing}
      ${fact('Store latency', wait(store?.latencyMs))}
      ${fact('Keys held', store?.keys === undefined ? 'not known' : countText(store.keys))}
      ${fact('Decisions, p50', wait(p50Ms))} ${fact('Decisions, p99', wait(p99Ms))}
      ${fact('Processes', last?.processes ?? hello?.processes ?? '–')}
      ${hello ? uptime(nowMs - hello.startedAtMs, hello.startedAtMs) : fact('Up for', '–')}
      ${fact('Version', hello?.version ?? '–')}
    </dl>
  </section>`;
}

const uptime = (upMs: number, startedAtMs: number): TemplateResult =>
  fact(
    'Up for',
    html`<time title=${`since ${dateText(startedAtMs)}`}>${durationText(Math.max(upMs, 0))}</time>`,
  );
