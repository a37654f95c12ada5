/** The lab: traffic of any kind through all algorithms at once, decided by the engine itself. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import { after } from '../clock.ts';
import type { Page, PageContext, PageMaker } from '../page.ts';
import { type Route, routeText, to } from '../route.ts';
import { countText, windowText } from '../view/format.ts';
import { Measured } from '../view/measured.ts';
import { type LabQuery, MAX_QUERY_LENGTH, parseLabQuery, queryLength, queryOf } from './address.ts';
import { Controls } from './controls.ts';
import { DecisionsTable } from './decisions-table.ts';
import { sinceText } from './lab-text.ts';
import { nearestCall } from './lane-shapes.ts';
import { callText, LanesView, legend, type Position, saidText } from './lanes-view.ts';
import { Player } from './player.ts';
import { policyCard } from './policy-card.ts';
import { type LabResult, runLab } from './run.ts';
import { type LabSettings, MAX_IN_SLOT, SLOTS } from './settings.ts';
import { Strip } from './strip.ts';
import { summaryTable } from './summary-table.ts';
import { slotsOf, trafficOf } from './traffic.ts';

/** Browsers do not like to be told a new address all the time. */
const ADDRESS_MS = 300;
const MIN_WIDTH = 200;

class LabPage implements Page {
  readonly title = 'Lab';
  readonly #context: PageContext;
  readonly #controls: Controls;
  readonly #strip: Strip;
  readonly #table: DecisionsTable;
  readonly #measured: Measured;
  readonly #player: Player;
  #settings!: LabSettings;
  #notices: readonly string[] = [];
  #result!: LabResult;
  #lanes: LanesView | undefined = undefined;
  /** Where somebody looks; undefined is the fullest window of all. */
  #position: Position | undefined = undefined;
  /** A call that the pointer is over. */
  #pointed: number | undefined = undefined;
  /** What the address was last made to say. */
  #written: string | undefined = undefined;
  #cancelAddress: () => void = () => {};

  constructor(context: PageContext, route: Route) {
    this.#context = context;
    const redraw = (): void => context.redraw();
    this.#controls = new Controls((changes) => this.#change(changes), redraw);
    this.#strip = new Strip((slots) => this.#draw(slots), redraw);
    this.#table = new DecisionsTable(redraw);
    this.#measured = new Measured(redraw);
    this.#player = new Player((part) => this.#seek(part));
    this.#read(route.query);
  }

  moved(route: Route): void {
    if (routeText(route) !== this.#written) this.#read(route.query);
  }

  leave(): void {
    this.#player.stop();
    this.#cancelAddress();
  }

  #read(query: LabQuery): void {
    const { settings, notices } = parseLabQuery(query);
    this.#notices = notices;
    this.#controls.clear();
    this.#run(settings);
    const { calls, startMs, endMs } = this.#result.traffic;
    const call = Number(query.call);
    const at = Number(query.at);
    if (Number.isSafeInteger(call) && call >= 1 && call <= calls.length) this.#choose(call - 1);
    else if (Number.isSafeInteger(at) && at >= 0 && at <= endMs - startMs) this.#look(startMs + at);
    else if (query.call !== undefined || query.at !== undefined) {
      this.#notices = [...notices, 'Expected `call` or `at` to be a place in this traffic'];
    }
  }

