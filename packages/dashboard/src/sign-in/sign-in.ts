/** The sign-in form. Sends the admin token to the service once and does not store it. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import type { Api, ApiError } from '../api/client.ts';
import { logo } from '../view/logo.ts';

export interface SignInCallbacks {
  redraw(): void;
  onSignedIn(): void;
}

export class SignIn {
  isNeeded = false;
  /** Whether the form is shown because the session expired. */
  isExpired = false;
  readonly #api: Api;
  readonly #callbacks: SignInCallbacks;
  #problem: string | undefined = undefined;
  #isSubmitting = false;

  constructor(api: Api, callbacks: SignInCallbacks) {
    this.#api = api;
    this.#callbacks = callbacks;
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
            ?readonly=${this.#isSubmitting} ${ref(focusAfterRender)} />
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
    this.#callbacks.redraw();
    try {
      await this.#api.signIn(token);
      form.reset();
      this.#callbacks.onSignedIn();
    } catch (error) {
      const { status, message } = error as Partial<ApiError> & Error;
      this.#problem = status === 401 ? 'This is not the admin token.' : message;
      queueMicrotask(() => focusAfterRender(form.querySelector('input') ?? undefined));
    } finally {
      this.#isSubmitting = false;
      this.#callbacks.redraw();
    }
  }
}

/** Focuses an element after rendering: lit-html calls `ref` before the element is in the page. */
function focusAfterRender(element: Element | undefined): void {
  queueMicrotask(() => (element as HTMLElement | undefined)?.focus());
}
