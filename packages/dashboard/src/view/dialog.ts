/** Modal dialogs: confirmations and forms. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { keyed } from 'lit-html/directives/keyed.js';
import { ref } from 'lit-html/directives/ref.js';

/** Error of a failed submission. `field` is undefined if no single form field is the cause. */
export interface FormError {
  readonly text: string;
  readonly field?: string | undefined;
}

export interface Question {
  readonly title: string;
  /** Renders the content, with `error` next to its field if `fields` contains that field. */
  readonly body: (error: FormError | undefined) => unknown;
  /** Label of the submit button. */
  readonly action: string;
  readonly isDanger?: boolean;
  /** Names of the fields whose errors `body` renders. */
  readonly fields?: readonly string[];
  /** Runs the action. If the promise resolves, the dialog closes; otherwise it shows the error. */
  readonly run: (form: HTMLFormElement) => Promise<void>;
}

export class Dialogs {
  readonly #redraw: () => void;
  #question: Question | undefined = undefined;
  #element: HTMLDialogElement | undefined = undefined;
  #error: FormError | undefined = undefined;
  #isRunning = false;

  constructor(redraw: () => void) {
    this.#redraw = redraw;
  }

  /** Opens a dialog. It appears only if the page renders `view()`. */
  ask(question: Question): void {
    this.#question = question;
    this.#error = undefined;
    this.#redraw();
  }

  redraw(): void {
    this.#redraw();
  }

  /** Closes the dialog. The browser returns the focus to the element that had it before. */
  close(): void {
    this.#element?.close();
  }

  view(): unknown {
    const question = this.#question;
    // Each question has its own element: the close event of the previous one may still arrive.
    return question === undefined ? nothing : keyed(question, this.#dialog(question));
  }

  #dialog(question: Question): TemplateResult {
    const error = this.#error;
    const isInField = question.fields?.includes(error?.field ?? '') === true;
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
        ${question.body(error)}
        <p class="wrong" role="alert">${isInField ? nothing : error?.text}</p>
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

  /** Opens the element after rendering, because `showModal` needs it in the document. */
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
    requestAnimationFrame(restoreFocus);
  }

  async #submit(event: Event): Promise<void> {
    event.preventDefault();
    const question = this.#question!;
    this.#isRunning = true;
    this.#error = undefined;
    this.#redraw();
    try {
      await question.run(event.target as HTMLFormElement);
      this.close();
    } catch (error) {
      const { message, pointer } = error as Error & { readonly pointer?: string };
      this.#error = { text: message, field: pointer?.slice(1) };
    } finally {
      this.#isRunning = false;
      this.#redraw();
    }
  }
}

/** Focuses the page if the previously focused element no longer exists. */
function restoreFocus(): void {
  if (document.activeElement === document.body) document.getElementById('main')?.focus();
}
