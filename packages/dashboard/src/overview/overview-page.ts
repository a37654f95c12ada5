/** Overview: traffic, store health and all policies. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { PolledQuery } from '../api/polled-query.ts';
import type { PolicyDefinition, ReadyReport } from '../api/types.ts';
import { every } from '../clock.ts';
import type { Page, PageContext, PageFactory } from '../page.ts';
import type { Route } from '../route.ts';
import { chart } from '../view/chart.ts';
import { command } from '../view/command.ts';
import { countsFigure } from '../view/counts.ts';
import { dataTable } from '../view/data-table.ts';
import { countText } from '../view/format.ts';
import { heatLegend } from '../view/heat-strip.ts';
import { pageOf, pager } from '../view/pager.ts';
import { parseRange, type Range, rangeButtons } from '../view/range.ts';
import { parseSorting, type Sorting, sortingText, sortRows, table } from '../view/table.ts';
import { columnsFor, heatTable, omittedText, type PolicyRow, policyRows } from './policy-table.ts';
import { counters } from './rate-cards.ts';
import { storeCard } from './store-card.ts';

/** Configuration errors are not part of the event stream. */
const READY_POLL_MS = 10_000;
/** A filter field appears above this many policies. */
const FEW_POLICIES = 10;
const FIRST_SORTING: Sorting = { by: 'denied', isDescending: true };

class OverviewPage implements Page {
  readonly title = 'Overview';
  readonly #context: PageContext;
  readonly #policies: PolledQuery<readonly PolicyDefinition[]>;
  readonly #ready: PolledQuery<ReadyReport>;
  readonly #stops: readonly (() => void)[];
  #route: Route;
  /** Policy names in the order last shown. */
  #order: readonly string[] = [];

