/** The page of recent denials, grouped by key, updated live and filtered by policy and key. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { DenialGroup } from '../api/denial-groups.ts';
import type { Denial } from '../api/types.ts';
import { after } from '../clock.ts';
import type { Page, PageContext, PageFactory } from '../page.ts';
import { hrefTo, type Route } from '../route.ts';
import { checkCommand, command } from '../view/command.ts';
import { clockText, countText, countWithNoun } from '../view/format.ts';
import { keyText, keyView } from '../view/key-text.ts';
import { denialText, deniesAll } from '../view/policy-text.ts';
import {
  type Column,
  parseSorting,
  type Sorting,
  sortingText,
  sortRows,
  table,
} from '../view/table.ts';

const MAX_ROWS = 200;
/** Debounce of the key filter. */
const TYPING_MS = 400;
const MAX_KEY_LENGTH = 1024;

const SERVICE_MAXIMUM = 'the service sends at most 50 keys per second';

const FIRST_SORTING: Sorting = { by: 'time', isDescending: true };

/** The list at the time when the user paused it. */
interface Pause {
  readonly groups: readonly DenialGroup[];
  /** Number of denials up to the pause. */
  readonly total: number;
}

class DenialsPage implements Page {
  readonly title = 'Recent denials';
  readonly #context: PageContext;
  readonly #stopListening: () => void;
  #route: Route;
  #pause: Pause | undefined = undefined;
  #cancelTyping: () => void = () => {};
  #isLeft = false;

  constructor(context: PageContext, route: Route) {
    this.#context = context;
    this.#route = route;
    this.#stopListening = context.feed.onChanged(() => this.#refresh());
    this.#refresh();
  }

  #refresh(): void {
    void this.#context.policies.latest.then(() => this.#applyFilter());
  }

  onRouteChange(route: Route): void {
    this.#route = route;
    this.#applyFilter();
  }

  leave(): void {
    this.#isLeft = true;
    this.#stopListening();
    this.#cancelTyping();
    this.#context.feed.filter({});
  }

  /**
   * Sends the filter in the URL to the service. The service filters the denials, because it sends
   * at most 50 keys per second: without the filter, the key could be missing. Omits an unknown
   * policy, which the service would reject.
   */
  #applyFilter(): void {
    if (this.#isLeft) return;
    const { policy, key } = this.#route.query;
    const filter = {
      policy: this.#isUnknownPolicy ? undefined : policy || undefined,
      key: key?.slice(0, MAX_KEY_LENGTH) || undefined,
    };
    if (this.#context.feed.filter(filter)) this.#pause = undefined;
  }

  get #isUnknownPolicy(): boolean {
    const { policy = '' } = this.#route.query;
    const { value } = this.#context.policies;
    return policy !== '' && value !== undefined && !this.#names().includes(policy);
  }

  #setQuery(change: Readonly<Record<string, string>>): void {
    const query = Object.fromEntries(
      Object.entries({ ...this.#route.query, ...change }).filter(([, value]) => value !== ''),
    );
    this.#context.go({ ...this.#route, query }, 'replace');
  }

  #onKeyInput(event: Event): void {
    const key = (event.target as HTMLInputElement).value;
    this.#cancelTyping();
    this.#cancelTyping = after(TYPING_MS, () => this.#setQuery({ key }));
  }

  #togglePause(): void {
    const groups = this.#context.feed.denials.list();
    this.#pause = this.#pause === undefined ? { groups, total: this.#total } : undefined;
    this.#context.redraw();
  }

  get #total(): number {
    const { denials, denialsOmitted } = this.#context.feed;
    return denials.received + denialsOmitted;
  }

  view(): TemplateResult {
    const { feed } = this.#context;
    if (this.#isUnknownPolicy) return html`${this.#head()} ${this.#unknownPolicy()}`;
    const groups = this.#pause?.groups ?? feed.denials.list();
    const sorting = parseSorting(this.#route.query.sort, COLUMNS, FIRST_SORTING);
    const rows = sortRows(groups, COLUMNS, sorting).slice(0, MAX_ROWS);
    return html`
      ${this.#head()}
      <section class="card" aria-label="Denials">
        <p class="hint denials-state">${this.#stateText(rows.length, groups.length)}</p>
        ${
          rows.length === 0
            ? this.#empty()
            : table({
                label: 'Denials by key',
                className: 'denials',
                stacksWhenNarrow: true,
                columns: COLUMNS,
                rows,
                keyOf: ({ id }) => id,
                sorting,
                onSort: (next) => this.#setQuery({ sort: sortingText(next) }),
              })
        }
      </section>
    `;
  }

  #head(): TemplateResult {
    return html`<h1>Recent denials</h1> ${this.#controls()}`;
  }

  #unknownPolicy(): TemplateResult {
    return html`<div class="empty">
      <p>The policy ${keyView(this.#route.query.policy)} no longer exists.</p>
      ${this.#showAllButton()}
    </div>`;
  }

  #showAllButton(): TemplateResult {
    return html`<p>
      <button type="button" class="quiet"
        @click=${() => this.#setQuery({ policy: '', key: '' })}>
        Show all
      </button>
    </p>`;
  }

  #controls(): TemplateResult {
    const { policy = '', key = '' } = this.#route.query;
    const names = this.#isUnknownPolicy ? [...this.#names(), policy] : this.#names();
    const choose = (event: Event): void =>
      this.#setQuery({ policy: (event.target as HTMLSelectElement).value });
    return html`<form class="row filters" role="search" @submit=${(e: Event) => e.preventDefault()}>
      <span class="row pair">
        <label for="by-policy">Policy</label>
        <select id="by-policy" @change=${choose}>
          <option value="" ?selected=${policy === ''}>all</option>
          ${names.map(
            (name) => html`<option value=${name} ?selected=${name === policy}>${name}</option>`,
          )}
        </select>
      </span>
      <span class="row pair">
        <label for="by-key">Key</label>
        <input id="by-key" type="search" class="mono" autocomplete="off" autocapitalize="off"
          spellcheck="false" placeholder="user:*" maxlength=${MAX_KEY_LENGTH} .value=${key}
          aria-describedby="by-key-hint" @input=${(event: Event) => this.#onKeyInput(event)} />
      </span>
      <span id="by-key-hint" class="hint">* matches any characters</span>
      <button type="button" class="quiet end" @click=${() => this.#togglePause()}>
        ${this.#pause === undefined ? 'Pause' : 'Resume'}
      </button>
    </form>`;
  }

  #names(): readonly string[] {
    const defined = (this.#context.policies.value ?? []).map(({ name }) => name).sort();
    // Labels such as (request) are in no configuration file: the feed reports them after a
    // decision.
    return [...defined, ...this.#context.feed.history.policies.filter(isLabel)];
  }

  /** Returns the text above the table, which shows `shown` of the `known` keys. */
  #stateText(shown: number, known: number): string {
    const { denials, denialsOmitted } = this.#context.feed;
    if (this.#pause !== undefined) {
      return `Paused. ${countWithNoun(this.#total - this.#pause.total, 'denial')} since then.`;
    }
    const all = known + denials.dropped;
    const keys = `${denials.dropped > 0 ? 'at least ' : ''}${countWithNoun(all, 'key')}`;
    const number = countWithNoun(this.#total, 'denial');
    const parts = [
      `${number}${all > 0 ? ` of ${keys}` : ''} since ${this.#sinceText}`,
      ...(shown < all ? [`showing ${countText(shown)} keys`] : []),
      ...(denialsOmitted > 0
        ? [`${countText(denialsOmitted)} of keys not listed (${SERVICE_MAXIMUM})`]
        : []),
    ];
    return `${parts.join('; ')}.`;
  }

  get #sinceText(): string {
    const { denialsSinceMs, nowMs } = this.#context.feed;
    return clockText(denialsSinceMs ?? nowMs);
  }

  #empty(): TemplateResult {
    const { policy, key } = this.#route.query;
    const isFiltered = policy !== undefined || key !== undefined;
    const samplePolicy = this.#context.policies.value?.find((each) => !deniesAll(each));
    const name = policy ?? samplePolicy?.name ?? 'perMinute';
    return html`<div class="empty">
      <p>
        No denials${isFiltered ? ' match the filter' : ''} since
        ${this.#sinceText}. New ones appear here as they happen.
      </p>
      ${
        isFiltered
          ? this.#showAllButton()
          : html`<p>To cause one, send calls until the limit is reached:</p>
              ${command(`while sleep 0.1; do ${checkCommand(name, 'ada')}; echo; done`)}`
      }
    </div>`;
  }
}

