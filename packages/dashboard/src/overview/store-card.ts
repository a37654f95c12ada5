/** Card with the health of the store and the service. */
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

const latencyText = (timeMs: number | undefined): string =>
  timeMs === undefined ? '–' : durationText(timeMs);

/** Returns text such as `p50 0.8 ms, p99 9.3 ms`. */
const latencies = (p50Ms: number | undefined, p99Ms: number | undefined): unknown =>
  p50Ms === undefined
    ? '–'
    : html`<span class="unbroken">p50 ${latencyText(p50Ms)},</span>
        <span class="unbroken">p99 ${latencyText(p99Ms)}</span>`;

const stateOf = ({ up }: StoreReport): TemplateResult =>
  up ? html`<span class="state fine">up</span>` : html`<span class="state wrong">down</span>`;

/** Returns the state while the connection is lost: `unknown`, with the last known state. */
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
      ${fact('Store latency', latencyText(store?.latencyMs))}
      ${fact('Keys', store?.keys === undefined ? 'unknown' : countText(store.keys))}
      ${fact('Decision latency', latencies(p50Ms, p99Ms))}
      ${fact('Processes', last?.processes ?? hello?.processes ?? '–')}
      ${hello ? uptime(asOfMs - hello.startedAtMs, hello.startedAtMs) : fact('Uptime', '–')}
      ${fact('Version', hello?.version ?? '–')}
    </dl>
  </section>`;
}

const staleBadge = (asOfMs: number): TemplateResult =>
  html`<span class="badge stale end">as of ${clockText(asOfMs)}</span>`;

/** Returns a duration in whole seconds, because the page updates it once per second. */
const wholeSeconds = (timeMs: number): string =>
  durationText(Math.max(0, Math.floor(timeMs / 1000)) * 1000);

const uptime = (upMs: number, startedAtMs: number): TemplateResult =>
  fact(
    'Uptime',
    html`<time title=${`since ${dateText(startedAtMs)}`}>${wholeSeconds(upMs)}</time>`,
  );
