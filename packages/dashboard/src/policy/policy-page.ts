/** The page of a policy: definition, traffic, top keys, shadow mode and overrides. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { HISTORY_SECONDS, Timeline } from '../api/history.ts';
import { MinuteSeries } from '../api/minute-series.ts';
import { PolledQuery } from '../api/polled-query.ts';
import type { ChangeResult, Override, PolicyDefinition, TopBy, TopReport } from '../api/types.ts';
import { every } from '../clock.ts';
import type { Page, PageContext, PageFactory } from '../page.ts';
import { hrefTo, type Route } from '../route.ts';
import { chart } from '../view/chart.ts';
import { checkCommand, command } from '../view/command.ts';
import { chartTitle, countsFigure, SHADOW_FIELDS, STACK_NOTE } from '../view/counts.ts';
import { dataTable } from '../view/data-table.ts';
import { Dialogs } from '../view/dialog.ts';
import { clockText } from '../view/format.ts';
import {
  HEAT_HEADS,
  type HeatCell,
  heatCells,
  heatColumns,
  heatLegend,
  heatStrip,
} from '../view/heat-strip.ts';
import { keyText, keyView, shortKeyText } from '../view/key-text.ts';
import { askForOverride } from '../view/override-form.ts';
import { definitionText, deniesAll } from '../view/policy-text.ts';
import { grafanaLink, parseRange, type Range, rangeButtons } from '../view/range.ts';
import { definitionCard } from './definition-card.ts';
import { overridesCard } from './overrides-card.ts';
import { MAX_KEYS, shadowCard } from './shadow-card.ts';
import { type TopList, topCard } from './top-keys-card.ts';

const POLL_MS = 3000;

class PolicyPage implements Page {
  readonly #context: PageContext;
  readonly #dialogs: Dialogs;
  readonly #overrides: PolledQuery<readonly Override[]>;
  readonly #top: Readonly<Record<TopBy, PolledQuery<TopReport>>>;
  /** Counts of the policy by second. Requested only if the event stream omits policies. */
  readonly #series: PolledQuery<Timeline>;
  readonly #minutes: MinuteSeries;
  readonly #stops: readonly (() => void)[];
  #route: Route;

  constructor(context: PageContext, route: Route) {
    const { api, feed, redraw } = context;
    this.#context = context;
    this.#route = route;
    this.#dialogs = new Dialogs(redraw);
    this.#overrides = new PolledQuery(() => api.overrides(this.#name), redraw);
    this.#series = new PolledQuery(
      async () => Timeline.of(await api.series({ seconds: HISTORY_SECONDS, policy: this.#name })),
      redraw,
    );
    this.#minutes = new MinuteSeries(
      feed,
      (minutes) => api.series({ minutes, policy: this.#name }),
      redraw,
    );
    const top = (by: TopBy): PolledQuery<TopReport> =>
      new PolledQuery(() => api.top(this.#name, by, MAX_KEYS), redraw);
    this.#top = { denied: top('denied'), allowed: top('allowed') };
    this.#stops = [
      feed.onChanged(() => this.#refresh()),
      every(POLL_MS, () => this.#refreshNumbers()),
      () => this.#minutes.stop(),
      ...this.#all.map((query) => () => query.cancel()),
    ];
    this.#showRange();
    this.#refresh();
  }

  get title(): string {
    return keyText(this.#name);
  }

  get #name(): string {
    return this.#route.names[0] ?? '';
  }

  get #all(): readonly PolledQuery<unknown>[] {
    return [this.#overrides, this.#series, ...Object.values(this.#top)];
  }

  onRouteChange(route: Route): void {
    const isSame = route.names[0] === this.#name;
    this.#route = route;
    this.#showRange();
    if (isSame) return;
    this.#dialogs.close();
    for (const query of this.#all) query.value = undefined;
    this.#minutes.clear();
    this.#refresh();
  }

  leave(): void {
    for (const stop of this.#stops) stop();
  }

  get #range(): Range {
    return parseRange(this.#route.query.range);
  }

  /** Loads the counts by minute, if the range shows minutes. */
  #showRange(): void {
    const { isByMinute, minutes } = this.#range;
    this.#minutes.show(isByMinute ? minutes : undefined);
  }

  /** Loads the overrides and the numbers, unless the policy is unknown. */
  #refresh(): void {
    void this.#context.policies.latest.then(() => {
      if (this.#policy === undefined) return;
      void this.#overrides.refresh();
      this.#refreshNumbers();
    });
  }

  get #policy(): PolicyDefinition | undefined {
    return this.#context.policies.value?.find(({ name }) => name === this.#name);
  }

  #refreshNumbers(): void {
    if (document.hidden || this.#policy === undefined) return;
    void this.#top.denied.refreshQuietly();
    void this.#top.allowed.refreshQuietly();
    if ((this.#context.feed.last?.omitted ?? 0) > 0) void this.#series.refreshQuietly();
  }

  view(): TemplateResult {
    const { value, problem } = this.#context.policies;
    if (value === undefined) {
      return html`<h1>${keyView(this.#name)}</h1>
        <p class="empty">${problem?.message ?? 'Loading the policy…'}</p>`;
    }
    const policy = this.#policy;
    return policy === undefined ? this.#unknown(value) : this.#known(policy);
  }

  #unknown(policies: readonly PolicyDefinition[]): TemplateResult {
    return html`<h1>Unknown policy “${keyView(this.#name)}”</h1>
      <div class="empty">
        <p>It may have been renamed or removed from the files. Existing policies:</p>
        <ul class="names">
          ${policies.map(
            ({ name }) => html`<li><a href=${hrefTo('policy', [name])}>${name}</a></li>`,
          )}
        </ul>
        <p><a href=${hrefTo('overview')}>Back to the overview</a></p>
      </div>`;
  }

  #known(policy: PolicyDefinition): TemplateResult {
    const range = this.#range;
    return html`
      ${this.#head(policy, range)}
      <div class="columns main-and-side">
        ${this.#trafficCard(policy, range)}
        <div class="stack">
          ${shadowCard(policy, this.#top.denied.value, {
            ask: (question) => this.#dialogs.ask(question),
            set: (shadow) => this.#setShadow(policy, shadow),
          })}
          ${definitionCard(policy)}
        </div>
      </div>
      <div class="columns uneven">${this.#topLists(policy).map(topCard)}</div>
      ${deniesAll(policy) ? nothing : this.#overridesCard(policy)}
      ${this.#dialogs.view()}
    `;
  }

  #overridesCard(policy: PolicyDefinition): TemplateResult {
    return overridesCard(this.#overrides, this.#context.feed.nowMs, this.#route.query.from, {
      add: () => this.#askForOverride(policy),
      change: (override) => this.#askForOverride(policy, override),
      remove: (override) => this.#askToRemove(override),
      go: (from) => this.#go({ from }),
    });
  }

  #head(policy: PolicyDefinition, range: Range): TemplateResult {
    return html`<div class="row page-head">
      <div>
        <nav class="crumbs" aria-label="Breadcrumb">
          <a href=${hrefTo('overview')}>Overview</a> <span aria-hidden="true">›</span> Policy
        </nav>
        <h1>
          ${policy.name} ${policy.shadow ? html`<span class="badge shadow">shadow</span>` : nothing}
        </h1>
        <p class="dim">${definitionText(policy)}</p>
      </div>
      <div class="row">
        ${grafanaLink(this.#context.feed.hello?.grafanaUrl)}
        ${rangeButtons(range, (text) => this.#go({ range: text }))}
      </div>
    </div>`;
  }

  #trafficCard(policy: PolicyDefinition, range: Range): TemplateResult {
    const shown = this.#shown(range);
    const series = shown?.seriesOf(policy.name);
    const fields = policy.shadow ? SHADOW_FIELDS : undefined;
    const live = hrefTo('denials', [], { policy: policy.name });
    return html`<section class="card" aria-labelledby="traffic-title">
      <div class="row">
        <h2 id="traffic-title">${chartTitle(range)}</h2>
        ${policy.shadow ? nothing : html`<span class="hint">${STACK_NOTE}</span>`}
        <a class="end" href=${live}>Recent denials</a>
      </div>
      ${
        shown === undefined || series === undefined
          ? html`<p class="empty">${this.#minutes.problem?.message ?? 'Loading…'}</p>`
          : html`${chart(countsFigure(series, shown.times(), range, fields))}
            ${fullestKey(
              policy.name,
              heatCells(series, shown.lastMs, range.seconds, shown.stepMs),
              shown.lastMs + shown.stepMs,
            )}`
      }
    </section>`;
  }

  /**
   * Returns the counts of the range, or undefined until they are loaded. Counts by second come from
   * the event stream, or from `/v1/series` if the stream omits policies.
   */
  #shown(range: Range): Timeline | undefined {
    if (range.isByMinute) return this.#minutes.value;
    const { history, last } = this.#context.feed;
    const isPartial = (last?.omitted ?? 0) > 0;
    const shown = isPartial ? (this.#series.value ?? history) : history;
    return shown.lastMs === 0 ? undefined : shown;
  }

  #topLists(policy: PolicyDefinition): readonly TopList[] {
    const { name, shadow } = policy;
    const none = shadow ? 'No key would have been denied' : 'No key was denied';
    const denied: TopList = {
      by: 'denied',
      colour: shadow ? 'shadow-denied' : 'denied',
      title: shadow ? 'Top keys by shadow denials' : 'Top keys by denials',
      empty: (since) => html`<p>${none} since ${since}.</p>`,
      query: this.#top.denied,
    };
    if (deniesAll(policy)) return [denied];
    return [
      denied,
      {
        by: 'allowed',
        colour: 'allowed',
        title: 'Top keys by admissions',
        empty: (since) =>
          html`<p>No call was admitted since ${since}. To send one:</p>
            ${command(checkCommand(name, 'ada'))}`,
        query: this.#top.allowed,
      },
    ];
  }

  #go(change: Readonly<Record<string, string>>): void {
    this.#context.go({ ...this.#route, query: { ...this.#route.query, ...change } }, 'replace');
  }

  async #setShadow({ name }: PolicyDefinition, shadow: boolean | null): Promise<void> {
    const { api } = this.#context;
    const change = await api.setShadow(name, shadow);
    await this.#context.policies.refresh();
    const now = change.policy?.shadow ? 'in shadow mode' : 'enforced';
    this.#notify(`${name} is ${now}.`, shadow === null || change.persisted);
  }

  #askForOverride(policy: PolicyDefinition, existing?: Override): void {
    const { api, feed } = this.#context;
    askForOverride(this.#dialogs, {
      ...{ policy, existing, nowMs: feed.nowMs },
      save: (key, fields) =>
        this.#changeOverride(`Override for ${shortKeyText(key)} saved.`, () =>
          api.setOverride(policy.name, key, fields),
        ),
    });
  }

  #askToRemove({ policy, key }: Override): void {
    const { api } = this.#context;
    this.#dialogs.ask({
      title: 'Remove override?',
      action: 'Remove',
      isDanger: true,
      body: () => html`<p>
        The policy's limit, or the next matching override, applies to
        <code class="key">${keyView(key)}</code> from the next decision on.
      </p>`,
      run: () =>
        this.#changeOverride(`Override for ${shortKeyText(key)} removed.`, () =>
          api.deleteOverride(policy, key),
        ),
    });
  }

  async #changeOverride(done: string, change: () => Promise<ChangeResult>): Promise<void> {
    const { persisted } = await change();
    await Promise.all([this.#overrides.refresh(), this.#context.policies.refresh()]);
    this.#notify(done, persisted);
  }

  #notify(done: string, persisted: boolean): void {
    const warning = 'Lost on restart: no overridesFile is configured.';
    this.#context.notify(persisted ? done : `${done} ${warning}`);
  }
}

const fullestKey = (
  name: string,
  cells: readonly HeatCell[],
  asOfMs: number,
): TemplateResult => html`<div class="row">
    <h3>Fullest key over time</h3>
    <span class="hint">share of its limit that the fullest key had used</span>
  </div>
  ${heatStrip(name, cells)} ${heatLegend()}
  ${dataTable({
    summary: 'Fullest key as a table',
    caption: `Fullest key of ${name} over time`,
    heads: ['From', ...HEAT_HEADS],
    asOfMs,
    rows: () =>
      cells
        .filter(({ isKnown }) => isKnown)
        .map((cell) => [clockText(cell.time * 1000), ...heatColumns(cell)])
        .reverse(),
  })}`;

export const policyPage: PageFactory = (context, route) => new PolicyPage(context, route);
