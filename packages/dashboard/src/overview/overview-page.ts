/** Overview: traffic, store health and all policies. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from '../api/feed.ts';
import type { Timeline } from '../api/history.ts';
import { MinuteSeries } from '../api/minute-series.ts';
import { PolledQuery } from '../api/polled-query.ts';
import type { PolicyDefinition, ReadyReport } from '../api/types.ts';
import { every } from '../clock.ts';
import type { Page, PageContext, PageFactory } from '../page.ts';
import type { Route } from '../route.ts';
import { chart } from '../view/chart.ts';
import { command } from '../view/command.ts';
import { type CountField, chartTitle, countsFigure, STACK_NOTE, sum } from '../view/counts.ts';
import { dataTable } from '../view/data-table.ts';
import { clockText, countText, minuteText } from '../view/format.ts';
import { heatLegend } from '../view/heat-strip.ts';
import { pageOf, pager } from '../view/pager.ts';
import { grafanaLink, parseRange, type Range, rangeButtons } from '../view/range.ts';
import { parseSorting, type Sorting, sortingText, sortRows, table } from '../view/table.ts';
import { columnsFor, heatTable, omittedText, type PolicyRow, policyRows } from './policy-table.ts';
import { counters } from './rate-cards.ts';
import { storeCard } from './store-card.ts';

/** Polling interval of `/readyz`: configuration errors are not in the event stream. */
const READY_POLL_MS = 10_000;
/** With more policies than this, the page has a filter field. */
const FEW_POLICIES = 10;
const HEAT_CELLS = 60;
const FIRST_SORTING: Sorting = { by: 'denied', isDescending: true };

class OverviewPage implements Page {
  readonly title = 'Overview';
  readonly #context: PageContext;
  /** Counts of all policies together, by minute. */
  readonly #minutes: MinuteSeries;
  /** Counts of each policy, in as many steps as a heat strip has cells. */
  readonly #policyMinutes: MinuteSeries;
  readonly #ready: PolledQuery<ReadyReport>;
  readonly #stops: readonly (() => void)[];
  #route: Route;
  /** Policy names in the order last shown. */
  #order: readonly string[] = [];

