/**
 * The results of a run: a drawing (lane) per algorithm, a summary, and a table of all decisions.
 */
import { html, nothing, type TemplateResult } from 'lit-html';
import { hrefTo } from '../route.ts';
import { countText } from '../view/format.ts';
import { DecisionsTable } from './decisions-table.ts';
import { type LabQuery, MAX_QUERY_LENGTH, queryLength } from './lab-query.ts';
import { isTooLong } from './lab-url.ts';
import { nearestCall } from './lane-shapes.ts';
import { LanesView, legend } from './lanes-view.ts';
import type { Playback } from './playback.ts';
import type { LabResult } from './run.ts';
import type { LabSettings } from './settings.ts';
import { summaryTable } from './summary-table.ts';

export class ResultsView {
  readonly #playback: Playback;
  readonly #table: DecisionsTable;
  #lanes: LanesView | undefined = undefined;
  #settings!: LabSettings;
  #result!: LabResult;

  constructor(playback: Playback, redraw: () => void) {
    this.#playback = playback;
    this.#table = new DecisionsTable(redraw);
  }

  load(settings: LabSettings, result: LabResult): void {
    this.#settings = settings;
    this.#result = result;
    this.#lanes = undefined;
  }

  /** `width` is 0 until the browser has laid out the page. */
  view(width: number, query: LabQuery, copyLink: () => void): TemplateResult {
    return html`<section class="card lanes" aria-labelledby="lanes-title">
        <div class="row spread">
          <h2 id="lanes-title">Decisions</h2>
          <div class="row">
            <a href=${hrefTo('lab')}>Reset to defaults</a>
            <button type="button" class="quiet" @click=${copyLink}>Copy link</button>
          </div>
        </div>
        ${isTooLong(query) ? tooLong(query) : nothing} ${this.#clientNote()}
        ${this.#playback.playRow()}
        ${
          this.#result.traffic.calls.length === 0
            ? html`<p class="empty">No calls. Choose a shape, or draw calls in the strip above.</p>`
            : this.#lanesView(width)
        }
        ${legend(this.#settings)}
      </section>
      <section class="card" aria-labelledby="numbers-title">
        <h2 id="numbers-title">Summary</h2>
        ${summaryTable(this.#result)} ${this.#table.view(this.#result)}
      </section>`;
  }

  /** Shows a note if there are several clients: the lanes show the windows of only one client. */
  #clientNote(): TemplateResult | typeof nothing {
    const { traffic, busiestKey } = this.#result;
    if (traffic.calls.every(({ key }) => key === busiestKey)) return nothing;
    return html`<p class="hint">
      The limit applies to each client. The lanes show the windows of ${busiestKey}, the busiest
      client.
    </p>`;
  }

  #lanesView(width: number): TemplateResult | typeof nothing {
    if (width === 0) return nothing;
    if (this.#lanes?.scale.width !== width) {
      this.#lanes = new LanesView(this.#settings, this.#result, width);
    }
    return html`<div class="lane-list"
        @pointermove=${(event: PointerEvent) => this.#pointed(event)}
        @pointerleave=${() => this.#playback.point(undefined)}
        @click=${() => this.#playback.choosePointed()}>
        ${this.#lanes.view(this.#playback.position)}
      </div>
      ${this.#playback.callRow()}`;
  }

  #pointed(event: PointerEvent): void {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const { calls } = this.#result.traffic;
    this.#playback.point(nearestCall(calls, event.clientX - box.left, this.#lanes!.scale));
  }
}

const tooLong = (query: LabQuery): TemplateResult => html`<p class="hint">
  These calls take ${countText(queryLength(query))} characters in a link. Links of more than
  ${countText(MAX_QUERY_LENGTH)} characters may be truncated, so the copied link omits the calls.
</p>`;
