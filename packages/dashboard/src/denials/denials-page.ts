/** Who is being denied, and why, as it happens. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { PolledQuery } from '../api/polled-query.ts';
import type { Denial, PolicyDefinition } from '../api/types.ts';
import { after } from '../clock.ts';
import type { Page, PageContext, PageMaker } from '../page.ts';
import { type Route, to } from '../route.ts';
import { checkCommand, command } from '../view/command.ts';
import { clockText, counted, countText } from '../view/format.ts';
import { whyText } from '../view/policy-text.ts';
import { type Column, table } from '../view/table.ts';

const MAX_ROWS = 200;
/** A pattern is looked for when nobody has typed for so long. */
const TYPING_MS = 400;
const MAX_KEY_LENGTH = 1024;

/** What is shown while it is paused, and what had been told by then. */
interface Pause {
  readonly denials: readonly Denial[];
  readonly told: number;
}

class DenialsPage implements Page {
  readonly title = 'Live denials';
  readonly #context: PageContext;
  readonly #policies: PolledQuery<readonly PolicyDefinition[]>;
  readonly #stop: () => void;
  #route: Route;
  #pause: Pause | undefined = undefined;
  #cancelTyping: () => void = () => {};
  #isLeft = false;

  constructor(context: PageContext, route: Route) {
    const { api, feed, redraw } = context;
    this.#context = context;
    this.#route = route;
    this.#policies = new PolledQuery(() => api.policies(), redraw);
    this.#stop = feed.onChanged(() => this.#refresh());
    this.#refresh();
  }