  constructor(context: PageContext, route: Route) {
    const { api, feed, redraw } = context;
    this.#context = context;
    this.#route = route;
    this.#minutes = new MinuteSeries(feed, (minutes) => api.series({ minutes, count: 0 }), redraw);
    this.#policyMinutes = new MinuteSeries(
      feed,
      (minutes) => api.series({ minutes, step: minutes / HEAT_CELLS }),
      redraw,
    );
    this.#ready = new PolledQuery(() => api.ready(), redraw);
    this.#stops = [
      feed.onChanged(() => void this.#ready.refresh()),
      every(READY_POLL_MS, () => {
        if (!document.hidden) void this.#ready.refreshQuietly();
      }),
      () => this.#minutes.stop(),
      () => this.#policyMinutes.stop(),
      () => this.#ready.cancel(),
    ];
    void this.#ready.refresh();
    this.#showRange();
  }

  onRouteChange(route: Route): void {
    this.#route = route;
    this.#showRange();
  }

  get #range(): Range {
    return parseRange(this.#route.query.range);
  }

  /** Loads the counts by minute, if the range shows minutes. */
  #showRange(): void {
    const { isByMinute, minutes } = this.#range;
    this.#minutes.show(isByMinute ? minutes : undefined);
    this.#policyMinutes.show(isByMinute ? minutes : undefined);
  }

  /** Counts of the last seconds; undefined while the connection is lost. */
  get #live(): Timeline | undefined {
    const { history, state } = this.#context.feed;
    return state === 'live' && history.lastMs > 0 ? history : undefined;
  }

  leave(): void {
    for (const stop of this.#stops) stop();
  }

  view(): TemplateResult {
    const { feed } = this.#context;
    const range = this.#range;
    return html`
      <div class="row page-head">
        <h1>Overview</h1>
        <div class="row">
          ${grafanaLink(feed.hello?.grafanaUrl)}
          ${rangeButtons(range, (text) => this.#go({ range: text }))}
        </div>
      </div>
      ${this.#configErrors()} ${this.#counters(range)}
      <div class="columns main-and-side">
        ${this.#chartCard(range)} ${storeCard(feed)}
      </div>
      ${this.#policyCard(range)}
    `;
  }

  #counters(range: Range): TemplateResult {
    const { history } = this.#context.feed;
    const shown = range.isByMinute ? this.#minutes.value : history;
    const isKnown = shown !== undefined && history.lastMs > 0;
    const startMs = history.lastMs + 1000 - range.seconds * 1000;
    const sinceMs = shown?.sinceMs ?? 0;
    const since = `since ${range.isByMinute ? minuteText(sinceMs) : clockText(sinceMs)}`;
    return counters({
      current: this.#live?.total,
      total: (field) => (isKnown ? totalOf(field, shown, history, range) : undefined),
      span: isKnown && sinceMs > startMs ? since : `in ${range.text}`,
    });
  }

  #chartCard(range: Range): TemplateResult {
    const { feed } = this.#context;
    const { history } = feed;
    const shown = range.isByMinute ? this.#minutes.value : history;
    const isKnown = shown !== undefined && shown.lastMs > 0;
    return html`<section class="card" aria-labelledby="traffic-title">
      <div class="row">
        <h2 id="traffic-title">${chartTitle(range)}</h2>
        <span class="hint">${STACK_NOTE}</span>
      </div>
      ${
        isKnown
          ? chart(countsFigure(shown.total, shown.times(), range))
          : html`<p class="empty">${this.#minutes.problem?.message ?? waitingText(feed)}</p>`
      }
    </section>`;
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
    const { feed, policies } = this.#context;
    const shown = range.isByMinute ? this.#policyMinutes.value : feed.history;
    const problem = policies.problem ?? this.#policyMinutes.problem;
    return html`<section class="card" aria-labelledby="policies-title">
      ${
        policies.value === undefined || shown === undefined
          ? html`<h2 id="policies-title">Policies</h2>
              <p class="empty">${problem?.message ?? 'Loading policies…'}</p>`
          : this.#policyTable(policies.value, range, shown)
      }
    </section>`;
  }

  #policyTable(
    policies: readonly PolicyDefinition[],
    range: Range,
    shown: Timeline,
  ): TemplateResult {
    const { feed } = this.#context;
    const { lastMs, stepMs } = shown;
    const steps = (range.seconds * 1000) / stepMs;
    const all = policyRows(policies, { shown, live: this.#live }, steps);
    const head = html`<h2 id="policies-title">
      Policies <span class="dim">${countText(policies.length)}</span>
    </h2>`;
    if (all.length === 0) return html`${head} ${noPolicies()}`;
    const omitted = feed.last?.omitted ?? 0;
    const { seconds, text } = range;
    const span = { lastMs, stepMs, seconds, text, isPartial: omitted > 0 };
    const columns = columnsFor(span);
    const sorting = parseSorting(this.#route.query.sort, columns, FIRST_SORTING);
    const filter = this.#route.query.filter ?? '';
    const matching = this.#inStableOrder(sortRows(all, columns, sorting)).filter(({ name }) =>
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
        asOfMs: lastMs + stepMs,
        ...heatTable(rows, span),
      })}
    `;
  }

  /**
   * Returns the sorted rows. While the pointer or the focus is in the table, keeps the previous
   * order instead, so that rows do not move.
   */
  #inStableOrder(rows: readonly PolicyRow[]): readonly PolicyRow[] {
    const isInUse = document.querySelector('.policies tbody:is(:hover, :focus-within)') !== null;
    if (!isInUse) {
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

const waitingText = ({ state }: Feed): string => (state === 'lost' ? 'No data' : 'Loading…');

/**
 * Returns the count of a field in the range. Counts by minute end with the last complete minute, so
 * the function adds the seconds since then from `history`.
 */
function totalOf(field: CountField, shown: Timeline, history: Timeline, range: Range): number {
  if (!range.isByMinute) return sum(history.total[field], range.steps);
  const seconds = Math.max(0, (history.lastMs - shown.lastMs) / 1000 + 1 - 60);
  return sum(shown.total[field], shown.length) + sum(history.total[field], seconds);
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
