/**
 * The page of a key: its numbers, a drawing of its window, and its actions. The page shows the
 * state at the time of the last report, without extrapolating to the current time.
 */
import { html, nothing, type TemplateResult } from 'lit-html';
import { guard } from 'lit-html/directives/guard.js';
import { isConcurrency, type KeyDescription } from 'sluice/engine';
import { ApiError } from '../api/client.ts';
import type { KeyReport, LimitParams, PolicyDefinition } from '../api/types.ts';
import { after } from '../clock.ts';
import type { Page, PageContext, PageFactory } from '../page.ts';
import { hrefTo, type Route } from '../route.ts';
import { checkCommand, command } from '../view/command.ts';
import { Dialogs } from '../view/dialog.ts';
import {
  capitalized,
  clockText,
  countText,
  durationText,
  exactText,
  windowText,
} from '../view/format.ts';
import { keyText, keyView, shortKeyText } from '../view/key-text.ts';
import { definitionText, deniesAll } from '../view/policy-text.ts';
import { WidthObserver } from '../view/width-observer.ts';
import { admissions } from './admissions.ts';
import { holdsCard } from './holds.ts';
import { actionButtons } from './key-actions.ts';
import { KeyHistory } from './key-history.ts';
import { blockNote, type CostResult, costText, keyNumbers, overrideNote } from './key-numbers.ts';
import { describeAt, paramsOf } from './key-params.ts';
import { leasesCard } from './leases.ts';
import { buildScene, type Scene } from './scene.ts';
import { WindowView } from './window-view.ts';

/** Polling interval of the state. */
const POLL_MS = 1000;
/** Polling interval if the window is shorter than `SHORT_WINDOW_MS`. */
const FAST_POLL_MS = 250;
const SHORT_WINDOW_MS = 10_000;
/** Debounce of the cost field. */
const TYPING_MS = 250;
/** With a longer key, the heading may scroll, so it is focusable for keyboard users. */
const LONG_KEY_LENGTH = 100;

class KeyPage implements Page {
  readonly #context: PageContext;
  readonly #dialogs: Dialogs;
  readonly #window: WindowView;
  readonly #history = new KeyHistory();
  readonly #stops: (() => void)[] = [];
  #route: Route;
  #report: KeyReport | undefined = undefined;
  #policy: PolicyDefinition | undefined = undefined;
  #problem: Error | undefined = undefined;
  /** The cost that was requested with the last report. */
  #reportCost = 1;
  #pending: Promise<void> | undefined = undefined;
  #cancelPoll: () => void = () => {};
  #cancelTyping: () => void = () => {};

  constructor(context: PageContext, route: Route) {
    this.#context = context;
    this.#route = route;
    this.#dialogs = new Dialogs(() => context.redraw());
    this.#window = new WindowView(new WidthObserver(() => context.redraw()));
    const refresh = (): void => void this.#refresh();
    document.addEventListener('visibilitychange', refresh);
    this.#stops.push(
      () => document.removeEventListener('visibilitychange', refresh),
      context.feed.onChanged(() => this.#fetchPolicy()),
      () => this.#cancelPoll(),
    );
    this.#showKey();
    this.#schedulePoll();
  }

