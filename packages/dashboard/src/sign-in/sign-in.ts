/** Asks for the admin token, which goes to the service once and is not kept. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Api } from '../api/client.ts';
import type { SessionReport } from '../api/types.ts';

export interface SignInFrame {
  redraw(): void;
  signedIn(session: SessionReport): void;
}

export class SignIn {
  isNeeded = false;
  readonly #api: Api;
  readonly #frame: SignInFrame;
  #problem: string | undefined = undefined;
  #isAsking = false;

  constructor(api: Api, frame: SignInFrame) {
    this.#api = api;
    this.#frame = frame;
  }

  view(): TemplateResult {
    return html`<main class="sign-in">
      <form @submit=${(event: SubmitEvent) => this.#submit(event)}>
        <h1>Sluice</h1>
        <label for="token">Admin token</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required
          autofocus aria-describedby="token-hint" ?disabled=${this.#isAsking} />
        <p id="token-hint" class="hint">
          What the service was started with: <code>--admin-token-file</code> or
          <code>SLUICE_ADMIN_TOKEN</code>.
        </p>
        <p class="wrong" role="alert">${this.#problem ?? nothing}</p>
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
      const session = await this.#api.signIn(token);
      form.reset();
      this.#frame.signedIn(session);
    } catch (error) {
      this.#problem = (error as Error).message;
    } finally {
      this.#isAsking = false;
      this.#frame.redraw();
    }
  }
}
