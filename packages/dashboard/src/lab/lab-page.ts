/** The lab page: runs the same traffic through several algorithms, in the browser. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import type { Page, PageContext, PageFactory } from '../page.ts';
import type { Route } from '../route.ts';
import { countText, windowText } from '../view/format.ts';
import { WidthObserver } from '../view/width-observer.ts';
import { Controls } from './controls.ts';
import { formatLabQuery, type LabQuery, parseLabQuery } from './lab-query.ts';
import { isTooLong, LabUrl, linkTo } from './lab-url.ts';
import { Playback } from './playback.ts';
import { policyCard } from './policy-card.ts';
import { ResultsView } from './results-view.ts';
import { type LabResult, runLab } from './run.ts';
import { type LabSettings, MAX_IN_SLOT, MAX_WINDOWS, SLOTS } from './settings.ts';
import { buildTraffic, callsPerSlot } from './traffic.ts';
import { TrafficStrip } from './traffic-strip.ts';

const MIN_WIDTH = 200;

class LabPage implements Page {
  readonly title = 'Lab';
  readonly #context: PageContext;
  readonly #controls: Controls;
  readonly #strip: TrafficStrip;
  readonly #widthObserver: WidthObserver;
  readonly #playback: Playback;
  readonly #results: ResultsView;
  readonly #url: LabUrl;
  #settings!: LabSettings;
  #notices: readonly string[] = [];
  #result!: LabResult;

  constructor(context: PageContext, route: Route) {
    this.#context = context;
    const redraw = (): void => context.redraw();
    this.#controls = new Controls((changes) => this.#change(changes), redraw);
    this.#strip = new TrafficStrip((slots) => this.#draw(slots), redraw);
    this.#widthObserver = new WidthObserver(redraw);
    this.#url = new LabUrl(context);
    this.#playback = new Playback((isChosen) => {
      if (isChosen) this.#writeUrl();
      redraw();
    });
    this.#results = new ResultsView(this.#playback, redraw);
    this.#read(route.query);
  }

  onRouteChange(route: Route): void {
    if (!this.#url.isOwn(route)) this.#read(route.query);
  }

  leave(): void {
    this.#playback.stop();
    this.#url.cancel();
  }

  #read(query: LabQuery): void {
    const { settings, notices } = parseLabQuery(query);
    this.#controls.clear();
    this.#run(settings);
    const notice = this.#playback.restore(query);
    this.#notices = notice === undefined ? notices : [...notices, notice];
  }

  #run(settings: LabSettings): void {
    this.#settings = settings;
    this.#result = runLab(settings, buildTraffic(settings));
    this.#playback.load(this.#result);
    this.#results.load(settings, this.#result);
  }

  /**
   * Applies changed settings. If the user switches to drawn or typed traffic, it starts with the
   * calls of the current traffic.
   */
  #change(changes: Partial<LabSettings>): void {
    const before = this.#settings;
    const isDrawn = changes.traffic === 'drawn' && before.traffic !== 'drawn';
    const isTyped = changes.traffic === 'typed' && before.traffic !== 'typed';
    const { calls } = this.#result.traffic;
    this.#run({
      ...before,
      ...(isDrawn && this.#asDrawn()),
      ...(isTyped && { typed: calls.map(({ atMs, cost }) => ({ atMs, cost })) }),
      ...changes,
    });
    this.#notices = [];
    this.#writeUrl();
    this.#context.redraw();
  }

  /** Converts the current traffic to a drawing. */
  #asDrawn(): Partial<LabSettings> {
    const { traffic } = this.#result;
    const windows = Math.round((traffic.endMs - traffic.startMs) / this.#settings.windowMs);
    return {
      traffic: 'drawn',
      slots: callsPerSlot(traffic, MAX_IN_SLOT),
      startMs: traffic.startMs,
      windows: Math.min(MAX_WINDOWS, Math.max(1, windows)),
    };
  }

  #draw(slots: readonly number[]): void {
    const begun = this.#settings.traffic === 'drawn' ? {} : this.#asDrawn();
    this.#change({ ...begun, traffic: 'drawn', slots });
  }

  get #query(): LabQuery {
    return { ...formatLabQuery(this.#settings), ...this.#playback.query };
  }

  #writeUrl(): void {
    this.#url.write(() => this.#query);
  }

  view(): TemplateResult {
    const settings = this.#settings;
    const { width } = this.#widthObserver;
    return html`<div>
        <h1>Lab</h1>
        <p class="hint">Runs the service's engine in your browser. No data is sent.</p>
      </div>
      ${this.#notices.length === 0 ? nothing : this.#noticeList()}
      <div class="lab">
        <div class="lab-side">
          ${this.#controls.traffic(settings)} ${this.#controls.limits(settings)}
        </div>
        <div class="lab-main">
          <section class="card" aria-labelledby="strip-title">
            <h2 id="strip-title">Traffic</h2>
            <p class="hint">${this.#trafficText()}</p>
            <div ${ref(this.#widthObserver.observe)}>
              ${width === 0 ? nothing : this.#stripView()}
            </div>
          </section>
          ${this.#results.view(width === 0 ? 0 : this.#width, this.#query, () => this.#copyLink())}
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
        ${this.#notices.map((notice) => html`<li>${notice}; using the default.</li>`)}
      </ul>
    </div>`;
  }

  #trafficText(): string {
    const { calls, omitted, startMs, endMs } = this.#result.traffic;
    const cut = omitted > 0 ? ` (${countText(omitted)} more omitted)` : '';
    const counts = `${countText(calls.length)} calls in ${windowText(endMs - startMs)}${cut}`;
    return `${counts}. Drag, or use the arrow keys, to draw other traffic.`;
  }

  get #width(): number {
    return Math.max(MIN_WIDTH, this.#widthObserver.width);
  }

  #stripView(): TemplateResult {
    const { traffic } = this.#result;
    const { limit, slots } = this.#settings;
    return this.#strip.view({
      slots: this.#settings.traffic === 'drawn' ? slots : callsPerSlot(traffic, MAX_IN_SLOT),
      slotMs: (traffic.endMs - traffic.startMs) / SLOTS,
      ...{ limit, width: this.#width },
    });
  }

  #copyLink(): void {
    const query = this.#query;
    void this.#copy(linkTo(query), isTooLong(query) ? 'Link without the calls' : 'Link');
  }

  async #copy(text: string, what: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.#context.notify(`${what} copied`);
    } catch {
      this.#context.notify('Copying requires HTTPS or localhost', 'wrong');
    }
  }
}

export const labPage: PageFactory = (context, route) => new LabPage(context, route);
