/** The frame: which page is shown, whether the service is there, and who may look at it. */
import { html, nothing, render, type TemplateResult } from 'lit-html';
import { Api } from './api/client.ts';
import { Feed } from './api/feed.ts';
import type { SessionReport } from './api/types.ts';
import { after } from './clock.ts';
import { denialsPage } from './denials/denials-page.ts';
import { keyPage } from './key/key-page.ts';
import { overviewPage } from './overview/overview-page.ts';
import type { Page, PageContext, PageMaker } from './page.ts';
import { policyPage } from './policy/policy-page.ts';
import { type PageName, type Route, readRoute, routeText, to } from './route.ts';
import { SignIn } from './sign-in/sign-in.ts';
import { followTheme, nextTheme, themeLabel } from './view/theme.ts';

/** The lab brings the engine along, which nobody else needs. */
const labPage: PageMaker = (context, route) => {
  let page: Page | undefined;
  let latest = route;
  let isLeft = false;
  void import('./lab/lab-page.ts').then((loaded) => {
    if (isLeft) return;
    page = loaded.labPage(context, latest);
    context.redraw();
  });
  return {
    title: 'Lab',
    view: () => page?.view() ?? html`<p class="empty">The engine is on its way…</p>`,
    moved: (moved) => {
      latest = moved;
      page?.moved(moved);
    },
    leave: () => {
      isLeft = true;
      page?.leave();
    },
  };
};

const PAGES: Readonly<Record<PageName, PageMaker>> = {
  overview: overviewPage,
  policy: policyPage,
  key: keyPage,
  denials: denialsPage,
  lab: labPage,
};

const LINKS: readonly [PageName, string][] = [
  ['overview', 'Overview'],
  ['denials', 'Live denials'],
  ['lab', 'Lab'],
];

const TOLD_MS = 6000;

export class App {
  readonly #root: HTMLElement;
  readonly #api = new Api();
  readonly #feed = new Feed(this.#api);
  readonly #signIn = new SignIn(this.#api, {
    redraw: () => this.#redraw(),
    signedIn: (session) => this.#enter(session),
  });
  #session: SessionReport | undefined = undefined;
  #route: Route = readRoute(location.hash);
  #page: Page | undefined = undefined;
  #told: { readonly text: string; readonly kind: 'fine' | 'wrong' } | undefined = undefined;
  #cancelTold: () => void = () => {};
  #isDrawing = false;

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  async start(): Promise<void> {
    followTheme();
    addEventListener('hashchange', () => this.#moved(readRoute(location.hash)));
    this.#api.onSignedOut = () => this.#signedOut();
    this.#feed.listen(() => this.#redraw());
    this.#redraw();
    const session = await this.#api.session().catch(() => undefined);
    // A service that is away is asked again by the feed.
    if (session === undefined || session.signedIn) this.#enter(session);
    else this.#signedOut();
  }

  #enter(session: SessionReport | undefined): void {
    this.#session = session;
    this.#signIn.isNeeded = false;
    this.#feed.open();
    this.#show(this.#route);
  }

  #signedOut(): void {
    this.#feed.close();
    this.#page?.leave();
    this.#page = undefined;
    this.#signIn.isNeeded = true;
    this.#redraw();
  }

  readonly #context: PageContext = {
    api: this.#api,
    feed: this.#feed,
    redraw: () => this.#redraw(),
    go: (route, how) => {
      const text = routeText(route);
      if (how === 'replace') history.replaceState(null, '', text);
      else history.pushState(null, '', text);
      this.#moved(route);
    },
    tell: (text, kind = 'fine') => {
      this.#cancelTold();
      this.#told = { text, kind };
      this.#cancelTold = after(TOLD_MS, () => {
        this.#told = undefined;
        this.#redraw();
      });
      this.#redraw();
    },
  };

  #moved(route: Route): void {
    const isSame = route.page === this.#route.page;
    this.#route = route;
    if (this.#signIn.isNeeded) return;
    if (isSame && this.#page !== undefined) this.#page.moved(route);
    else this.#show(route);
    this.#redraw();
  }

  #show(route: Route): void {
    this.#page?.leave();
    this.#page = PAGES[route.page](this.#context, route);
    this.#redraw();
  }

  #redraw(): void {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    requestAnimationFrame(() => {
      this.#isDrawing = false;
      document.title = this.#page === undefined ? 'Sluice' : `${this.#page.title} · Sluice`;
      render(this.#view(), this.#root);
    });
  }

  #view(): TemplateResult {
    if (this.#signIn.isNeeded) return this.#signIn.view();
    return html`
      <a class="skip" href="#main" @click=${skipToMain}>Skip to the content</a>
      <header class="bar">
        <a class="brand" href=${to('overview')}>Sluice</a>
        <nav aria-label="Pages">
          ${LINKS.map(
            ([page, label]) => html`<a
              href=${to(page)}
              aria-current=${page === this.#route.page ? 'page' : nothing}
              >${label}</a
            >`,
          )}
        </nav>
        <div class="bar-end">${this.#connection()} ${this.#buttons()}</div>
      </header>
      <main id="main" tabindex="-1">${this.#page?.view() ?? nothing}</main>
      <div class="told" role="status" aria-live="polite">
        ${this.#told && html`<p class=${this.#told.kind}>${this.#told.text}</p>`}
      </div>
    `;
  }

  #connection(): TemplateResult {
    const { state } = this.#feed;
    const label = { connecting: 'connecting…', live: 'live', lost: 'connection lost' }[state];
    return html`<span class="connection ${state}" role="status">${label}</span>`;
  }

  #buttons(): TemplateResult {
    const signOut = html`<button type="button" class="quiet" @click=${() => this.#leave()}>
      Sign out
    </button>`;
    return html`<button
        type="button"
        class="quiet"
        @click=${() => {
          nextTheme();
          this.#redraw();
        }}
      >
        ${themeLabel()}</button
      >${this.#session?.required ? signOut : nothing}`;
  }

  async #leave(): Promise<void> {
    await this.#api.signOut().catch(() => {});
    this.#signedOut();
  }
}

/** A plain link would be taken for the address of a page. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')!.focus();
}