/**
 * Returns true if the name is a label such as `(request)`, which groups the decisions of all inline
 * limits, and not the name of a policy. Policy names have no parentheses.
 */
const isLabel = (name: string): boolean => /^\(.*\)$/.test(name);

const shadowBadge = html`<span class="badge shadow">would have been denied</span> `;
const degradedBadge = html`<span class="badge degraded">degraded</span> `;

const reasonCell = (denial: Denial): TemplateResult =>
  html`${denial.shadow ? shadowBadge : nothing}${
    denial.degraded ? degradedBadge : nothing
  }${denialText(denial)}`;

const COLUMNS: readonly Column<DenialGroup>[] = [
  {
    ...{ id: 'time', head: 'Last denial', className: 'time' },
    isDescendingFirst: true,
    cell: ({ last }) => clockText(last.atMs),
    sortValue: ({ last }) => last.atMs,
  },
  {
    ...{ id: 'count', head: 'Denials', isNumber: true },
    cell: ({ count }) => countText(count),
    sortValue: ({ count }) => count,
  },
  {
    ...{ id: 'policy', head: 'Policy', className: 'cut' },
    cell: ({ last: { policy } }) =>
      html`<a href=${hrefTo('policy', [policy])} title=${policy}>${policy}</a>`,
    sortValue: ({ last }) => last.policy,
  },
  {
    ...{ id: 'key', head: 'Key', isRowHeader: true, className: 'cut long' },
    cell: ({ last: { policy, key } }) =>
      html`<a class="key" href=${hrefTo('key', [policy, key])} title=${keyText(key)}
        >${keyView(key)}</a
      >`,
    sortValue: ({ last }) => last.key,
  },
  {
    ...{ id: 'reason', head: 'Last reason', className: 'reason' },
    cell: ({ last }) => reasonCell(last),
  },
];

export const denialsPage: PageFactory = (context, route) => new DenialsPage(context, route);
