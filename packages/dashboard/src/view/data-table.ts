/**
 * The data of a chart as a table that the user can open. The table shows a snapshot of the data,
 * because a table that changes every second cannot be read.
 */
import { html, nothing, type TemplateResult } from 'lit-html';
import { AsyncDirective } from 'lit-html/async-directive.js';
import { directive } from 'lit-html/directive.js';
import { clockText } from './format.ts';

export interface TableContent {
  readonly caption: string;
  /** Label of the control that opens the table (default: `As a table`). */
  readonly summary?: string;
  readonly heads: readonly string[];
  /** The end of the newest data, in ms by the service's clock. */
  readonly asOfMs: number;
  /** Called when the table is opened or refreshed. The first cell of a row is its header. */
  readonly rows: () => readonly (readonly string[])[];
}

interface Snapshot {
  readonly content: TableContent;
  readonly rows: unknown;
}

class DataTable extends AsyncDirective {
  #content!: TableContent;
  #snapshot: Snapshot | undefined = undefined;

  override render(content: TableContent): unknown {
    this.#content = content;
    return html`<details class="as-table" @toggle=${this.#onToggle}>
      <summary @click=${this.#onClick}>${content.summary ?? 'As a table'}</summary>
      ${this.#snapshot === undefined ? nothing : this.#table(this.#snapshot)}
    </details>`;
  }

  #table({ content, rows }: Snapshot): unknown {
    return html`<p class="row hint">
        As of ${clockText(content.asOfMs)}.
        <button type="button" class="quiet small" @click=${() => this.#takeSnapshot()}>
          Refresh
        </button>
      </p>
      <div class="scroll tall" tabindex="0" role="region" aria-label=${content.caption}>
        <table>
          <caption class="unseen">${content.caption}</caption>
          <thead>
            <tr>
              ${content.heads.map(headCell)}
            </tr>
          </thead>
          <tbody>
            ${rows}
          </tbody>
        </table>
      </div>`;
  }

  #takeSnapshot(): void {
    const content = this.#content;
    const rows = content.rows().map(
      ([name, ...cells]) => html`<tr>
        <th scope="row">${name}</th>
        ${cells.map((cell) => html`<td class="number">${cell}</td>`)}
      </tr>`,
    );
    this.#snapshot = { content, rows };
    this.setValue(this.render(content));
  }

  /** Fills the table before the browser opens it. */
  readonly #onClick = (event: Event): void => {
    const { open } = (event.currentTarget as HTMLElement).parentElement as HTMLDetailsElement;
    if (!open) this.#takeSnapshot();
  };

  /** Fills the table if the browser opens it without a click, such as for a page search. */
  readonly #onToggle = (event: Event): void => {
    if ((event.target as HTMLDetailsElement).open) {
      if (this.#snapshot === undefined) this.#takeSnapshot();
      return;
    }
    this.#snapshot = undefined;
    this.setValue(this.render(this.#content));
  };
}

const headCell = (head: string, at: number): TemplateResult =>
  html`<th scope="col" class=${at === 0 ? '' : 'number'}>${head}</th>`;

export const dataTable = directive(DataTable);
