/**
 * The numbers of a picture as a table, for who asks for it. It stays as it was when it was opened,
 * because nobody can read a table that moves every second.
 */
import { html, nothing, type TemplateResult } from 'lit-html';
import { AsyncDirective } from 'lit-html/async-directive.js';
import { directive } from 'lit-html/directive.js';
import { nowMs } from '../clock.ts';
import { clockText } from './format.ts';

export interface TableContent {
  readonly caption: string;
  /** What opens it, `As a table` if not told. */
  readonly summary?: string;
  readonly heads: readonly string[];
  /** Only asked for when somebody looks; the first cell names the row. */
  readonly rows: () => readonly (readonly string[])[];
}

/** The numbers of the time when somebody looked. */
interface Taken {
  readonly atMs: number;
  readonly content: TableContent;
  readonly rows: unknown;
}

class AsTable extends AsyncDirective {
  #content!: TableContent;
  #taken: Taken | undefined = undefined;

  override render(content: TableContent): unknown {
    this.#content = content;
    return html`<details class="as-table" @toggle=${this.#toggled}>
      <summary @click=${this.#clicked}>${content.summary ?? 'As a table'}</summary>
      ${this.#taken === undefined ? nothing : this.#table(this.#taken)}
    </details>`;
  }

  #table({ atMs, content, rows }: Taken): unknown {
    return html`<p class="row hint">
        As of ${clockText(atMs)}.
        <button type="button" class="quiet small" @click=${() => this.#take()}>Once more</button>
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

  #take(): void {
    const content = this.#content;
    const rows = content.rows().map(
      ([name, ...cells]) => html`<tr>
        <th scope="row">${name}</th>
        ${cells.map((cell) => html`<td class="number">${cell}</td>`)}
      </tr>`,
    );
    this.#taken = { atMs: nowMs(), content, rows };
    this.setValue(this.render(content));
  }

  /** So that it is there as soon as it is open. */
  readonly #clicked = (event: Event): void => {
    const { open } = (event.currentTarget as HTMLElement).parentElement as HTMLDetailsElement;
    if (!open) this.#take();
  };

  /** Browsers open it themselves too, when what is searched for is in it. */
  readonly #toggled = (event: Event): void => {
    if ((event.target as HTMLDetailsElement).open) {
      if (this.#taken === undefined) this.#take();
      return;
    }
    this.#taken = undefined;
    this.setValue(this.render(this.#content));
  };
}

const headCell = (head: string, at: number): TemplateResult =>
  html`<th scope="col" class=${at === 0 ? '' : 'number'}>${head}</th>`;

export const asTable = directive(AsTable);
