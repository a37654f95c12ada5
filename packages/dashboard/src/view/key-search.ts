/** The search field in the header. It opens the page of a key. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { findIcon } from './icons.ts';

export interface KeySearchOptions {
  /** Names of the policies; undefined until they are loaded. */
  readonly policies: readonly string[] | undefined;
  /** The policy of the current page. */
  readonly current: string | undefined;
  readonly open: (policy: string, key: string) => void;
}

const MAX_KEY_LENGTH = 1024;

export class KeySearch {
  readonly #redraw: () => void;
  /** True after the button was clicked. Narrow screens hide the field until then. */
  #isShown = false;
  /**
   * The policy that the user chose, and the policy of the page at that time. On the page of another
   * policy, the choice no longer applies.
   */
  #chosen: { readonly policy: string; readonly pagePolicy: string | undefined } | undefined =
    undefined;

  constructor(redraw: () => void) {
    this.#redraw = redraw;
  }

  /** Shows the field and moves the focus to it. */
  focus(): void {
    this.#isShown = true;
    this.#redraw();
    requestAnimationFrame(() => document.getElementById('find-key')?.focus());
  }

  #toggle(): void {
    if (!this.#isShown) this.focus();
    else this.#hide();
  }

  #hide(): void {
    this.#isShown = false;
    this.#redraw();
  }

  /** The button that shows the field on narrow screens. */
  button(): TemplateResult {
    return html`<button type="button" class="quiet small icon find-toggle" aria-label="Find a key"
      aria-expanded=${this.#isShown} aria-controls="find" @click=${() => this.#toggle()}>
      ${findIcon()}
    </button>`;
  }

  view({ policies = [], current, open }: KeySearchOptions): TemplateResult {
    const chosen = this.#chosen?.pagePolicy === current ? this.#chosen?.policy : current;
    const choose = (event: Event): void => {
      const policy = (event.target as HTMLSelectElement).value;
      this.#chosen = { policy, pagePolicy: current };
    };
    const submit = (event: Event): void => {
      event.preventDefault();
      const form = event.target as HTMLFormElement;
      const data = new FormData(form);
      const [policy, key] = ['policy', 'key'].map((name) => String(data.get(name) ?? ''));
      if (policy === '' || key === '') return;
      form.reset();
      this.#hide();
      open(policy, key);
    };
    const onKey = ({ key }: KeyboardEvent): void => {
      if (key === 'Escape') this.#hide();
    };
    return html`<form id="find" class="find ${this.#isShown ? 'shown' : ''}" role="search"
      aria-label="Find a key" @submit=${submit} @keydown=${onKey}>
      <select name="policy" aria-label="Policy of the key" @change=${choose}>
        ${policies.length === 0 ? html`<option value="">policy</option>` : nothing}
        ${policies.map(
          (name) => html`<option value=${name} ?selected=${name === chosen}>${name}</option>`,
        )}
      </select>
      <input id="find-key" name="key" class="mono" aria-label="Key to find" required
        placeholder="Find a key" title="Press / to find a key" maxlength=${MAX_KEY_LENGTH}
        autocomplete="off" autocapitalize="off" spellcheck="false" />
      <button type="submit" class="quiet small">Open</button>
    </form>`;
  }
}

const FIELDS = 'input, select, textarea, [contenteditable]';

/** Returns true if the key `/` was pressed, outside of fields and dialogs. */
export function isFindShortcut(event: KeyboardEvent): boolean {
  const { key, ctrlKey, metaKey, altKey, target } = event;
  if (key !== '/' || ctrlKey || metaKey || altKey) return false;
  const isField = target instanceof Element && target.closest(FIELDS) !== null;
  return !isField && document.querySelector('dialog[open]') === null;
}
