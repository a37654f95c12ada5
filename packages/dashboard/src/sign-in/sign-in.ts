/** The sign-in form. Sends the admin token to the service once and does not store it. */
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
  /** Whether a session has just ended. */
  isExpired = false;
  readonly #api: Api;
  readonly #frame: SignInFrame;
  #problem: string | undefined = undefined;
  #isSubmitting = false;

  constructor(api: Api, frame: SignInFrame) {
    this.#api = api;
    this.#frame = frame;
  }

  view(): TemplateResult {
    const expired = html`<p role="status">
      Your session has expired. Sign in to return to this page.
    </p>`;
    return html`<main class="sign-in">
      <form aria-busy=${this.#isSubmitting} @submit=${(event: SubmitEvent) => this.#submit(event)}>
        <h1 class="brand">${logo()} Sluice</h1>
        <p class="hint">${location.host}</p>
        ${this.isExpired ? expired : nothing}
        <div class="field">
          <label for="token">Admin token</label>
          <input id="token" name="token" type="password" autocomplete="current-password" required
            aria-describedby="token-hint token-wrong" aria-invalid=${this.#problem !== undefined}
            ?readonly=${this.#isSubmitting} ${ref(focusFirst)} />
          <p id="token-wrong" class="wrong" role="alert">${this.#problem ?? nothing}</p>
          <p id="token-hint" class="hint">
            The token set by <code>--admin-token-file</code> or
            <code>SLUICE_ADMIN_TOKEN</code>.
          </p>
        </div>
        <button type="submit" ?disabled=${this.#isSubmitting}>Sign in</button>
      </form>
    </main>`;
  }

  async #submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const token = new FormData(form).get('token') as string;
    this.#isSubmitting = true;
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
      this.#isSubmitting = false;
      this.#frame.redraw();
    }
  }
}

/** Deferred: an element can be focused only after rendering has attached it to the document. */
function focusFirst(element: Element | undefined): void {
  queueMicrotask(() => (element as HTMLElement | undefined)?.focus());
}
