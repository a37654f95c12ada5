/** The application: routing, sign-in and the current page. */
import { html, render, type TemplateResult } from 'lit-html';
import { Api } from './api/client.ts';
import { Feed } from './api/feed.ts';
import { PolledQuery } from './api/polled-query.ts';
import { after, every } from './clock.ts';
import { denialsPage } from './denials/denials-page.ts';
import { type FrameOptions, frame } from './frame.ts';
import { keyPage } from './key/key-page.ts';
import { overviewPage } from './overview/overview-page.ts';
import type { Page, PageContext, PageFactory } from './page.ts';
import { policyPage } from './policy/policy-page.ts';
import { type PageName, parseRoute, type Route, routeText } from './route.ts';
import { SignIn } from './sign-in/sign-in.ts';
import { isFindShortcut, KeySearch } from './view/key-search.ts';
import { initTheme, onThemeChange } from './view/theme.ts';

/**
 * The lab page. The browser downloads its code when the user opens the lab, because the code
 * contains the limiter, which no other page needs.
 */
const labPage: PageFactory = (context, route) => {
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
    view: () => page?.view() ?? html`<p class="empty">Loading the engine…</p>`,
    onRouteChange: (changed) => {
      latest = changed;
      page?.onRouteChange(changed);
    },
    leave: () => {
      isLeft = true;
      page?.leave();
    },
  };
};

const PAGES: Readonly<Record<PageName, PageFactory>> = {
  overview: overviewPage,
  policy: policyPage,
  key: keyPage,
  denials: denialsPage,
  lab: labPage,
};

/** How long a notice is shown. */
const NOTICE_MS = 6000;
/** Interval of the redraws that update the age of the data while the connection is lost. */
const AGE_REDRAW_MS = 1000;

export class App {
  readonly #root: HTMLElement;
  readonly #api = new Api();
  readonly #feed = new Feed(this.#api);
  readonly #signIn = new SignIn(this.#api, {
    redraw: () => this.#redraw(),
    onSignedIn: () => this.#enter(),
  });
  readonly #policies = new PolledQuery(
    () => this.#api.policies(),
    () => this.#redraw(),
  );
  readonly #search = new KeySearch(() => this.#redraw());
  #route: Route = parseRoute(location.hash);
  #page: Page | undefined = undefined;
  #notice: FrameOptions['notice'] = undefined;
  #cancelNotice: () => void = () => {};
  #isDrawing = false;
  /** Whether the next redraw shows a new page. It then also scrolls to the top and focuses it. */
  #isNewPage = false;

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  async start(): Promise<void> {
    initTheme();
    onThemeChange(() => this.#redraw());
    addEventListener('hashchange', () => this.#navigate(parseRoute(location.hash)));
    this.#api.onSignedOut = () => this.#showSignIn(true);
    this.#feed.listen(() => this.#redraw());
    this.#feed.onChanged(() => void this.#policies.refresh());
    addEventListener('keydown', (event) => this.#onKey(event));
    // While the connection is lost, no events cause redraws, but the shown age of the data
    // increases.
    every(AGE_REDRAW_MS, () => {
      if (this.#feed.state === 'lost' && !document.hidden) this.#redraw();
    });
    this.#redraw();
    const session = await this.#api.session().catch(() => undefined);
    // Show the page even if the service is unreachable: the feed retries the connection.
    if (session === undefined || session.signedIn) this.#enter();
    else this.#showSignIn(false);
  }

  #enter(): void {
    this.#signIn.isNeeded = false;
    void this.#policies.refresh();
    this.#feed.start();
    this.#show(this.#route);
  }

  /** Shows the sign-in form. The URL does not change, so signing in returns to the same page. */
  #showSignIn(isExpired: boolean): void {
    if (this.#signIn.isNeeded) return;
    this.#page?.leave();
    this.#page = undefined;
    this.#feed.close();
    this.#signIn.isNeeded = true;
    this.#signIn.isExpired = isExpired;
    this.#redraw();
  }

  readonly #context: PageContext = {
    api: this.#api,
    feed: this.#feed,
    policies: this.#policies,
    redraw: () => this.#redraw(),
    go: (route, how) => {
      const text = routeText(route);
      if (how === 'replace') history.replaceState(null, '', text);
      else history.pushState(null, '', text);
      this.#navigate(route);
    },
    notify: (text, kind = 'fine') => {
      this.#cancelNotice();
      this.#notice = { text, kind };
      this.#cancelNotice = after(NOTICE_MS, () => {
        this.#notice = undefined;
        this.#redraw();
      });
      this.#redraw();
    },
  };

  #navigate(route: Route): void {
    const isSamePage = route.page === this.#route.page;
    this.#isNewPage ||= !isSamePage || route.names.join('/') !== this.#route.names.join('/');
    this.#route = route;
    if (this.#signIn.isNeeded) return;
    if (isSamePage && this.#page !== undefined) this.#page.onRouteChange(route);
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
      if (this.#isNewPage) focusNewPage();
      this.#isNewPage = false;
    });
  }

  #view(): TemplateResult {
    if (this.#signIn.isNeeded) return this.#signIn.view();
    return frame({
      feed: this.#feed,
      page: this.#route.page,
      content: this.#page?.view(),
      notice: this.#notice,
      search: this.#search,
      find: {
        policies: this.#policies.value?.map(({ name }) => name),
        current: this.#currentPolicy,
        open: (policy, key) => this.#context.go({ page: 'key', names: [policy, key], query: {} }),
      },
      signOut: this.#api.isTokenNeeded ? () => void this.#signOut() : undefined,
    });
  }

  /** The policy of the current page, or of the filter on the page of recent denials. */
  get #currentPolicy(): string | undefined {
    const { page, names, query } = this.#route;
    return page === 'policy' || page === 'key' ? names[0] : query.policy;
  }

  #onKey(event: KeyboardEvent): void {
    if (this.#signIn.isNeeded || !isFindShortcut(event)) return;
    event.preventDefault();
    this.#search.focus();
  }

  async #signOut(): Promise<void> {
    try {
      await this.#api.signOut();
      this.#showSignIn(false);
    } catch (error) {
      this.#context.notify(`You are still signed in. ${(error as Error).message}`, 'wrong');
    }
  }
}

/** Focuses the new page, because the focused element was removed with the previous page. */
function focusNewPage(): void {
  scrollTo(0, 0);
  document.getElementById('main')?.focus({ preventScroll: true });
}