  #refresh(): void {
    void this.#policies.refresh().then(() => this.#filter());
  }

  moved(route: Route): void {
    this.#route = route;
    this.#filter();
  }

  leave(): void {
    this.#isLeft = true;
    this.#stop();
    this.#cancelTyping();
    this.#policies.leave();
    this.#context.feed.filter({});
  }

  /**
   * What is filtered is filtered by the service, so that a rare key is found in a flood. It refuses
   * names that it does not know.
   */
  #filter(): void {
    if (this.#isLeft) return;
    const { policy, key } = this.#route.query;
    const wanted = {
      policy: this.#isUnknown ? undefined : policy || undefined,
      key: key?.slice(0, MAX_KEY_LENGTH) || undefined,
    };
    if (this.#context.feed.filter(wanted)) this.#pause = undefined;
  }

  get #isUnknown(): boolean {
    const { policy = '' } = this.#route.query;
    const { value } = this.#policies;
    return policy !== '' && value !== undefined && !this.#names().includes(policy);
  }

  #choose(change: Readonly<Record<string, string>>): void {
    const query = Object.fromEntries(
      Object.entries({ ...this.#route.query, ...change }).filter(([, value]) => value !== ''),
    );
    this.#context.go({ ...this.#route, query }, 'replace');
  }

  #type(event: Event): void {
    const key = (event.target as HTMLInputElement).value;
    this.#cancelTyping();
    this.#cancelTyping = after(TYPING_MS, () => this.#choose({ key }));
  }

  #togglePause(): void {
    const { denials } = this.#context.feed;
    this.#pause = this.#pause === undefined ? { denials, told: this.#told } : undefined;
    this.#context.redraw();
  }

  get #told(): number {
    const { denialsTold, denialsOmitted } = this.#context.feed;
    return denialsTold + denialsOmitted;
  }

  view(): TemplateResult {
    const { feed } = this.#context;
    if (this.#isUnknown) return html`${this.#head()} ${this.#unknown()}`;
    const shown = (this.#pause?.denials ?? feed.denials).slice(0, MAX_ROWS);
    return html`
      ${this.#head()}
      <section class="card" aria-label="Denials">
        <p class="hint denials-state">${this.#stateText(shown.length)}</p>
        ${
          shown.length === 0
            ? this.#empty()
            : table({
                label: 'Denials, the newest first',
                className: 'denials',
                isStacking: true,
                columns: COLUMNS,
                rows: shown,
                keyOf: (denial) => denial,
              })
        }
      </section>
    `;
  }

  #head(): TemplateResult {
    return html`<h1>Live denials</h1> ${this.#controls()}`;
  }

  #unknown(): TemplateResult {
    return html`<div class="empty">
      <p>There is no policy ${this.#route.query.policy} any more.</p>
      ${this.#showAll()}
    </div>`;
  }

  #showAll(): TemplateResult {
    return html`<button type="button" class="quiet"
      @click=${() => this.#choose({ policy: '', key: '' })}>
      Show all
    </button>`;
  }

  #controls(): TemplateResult {
    const { policy = '', key = '' } = this.#route.query;
    const names = this.#isUnknown ? [...this.#names(), policy] : this.#names();
    const choose = (event: Event): void =>
      this.#choose({ policy: (event.target as HTMLSelectElement).value });
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
          aria-describedby="by-key-hint" @input=${(event: Event) => this.#type(event)} />
      </span>
      <span id="by-key-hint" class="hint">* stands for any characters</span>
      <button type="button" class="quiet end" @click=${() => this.#togglePause()}>
        ${this.#pause === undefined ? 'Pause' : 'Resume'}
      </button>
    </form>`;
  }

  #names(): readonly string[] {
    const defined = (this.#policies.value ?? []).map(({ name }) => name).sort();
    // Limits that share a label are there only once something has happened to them.
    return [...defined, ...this.#context.feed.history.policies.filter(isLabel)];
  }

  #stateText(shown: number): string {
    const { denialsOmitted, denialsSinceMs } = this.#context.feed;
    if (this.#pause !== undefined) {
      return `Paused. ${counted(this.#told - this.#pause.told, 'denial')} came meanwhile.`;
    }
    const since = `${counted(this.#told, 'denial')} since ${clockText(denialsSinceMs)}`;
    const omitted = `${countText(denialsOmitted)} are not told, as at most 50 a second are`;
    const older = this.#told - denialsOmitted > shown ? `; the newest ${shown} are below` : '';
    return denialsOmitted > 0 ? `${since}; ${omitted}${older}.` : `${since}${older}.`;
  }

  #empty(): TemplateResult {
    const { policy, key } = this.#route.query;
    const isFiltered = policy !== undefined || key !== undefined;
    const name = policy ?? this.#policies.value?.[0]?.name ?? 'perMinute';
    return html`<div class="empty">
      <p>
        Nobody${isFiltered ? ' that fits the filter' : ''} was denied since
        ${clockText(this.#context.feed.denialsSinceMs)}. Denials appear here as they happen.
      </p>
      ${
        isFiltered
          ? this.#showAll()
          : html`<p>To see one, ask again and again:</p>
              ${command(`while sleep 0.1; do ${checkCommand(name, 'ada')}; echo; done`)}`
      }
    </div>`;
  }
}

/** No policy of a file is written like this. */
const isLabel = (name: string): boolean => /^\(.*\)$/.test(name);

const wouldBe = html`<span class="badge shadow">would have been denied</span> `;
const storeAway = html`<span class="badge degraded">degraded</span> `;

const whyCell = (denial: Denial): TemplateResult =>
  html`${denial.shadow ? wouldBe : nothing}${
    denial.degraded ? storeAway : nothing
  }${whyText(denial)}`;

const COLUMNS: readonly Column<Denial>[] = [
  { id: 'time', head: 'Time', className: 'time', cell: ({ atMs }) => clockText(atMs) },
  {
    id: 'policy',
    head: 'Policy',
    className: 'cut',
    cell: ({ policy }) => html`<a href=${to('policy', [policy])} title=${policy}>${policy}</a>`,
  },
  {
    id: 'key',
    head: 'Key',
    isName: true,
    className: 'cut',
    cell: ({ policy, key }) =>
      html`<a class="key" href=${to('key', [policy, key])} title=${key}>${key}</a>`,
  },
  { id: 'cost', head: 'Cost', isNumber: true, cell: ({ cost }) => countText(cost) },
  { id: 'why', head: 'Why', className: 'why', cell: whyCell },
];

export const denialsPage: PageMaker = (context, route) => new DenialsPage(context, route);
