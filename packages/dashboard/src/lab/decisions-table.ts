/** Table of all decisions. Shows the numbers as the limiter returns them, unformatted. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { guard } from 'lit-html/directives/guard.js';
import type { RunDecision } from 'sluice-traffic/lab';
import { countText } from '../view/format.ts';
import type { LabResult } from './run.ts';

const PAGE_ROWS = 500;

export class DecisionsTable {
  readonly #redraw: () => void;
  #isOpen = false;
  #rows = PAGE_ROWS;

  constructor(redraw: () => void) {
    this.#redraw = redraw;
  }

  /** Shows a table that is closed at first. Renders its rows when the user opens it. */
  view(result: LabResult): TemplateResult {
    const { calls } = result.traffic;
    return html`<details class="as-table" @toggle=${(event: Event) => this.#toggled(event)}>
      <summary>All ${countText(calls.length)} decisions as a table</summary>
      ${this.#isOpen ? guard([result, this.#rows], () => this.#table(result, this.#rows)) : nothing}
    </details>`;
  }

  #toggled(event: Event): void {
    this.#isOpen = (event.target as HTMLDetailsElement).open;
    this.#redraw();
  }

  #table(result: LabResult, most: number): TemplateResult {
    const { lanes, traffic } = result;
    const { calls, startMs } = traffic;
    const hasKeys = calls.some(({ key }) => key !== calls[0].key);
    return html`<div class="scroll tall" tabindex="0" role="region" aria-label="All decisions">
        <table class="decisions">
          <caption class="unseen">Each call and the decision of each algorithm</caption>
          <thead>
            <tr>
              <th scope="col" rowspan="2" class="number">Time, ms</th>
              <th scope="col" rowspan="2" class="number">Since the start, ms</th>
              ${hasKeys ? html`<th scope="col" rowspan="2">Client</th>` : nothing}
              <th scope="col" rowspan="2" class="number">Cost</th>
              ${lanes.map(
                ({ algorithm }) => html`<th scope="colgroup" colspan="3">${algorithm}</th>`,
              )}
            </tr>
            <tr>
              ${lanes.map(
                () => html`<th scope="col">allowed</th>
                  <th scope="col" class="number">remaining</th>
                  <th scope="col" class="number">retryAfterMs</th>`,
              )}
            </tr>
          </thead>
          <tbody>
            ${calls.slice(0, most).map(
              ({ atMs, cost, key }, at) => html`<tr>
                <th scope="row" class="number">${atMs}</th>
                <td class="number">${atMs - startMs}</td>
                ${hasKeys ? html`<td>${key}</td>` : nothing}
                <td class="number">${cost}</td>
                ${lanes.map(({ decisions }) => cells(decisions[at]))}
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${most < calls.length ? this.#more(calls.length - most) : nothing}`;
  }

  /** Button that shows the next page of the `hidden` rows. */
  #more(hidden: number): TemplateResult {
    const more = (): void => {
      this.#rows += PAGE_ROWS;
      this.#redraw();
    };
    return html`<button type="button" class="quiet small" @click=${more}>
      Show ${countText(Math.min(hidden, PAGE_ROWS))} of ${countText(hidden)} more decisions
    </button>`;
  }
}

const cells = ({ allowed, remaining, retryAfterMs }: RunDecision): TemplateResult =>
  html`<td class=${allowed ? 'is-admitted' : 'is-denied'}>${allowed}</td>
    <td class="number">${remaining}</td>
    <td class="number">${Number.isFinite(retryAfterMs) ? retryAfterMs : 'never'}</td>`;