  get #names(): { readonly policy: string; readonly key: string } {
    const [policy = '', key = ''] = this.#route.names;
    return { policy, key };
  }

  get title(): string {
    return `${shortKeyText(this.#names.key)} · ${keyText(this.#names.policy)}`;
  }

  /** Discards the data of the previous key and loads the key in the route. */
  #showKey(): void {
    this.#report = undefined;
    this.#policy = undefined;
    this.#problem = undefined;
    this.#history.clear();
    // Load the policy first: if its limit is 0, there is no state to load.
    void this.#fetchPolicy().then(() => this.#refreshAfterChange());
  }

  onRouteChange(route: Route): void {
    const before = this.#route;
    this.#route = route;
    if (before.names.join('\0') !== route.names.join('\0')) this.#showKey();
    else if (before.query.cost !== route.query.cost) void this.#refreshAfterChange();
  }

  leave(): void {
    for (const stop of this.#stops) stop();
    this.#cancelTyping();
    this.#dialogs.close();
  }

  #fetchPolicy(): Promise<void> {
    const { policy } = this.#names;
    return this.#context.api.policy(policy).then(
      (definition) => {
        if (this.#names.policy !== policy) return;
        this.#policy = definition;
        this.#context.redraw();
      },
      () => {},
    );
  }

  get #deniesAll(): boolean {
    return this.#policy !== undefined && deniesAll(this.#policy);
  }

  /** Loads the state of the key. If a request is pending, waits for its result instead. */
  #refresh(): Promise<void> {
    if (document.hidden || this.#names.key === '' || this.#deniesAll) return Promise.resolve();
    this.#pending ??= this.#fetchReport().finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  async #fetchReport(): Promise<void> {
    const { policy, key } = this.#names;
    const cost = this.#cost ?? 1;
    try {
      const report = await this.#context.api.key(policy, key, cost);
      if (this.#names.key !== key || this.#names.policy !== policy) return;
      this.#report = report;
      this.#reportCost = cost;
      this.#history.addReport(report, paramsOf(report, this.#policy));
      this.#problem = undefined;
    } catch (error) {
      this.#problem = error as Error;
    } finally {
      this.#context.redraw();
    }
  }

  /** The cost in the URL; undefined if it is not valid. */
  get #cost(): number | undefined {
    const cost = Number(this.#route.query.cost ?? 1);
    return Number.isSafeInteger(cost) && cost >= 1 ? cost : undefined;
  }

  get #costResult(): CostResult {
    const report = this.#report!;
    const cost = this.#cost;
    if (cost === undefined) return { kind: 'invalid' };
    if (cost > report.limit) return { kind: 'never', limit: report.limit };
    if (cost !== this.#reportCost || report.nextForCostMs === undefined) return { kind: 'pending' };
    return { kind: 'known', waitMs: report.nextForCostMs };
  }

  #schedulePoll(): void {
    const isShort = (this.#report?.windowMs ?? SHORT_WINDOW_MS) < SHORT_WINDOW_MS;
    this.#cancelPoll = after(isShort ? FAST_POLL_MS : POLL_MS, () => {
      void this.#refresh();
      this.#schedulePoll();
    });
  }

  view(): TemplateResult {
    const { policy, key } = this.#names;
    return html`<div class="key-head">
        <nav class="crumbs" aria-label="Breadcrumb">
          <a href=${hrefTo('overview')}>Overview</a> <span aria-hidden="true">›</span>
          <a href=${hrefTo('policy', [policy])}>${keyView(policy)}</a>
          <span aria-hidden="true">›</span> Key
        </nav>
        <h1 class="mono key-name" tabindex=${key.length > LONG_KEY_LENGTH ? 0 : nothing}
          >${keyView(key)}</h1
        >
        ${this.#policy === undefined ? nothing : this.#definition(this.#policy)}
      </div>
      ${this.#body()} ${this.#dialogs.view()}`;
  }

  #definition(policy: PolicyDefinition): TemplateResult {
    return html`<p class="hint">
      ${definitionText(policy)}
      ${policy.shadow ? html`<span class="badge shadow">shadow</span>` : nothing}
    </p>`;
  }

  #body(): TemplateResult {
    if (this.#deniesAll)
      return emptyState('The limit is 0: every call is denied, and no state is stored for keys.');
    const report = this.#report;
    if (report !== undefined) return this.#details(report, paramsOf(report, this.#policy));
    if (this.#names.key === '') return emptyState('The URL contains no key.');
    const problem = this.#problem;
    if (problem === undefined) return html`<p class="empty">Loading…</p>`;
    if (problem instanceof ApiError && problem.code === 'ERR_UNKNOWN_POLICY') {
      return emptyState('Unknown policy.');
    }
    return emptyState(`The state of this key cannot be loaded. ${problem.message}.`);
  }

  #details(report: KeyReport, params: LimitParams): TemplateResult {
    const policy = this.#policy;
    const description = describeAt(report, params);
    return html`${this.#problem === undefined ? nothing : this.#staleNotice(this.#problem, report)}
      <section class="card" aria-labelledby="numbers-title">
        <div class="row spread">
          <h2 id="numbers-title">Usage <span class="as-of">at ${exactText(report.atMs)}</span></h2>
          ${policy === undefined ? nothing : this.#buttons(policy, report)}
        </div>
        ${report.held ? nothing : noStateHint(report)}
        ${blockNote(report)} ${keyNumbers(description, params, report, policy)}
        ${overrideNote(report)}
        ${this.#costForm()}
      </section>
      ${
        isConcurrency(report)
          ? guard([report], () => holdsCard(report))
          : html`${this.#picture(description, params, report)}
            ${leasesCard(report)}
            ${guard([report, policy], () => admissions(description, report, this.#history))}`
      }`;
  }

  /** Shows why the last request failed, and the age of the state on the page. */
  #staleNotice({ message }: Error, { atMs }: KeyReport): TemplateResult {
    const ageMs = Math.max(0, this.#context.feed.nowMs - atMs);
    return html`<p class="wrong" role="alert">
      ${message}. Showing the state at ${clockText(atMs)}, ${durationText(ageMs)} ago.
    </p>`;
  }

  #buttons(policy: PolicyDefinition, report: KeyReport): TemplateResult {
    return actionButtons({
      ...{ context: this.#context, dialogs: this.#dialogs },
      ...{ policy, report, nowMs: report.atMs },
      reloadKey: () => this.#refreshAfterChange(),
    });
  }

  /** Loads the state after a change of the key, its override or the requested cost. */
  async #refreshAfterChange(): Promise<void> {
    // Wait for a pending request: its result may be older than the change.
    await this.#pending;
    await this.#refresh();
  }

  #picture(description: KeyDescription, params: LimitParams, report: KeyReport): TemplateResult {
    const { usedText, freesText } = description;
    const scene = buildScene(description, params, report, this.#history);
    const { entries, entryCount } = report;
    const shown = `Showing ${countText(entries.length)} of ${countText(entryCount)} entries`;
    return html`<section class="card" aria-labelledby="window-title">
      <h2 id="window-title">${TITLES[scene.kind]} ${windowText(params.windowMs)}</h2>
      ${this.#window.view(scene, usedText)}
      <p class="window-summary">
        <b>${usedText}</b>${freesText === '' ? nothing : html`<br />${capitalized(freesText)}`}
      </p>
      ${
        entryCount === entries.length
          ? nothing
          : html`<p class="hint">${shown}. Entries in the hatched part are not listed.</p>`
      }
    </section>`;
  }

  #costForm(): TemplateResult {
    const cost = this.#route.query.cost ?? '1';
    return html`<form class="row cost" @submit=${(event: Event) => event.preventDefault()}>
      <label for="cost">A call of cost</label>
      <input id="cost" name="cost" type="number" min="1" step="1" inputmode="numeric" .value=${cost}
        aria-describedby="cost-result" @input=${(event: Event) => this.#onCostInput(event)} />
      <span id="cost-result">${costText(this.#costResult)}</span>
    </form>`;
  }

  #onCostInput(event: Event): void {
    const cost = (event.target as HTMLInputElement).value;
    this.#cancelTyping();
    this.#cancelTyping = after(TYPING_MS, () => {
      const query = { ...this.#route.query, cost };
      this.#context.go({ ...this.#route, query }, 'replace');
    });
  }
}

const TITLES: Readonly<Record<Scene['kind'], string>> = {
  ticks: 'Admissions in the last',
  bars: 'Windows of',
  level: 'Token level over',
};

const emptyState = (text: string): TemplateResult =>
  html`<p class="empty">${text} <a href=${hrefTo('overview')}>All policies</a></p>`;

const noStateHint = ({ policy, key }: KeyReport): TemplateResult => html`<div class="empty start">
  <p>
    The store has no state for this key: the full limit is available. To send a call:
  </p>
  ${command(checkCommand(policy, key))}
</div>`;

export const keyPage: PageFactory = (context, route) => new KeyPage(context, route);