  constructor(context: PageContext, route: Route) {
    const { api, feed, redraw } = context;
    this.#context = context;
    this.#route = route;
    this.#policies = new PolledQuery(() => api.policies(), redraw);
    this.#ready = new PolledQuery(() => api.ready(), redraw);
    this.#stops = [
      feed.onChanged(() => {
        void this.#policies.refresh();
        void this.#ready.refresh();
      }),
      every(READY_POLL_MS, () => {
        if (!document.hidden) void this.#ready.refreshQuietly();
      }),
      () => this.#policies.cancel(),
      () => this.#ready.cancel(),
    ];
    void this.#policies.refresh();
    void this.#ready.refresh();
  }

  onRouteChange(route: Route): void {
    this.#route = route;
  }

  leave(): void {
    for (const stop of this.#stops) stop();
  }

  view(): TemplateResult {
    const { feed } = this.#context;
    const { history } = feed;
    const range = parseRange(this.#route.query.range);
    const isKnown = history.lastMs > 0;
    return html`
      <div class="row page-head">
        <h1>Overview</h1>
        ${rangeButtons(range, (text) => this.#go({ range: text }))}
      </div>
      ${this.#configErrors()} ${counters(isKnown ? history.total : undefined, range)}
      <div class="columns main-and-side">
        <section class="card" aria-labelledby="traffic-title">
          <h2 id="traffic-title">Calls per second</h2>
          ${
            isKnown
              ? chart(countsFigure(history.total, history.times(), range.seconds))
              : html`<p class="empty">Waiting for the first second…</p>`
          }
        </section>
        ${storeCard(feed)}
      </div>
      ${this.#policyCard(range)}
    `;
  }

  #configErrors(): TemplateResult | typeof nothing {
    const config = this.#ready.value?.config;
    if (config === undefined || config.ok) return nothing;
    const problems = config.problems ?? [];
    return html`<section class="card banner" role="alert" aria-labelledby="config-errors-title">
      <h2 id="config-errors-title">Configuration errors</h2>
      <p>The last valid configuration stays in effect. Corrected files are loaded automatically.</p>
      <ul class="plain">
        ${problems.map((problem) => html`<li><code>${problem}</code></li>`)}
      </ul>
    </section>`;
  }

  #policyCard(range: Range): TemplateResult {
    const { value, problem } = this.#policies;
    return html`<section class="card" aria-labelledby="policies-title">
      ${
        value === undefined
          ? html`<h2 id="policies-title">Policies</h2>
              <p class="empty">${problem?.message ?? 'Loading policies…'}</p>`
          : this.#policyTable(value, range)
      }
    </section>`;
  }

  #policyTable(policies: readonly PolicyDefinition[], range: Range): TemplateResult {
    const { feed } = this.#context;
    const { lastMs } = feed.history;
    const all = policyRows(policies, feed.history, range.seconds);
    const head = html`<h2 id="policies-title">
      Policies <span class="dim">${countText(policies.length)}</span>
    </h2>`;
    if (all.length === 0) return html`${head} ${noPolicies()}`;
    const omitted = feed.last?.omitted ?? 0;
    const span = { lastMs, seconds: range.seconds, isPartial: omitted > 0 };
    const columns = columnsFor(span);
    const sorting = parseSorting(this.#route.query.sort, columns, FIRST_SORTING);
    const filter = this.#route.query.filter ?? '';
    const matching = this.#arranged(sortRows(all, columns, sorting)).filter(({ name }) =>
      name.toLowerCase().includes(filter.toLowerCase()),
    );
    const page = pageOf(matching, this.#route.query.from);
    const { rows } = page;
    const caption = 'Fullest key of each policy over time';
    return html`
      <div class="row">
        ${head} ${all.length > FEW_POLICIES ? this.#filterField(filter) : nothing}
      </div>
      ${
        rows.length === 0
          ? html`<p class="empty">No policy name contains “${filter}”.</p>`
          : table({
              label: 'Policies',
              className: 'policies',
              stacksWhenNarrow: true,
              columns,
              rows,
              keyOf: ({ name }) => name,
              sorting,
              onSort: (next) => this.#go({ sort: sortingText(next) }),
            })
      }
      ${pager(page, (from) => this.#go({ from }))}
      ${omitted > 0 ? html`<p class="hint">${omittedText(omitted)}</p>` : nothing}
      ${heatLegend()}
      ${dataTable({
        summary: 'Fullest keys as a table',
        caption,
        ...heatTable(rows, span),
      })}
    `;
  }

  /** Keeps the row order while the pointer or the focus is in the table. */
  #arranged(rows: readonly PolicyRow[]): readonly PolicyRow[] {
    const isHeld = document.querySelector('.policies tbody:is(:hover, :focus-within)') !== null;
    if (!isHeld) {
      this.#order = rows.map(({ name }) => name);
      return rows;
    }
    const places = new Map(this.#order.map((name, at) => [name, at]));
    const placeOf = ({ name }: PolicyRow): number => places.get(name) ?? places.size;
    return [...rows].sort((a, b) => placeOf(a) - placeOf(b));
  }

  #filterField(filter: string): TemplateResult {
    const change = (event: Event): void =>
      this.#go({ filter: (event.target as HTMLInputElement).value, from: '' });
    return html`<div class="row end">
      <label for="policy-filter">Filter</label>
      <input id="policy-filter" type="search" autocomplete="off" placeholder="policy name"
        .value=${filter} @input=${change} />
    </div>`;
  }

  #go(change: Readonly<Record<string, string>>): void {
    const query = Object.fromEntries(
      Object.entries({ ...this.#route.query, ...change }).filter(([, value]) => value !== ''),
    );
    this.#context.go({ ...this.#route, query }, 'replace');
  }
}

const EXAMPLE = `policies:
  perMinute: 100 per 1m`;

const noPolicies = (): TemplateResult => html`<div class="empty">
  <p>There are no policies yet. Create a file with one:</p>
  ${command(EXAMPLE)}
  <p>Validate it and start the service with it:</p>
  ${command('sluice validate sluice.yaml && sluice serve --config sluice.yaml')}
  <p>All fields are described in <code>docs/configuration.md</code>.</p>
</div>`;

export const overviewPage: PageFactory = (context, route) => new OverviewPage(context, route);