  #run(settings: LabSettings): void {
    this.#settings = settings;
    this.#result = runLab(settings, trafficOf(settings));
    this.#lanes = undefined;
    this.#position = undefined;
    this.#pointed = undefined;
    this.#player.stop();
  }

  #change(changes: Partial<LabSettings>): void {
    const before = this.#settings;
    const isDrawn = changes.traffic === 'drawn' && before.traffic !== 'drawn';
    const isTyped = changes.traffic === 'typed' && before.traffic !== 'typed';
    // Whoever goes on by hand goes on from what there is.
    const { calls } = this.#result.traffic;
    this.#run({
      ...before,
      ...(isDrawn && this.#asDrawn()),
      ...(isTyped && { typed: calls.map(({ atMs, cost }) => ({ atMs, cost })) }),
      ...changes,
    });
    this.#notices = [];
    this.#writeAddress();
    this.#context.redraw();
  }

  /** What is there now, as a drawing. */
  #asDrawn(): Partial<LabSettings> {
    const { traffic } = this.#result;
    const windows = Math.round((traffic.endMs - traffic.startMs) / this.#settings.windowMs);
    return {
      traffic: 'drawn',
      slots: slotsOf(traffic, MAX_IN_SLOT),
      startMs: traffic.startMs,
      windows: Math.min(20, Math.max(1, windows)),
    };
  }

  #draw(slots: readonly number[]): void {
    const begun = this.#settings.traffic === 'drawn' ? {} : this.#asDrawn();
    this.#change({ ...begun, traffic: 'drawn', slots });
  }

  get #query(): LabQuery {
    const position = this.#position;
    const { startMs, calls } = this.#result.traffic;
    const isCall = position?.call !== undefined && calls[position.call].atMs === position.atMs;
    return {
      ...queryOf(this.#settings),
      ...(position !== undefined &&
        (isCall ? { call: String(position.call! + 1) } : { at: String(position.atMs - startMs) })),
    };
  }

  /** The settings are the address; what is too long for one is left out, and told. */
  #writeAddress(): void {
    this.#cancelAddress();
    this.#cancelAddress = after(ADDRESS_MS, () => {
      const all = this.#query;
      const { times, drawn, ...rest } = all;
      const query = queryLength(all) <= MAX_QUERY_LENGTH ? all : rest;
      const route: Route = { page: 'lab', names: [], query };
      this.#written = routeText(route);
      this.#context.go(route, 'replace');
    });
  }

  get #isTooLong(): boolean {
    return queryLength(this.#query) > MAX_QUERY_LENGTH;
  }

  /** The last call that is not after a time. */
  #callAt(timeMs: number): number | undefined {
    const last = this.#result.traffic.calls.findLastIndex(({ atMs }) => atMs <= timeMs);
    return last < 0 ? undefined : last;
  }

  #look(atMs: number): void {
    this.#position = { atMs, call: this.#callAt(atMs) };
  }

  #choose(call: number): void {
    this.#position = { atMs: this.#result.traffic.calls[call].atMs, call };
  }

  #seek(part: number): void {
    const { startMs, endMs } = this.#result.traffic;
    this.#look(Math.round(startMs + part * (endMs - startMs)));
    if (part === 1) this.#writeAddress();
    this.#context.redraw();
  }

  /** Where one looks now: what is pointed at, what was chosen, or the fullest window of all. */
  get #now(): Position {
    const { calls, startMs } = this.#result.traffic;
    if (this.#pointed !== undefined) {
      return { atMs: calls[this.#pointed].atMs, call: this.#pointed };
    }
    if (this.#position !== undefined) return this.#position;
    const fullest = this.#result.lanes
      .map((lane) => lane.fullest)
      .reduce((most, each) => ((each?.cost ?? 0) > (most?.cost ?? 0) ? each : most), undefined);
    const atMs = fullest?.atMs ?? startMs;
    return { atMs, call: this.#callAt(atMs) };
  }

  view(): TemplateResult {
    const settings = this.#settings;
    return html`<div>
        <h1>Lab</h1>
        <p class="hint">
          The engine of this very service, in your browser. Nothing here is sent anywhere.
        </p>
      </div>
      ${this.#notices.length === 0 ? nothing : this.#noticeList()}
      <div class="lab">
        <div class="lab-side">
          ${this.#controls.traffic(settings)} ${this.#controls.limits(settings)}
        </div>
        <div class="lab-main">
          <section class="card" aria-labelledby="strip-title">
            <h2 id="strip-title">What comes</h2>
            <p class="hint">${this.#trafficText()}</p>
            <div ${ref(this.#measured.element)}>${this.#stripView()}</div>
          </section>
          ${this.#lanesCard()}
          <section class="card" aria-labelledby="numbers-title">
            <h2 id="numbers-title">What it comes to</h2>
            ${summaryTable(this.#result)} ${this.#table.view(this.#result)}
          </section>
          ${policyCard(settings, {
            choose: (policy) => this.#change({ policy }),
            copy: (text, what) => void this.#copy(text, what),
          })}
        </div>
      </div>`;
  }

  #noticeList(): TemplateResult {
    return html`<div class="wrong" role="alert">
      <ul class="notices">
        ${this.#notices.map((notice) => html`<li>${notice}; the opening scene's is taken.</li>`)}
      </ul>
    </div>`;
  }

  /** With several callers the windows that are drawn are those of one of them. */
  #followedNote(): TemplateResult | typeof nothing {
    const { traffic, followed } = this.#result;
    if (traffic.calls.every(({ key }) => key === followed)) return nothing;
    return html`<p class="hint">
      Each client has a limit of its own. The windows drawn are those of ${followed}, who calls
      most.
    </p>`;
  }

  #trafficText(): string {
    const { calls, omitted, startMs, endMs } = this.#result.traffic;
    const cut = omitted > 0 ? `, and ${countText(omitted)} more that are left out` : '';
    const counts = `${countText(calls.length)} calls in ${windowText(endMs - startMs)}${cut}`;
    return `${counts}. Drag, or use the arrow keys, to draw other traffic.`;
  }

  get #width(): number {
    return Math.max(MIN_WIDTH, this.#measured.width);
  }

  #stripView(): TemplateResult | typeof nothing {
    if (this.#measured.width === 0) return nothing;
    const { traffic } = this.#result;
    const { limit, slots } = this.#settings;
    return this.#strip.view({
      slots: this.#settings.traffic === 'drawn' ? slots : slotsOf(traffic, MAX_IN_SLOT),
      slotMs: (traffic.endMs - traffic.startMs) / SLOTS,
      ...{ limit, width: this.#width },
    });
  }

  #lanesCard(): TemplateResult {
    const { calls } = this.#result.traffic;
    return html`<section class="card lanes" aria-labelledby="lanes-title">
      <div class="row spread">
        <h2 id="lanes-title">What passes</h2>
        <div class="row">
          <a href=${to('lab')}>Opening scene</a>
          <button type="button" class="quiet" @click=${() => this.#copyLink()}>Copy link</button>
        </div>
      </div>
      ${this.#isTooLong ? this.#tooLong() : nothing} ${this.#followedNote()} ${this.#playRow()}
      ${
        calls.length === 0
          ? html`<p class="empty">No calls: choose a shape, or draw some in the strip above.</p>`
          : this.#lanesView()
      }
      ${legend(this.#settings)}
    </section>`;
  }

  #tooLong(): TemplateResult {
    const length = countText(queryLength(this.#query));
    return html`<p class="hint">
      These calls take ${length} characters in a link. Links of more than
      ${countText(MAX_QUERY_LENGTH)} characters may be cut off, so this link leaves them out.
    </p>`;
  }

  #playRow(): TemplateResult {
    const { startMs, endMs } = this.#result.traffic;
    const { atMs } = this.#now;
    const isPlaying = this.#player.isPlaying;
    return html`<div class="row play">
      <button type="button" @click=${() => this.#togglePlay()}>
        ${isPlaying ? 'Pause' : 'Play'}
      </button>
      <label for="lab-at">Window up to</label>
      <input id="lab-at" type="range" min="0" max=${endMs - startMs} step="1"
        .value=${String(atMs - startMs)} aria-valuetext=${sinceText(atMs - startMs)}
        @input=${(event: Event) => this.#scrubbed(event)} />
      <span class="mono">${sinceText(atMs - startMs)}</span>
    </div>`;
  }

  #togglePlay(): void {
    if (this.#player.isPlaying) {
      this.#player.stop();
      this.#writeAddress();
    } else {
      const { startMs, endMs } = this.#result.traffic;
      const part = (this.#now.atMs - startMs) / (endMs - startMs);
      // From the fullest window on there is mostly nothing to be seen.
      const isChosen = this.#position !== undefined && part < 1;
      this.#pointed = undefined;
      this.#player.play(isChosen ? part : 0);
    }
    this.#context.redraw();
  }

  #scrubbed(event: Event): void {
    this.#player.stop();
    this.#look(this.#result.traffic.startMs + Number((event.target as HTMLInputElement).value));
    this.#writeAddress();
    this.#context.redraw();
  }

  #lanesView(): TemplateResult | typeof nothing {
    if (this.#measured.width === 0) return nothing;
    const width = this.#width;
    if (this.#lanes?.scale.width !== width) {
      this.#lanes = new LanesView(this.#settings, this.#result, width);
    }
    const position = this.#now;
    const { calls } = this.#result.traffic;
    return html`<div class="lane-list"
        @pointermove=${(event: PointerEvent) => this.#pointedAt(event)}
        @pointerleave=${() => this.#leftLanes()} @click=${() => this.#clicked()}>
        ${this.#lanes.view(position)}
      </div>
      <div class="row play">
        <label for="lab-call">Call</label>
        <input id="lab-call" type="range" min="1" max=${calls.length} step="1"
          .value=${String((position.call ?? 0) + 1)}
          aria-valuetext=${saidText(this.#result, position)}
          @input=${(event: Event) => this.#stepped(event)} />
        <span class="chosen">${callText(this.#result, position)}</span>
      </div>`;
  }

  #stepped(event: Event): void {
    this.#player.stop();
    this.#choose(Number((event.target as HTMLInputElement).value) - 1);
    this.#writeAddress();
    this.#context.redraw();
  }

  #pointedAt(event: PointerEvent): void {
    if (this.#player.isPlaying || this.#lanes === undefined) return;
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const { calls } = this.#result.traffic;
    const nearest = nearestCall(calls, event.clientX - box.left, this.#lanes.scale);
    this.#pointed = nearest < 0 ? undefined : nearest;
    this.#context.redraw();
  }

  #leftLanes(): void {
    this.#pointed = undefined;
    this.#context.redraw();
  }

  #clicked(): void {
    if (this.#pointed === undefined) return;
    this.#choose(this.#pointed);
    this.#writeAddress();
    this.#context.redraw();
  }

  #copyLink(): void {
    const query = this.#query;
    const { times, drawn, ...rest } = query;
    const hash = routeText({ page: 'lab', names: [], query: this.#isTooLong ? rest : query });
    const what = this.#isTooLong ? 'The link, without the calls,' : 'The link';
    void this.#copy(`${location.origin}${location.pathname}${hash}`, what);
  }

  async #copy(text: string, what: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.#context.tell(`${what} is copied`);
    } catch {
      const why = 'Here nothing can be copied: browsers want an encrypted connection for that';
      this.#context.tell(why, 'wrong');
    }
  }
}

export const labPage: PageMaker = (context, route) => new LabPage(context, route);
