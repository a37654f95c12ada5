/** Asks for the admin token, which goes to the service once and is not kept. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import type { Api } from '../api/client.ts';
import { logo } from '../view/logo.ts';

export interface SignInFrame {
  redraw(): void;
  signedIn(): void;
}

export class SignIn {
  isNeeded = false;
  /** Whether somebody was signed in until now. */
  isOver = false;
  readonly #api: Api;
  readonly #frame: SignInFrame;
  #problem: string | undefined = undefined;
  #isAsking = false;

  constructor(api: Api, frame: SignInFrame) {
    this.#api = api;
    this.#frame = frame;
  }

  view(): TemplateResult {
    const over = html`<p role="status">
      The session is over. Sign in, and you are back where you were.
    </p>`;
    return html`<main class="sign-in">
      <form aria-busy=${this.#isAsking} @submit=${(event: SubmitEvent) => this.#submit(event)}>
        <h1 class="brand">${logo()} Sluice</h1>
        <p class="hint">${location.host}</p>
        ${this.isOver ? over : nothing}
        <div class="field">
          <label for="token">Admin token</label>
          <input id="token" name="token" type="password" autocomplete="current-password" required
            aria-describedby="token-hint token-wrong" aria-invalid=${this.#problem !== undefined}
            ?readonly=${this.#isAsking} ${ref(focusFirst)} />
          <p id="token-wrong" class="wrong" role="alert">${this.#problem ?? nothing}</p>
          <p id="token-hint" class="hint">
            What the service was started with: <code>--admin-token-file</code> or
            <code>SLUICE_ADMIN_TOKEN</code>.
          </p>
        </div>
        <button type="submit" ?disabled=${this.#isAsking}>Sign in</button>
      </form>
    </main>`;
  }

  async #submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const token = new FormData(form).get('token') as string;
    this.#isAsking = true;
    this.#problem = undefined;
    this.#frame.redraw();
    try {
      await this.#api.signIn(token);
      form.reset();
      this.#frame.signedIn();
    } catch (error) {
      this.#problem = (error as Error).message;
      queueMicrotask(() => focusFirst(form.querySelector('input') ?? undefined));
    } finally {
      this.#isAsking = false;
      this.#frame.redraw();
    }
  }
}

/** The field can have the focus only once it is in the document, which it is after the drawing. */
function focusFirst(element: Element | undefined): void {
  queueMicrotask(() => (element as HTMLElement | undefined)?.focus());
}
