/** Questions that have to be answered before the page goes on: a confirmation, or a form. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { keyed } from 'lit-html/directives/keyed.js';
import { ref } from 'lit-html/directives/ref.js';

/** Why something was not done, and which field of the form that is about. */
export interface Refusal {
  readonly text: string;
  readonly field?: string | undefined;
}

export interface Question {
  readonly title: string;
  /** Also draws the refusal if it is about one of its fields. */
  readonly body: (refusal: Refusal | undefined) => unknown;
  /** What the button says, and does. */
  readonly action: string;
  readonly isDanger?: boolean;
  /** The fields that show a refusal themselves. */
  readonly fields?: readonly string[];
  /** Closes the dialog when it is done; what it throws is shown instead. */
  readonly run: (form: HTMLFormElement) => Promise<void>;
}

export class Dialogs {
  readonly #redraw: () => void;
  #question: Question | undefined = undefined;
  #element: HTMLDialogElement | undefined = undefined;
  #refusal: Refusal | undefined = undefined;
  #isRunning = false;

  constructor(redraw: () => void) {
    this.#redraw = redraw;
  }

  /** The page has to draw `view()` somewhere. */
  ask(question: Question): void {
    this.#question = question;
    this.#refusal = undefined;
    this.#redraw();
  }

  redraw(): void {
    this.#redraw();
  }

  /** Puts the focus back to where it was before. */
  close(): void {
    this.#element?.close();
  }

  view(): unknown {
    const question = this.#question;
    // Each in a dialog of its own, as that of the one before may not have told yet that it closed.
    return question === undefined ? nothing : keyed(question, this.#dialog(question));
  }

  #dialog(question: Question): TemplateResult {
    const refusal = this.#refusal;
    const isShownAbove = question.fields?.includes(refusal?.field ?? '') === true;
    const isBusy = this.#isRunning;
    return html`<dialog
      class="ask"
      aria-labelledby="ask-title"
      ${ref(this.#show)}
      @cancel=${(event: Event) => this.#isRunning && event.preventDefault()}
      @close=${() => this.#closed(question)}
    >
      <form novalidate aria-busy=${isBusy} @submit=${(event: Event) => this.#submit(event)}>
        <h2 id="ask-title">${question.title}</h2>
        ${question.body(refusal)}
        <p class="wrong" role="alert">${isShownAbove ? nothing : refusal?.text}</p>
        <div class="row ask-buttons">
          <button type="button" class="quiet" ?disabled=${isBusy} @click=${() => this.close()}>
            Cancel
          </button>
          <button type="submit" class=${question.isDanger ? 'danger' : ''} ?disabled=${isBusy}>
            ${question.action}
          </button>
        </div>
      </form>
    </dialog>`;
  }

  /** It can be shown only once it is in the document, which it is after this drawing. */
  readonly #show = (element: Element | undefined): void => {
    this.#element = element as HTMLDialogElement | undefined;
    queueMicrotask(() => {
      if (this.#element?.isConnected && !this.#element.open) this.#element.showModal();
    });
  };

  #closed(question: Question): void {
    if (this.#question !== question) return;
    this.#question = undefined;
    this.#redraw();
    requestAnimationFrame(findFocus);
  }

  async #submit(event: Event): Promise<void> {
    event.preventDefault();
    const question = this.#question!;
    this.#isRunning = true;
    this.#refusal = undefined;
    this.#redraw();
    try {
      await question.run(event.target as HTMLFormElement);
      this.close();
    } catch (error) {
      const { message, pointer } = error as Error & { readonly pointer?: string };
      this.#refusal = { text: message, field: pointer?.slice(1) };
    } finally {
      this.#isRunning = false;
      this.#redraw();
    }
  }
}

/** What had the focus before the question may be gone with what the question was about. */
function findFocus(): void {
  if (document.activeElement === document.body) document.getElementById('main')?.focus();
}
