/** The application: routing, sign-in and the current page. */
import { html, render, type TemplateResult } from 'lit-html';
import { Api } from './api/client.ts';
import { Feed } from './api/feed.ts';
import { after } from './clock.ts';
import { denialsPage } from './denials/denials-page.ts';
import { type Frame, frame } from './frame.ts';
import { keyPage } from './key/key-page.ts';
import { overviewPage } from './overview/overview-page.ts';
import type { Page, PageContext, PageMaker } from './page.ts';
import { policyPage } from './policy/policy-page.ts';
import { type PageName, type Route, readRoute, routeText } from './route.ts';
import { SignIn } from './sign-in/sign-in.ts';
import { followTheme, onTheme } from './view/theme.ts';

/** Loads the lab on demand, since only it needs the rate limiting engine. */
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
    view: () => page?.view() ?? html`<p class="empty">Loading the engine…</p>`,
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

const NOTICE_MS = 6000;

export class App {
  readonly #root: HTMLElement;
  readonly #api = new Api();
  readonly #feed = new Feed(this.#api);
  readonly #signIn = new SignIn(this.#api, {
    redraw: () => this.#redraw(),
    signedIn: () => this.#enter(),
  });
  #route: Route = readRoute(location.hash);
  #page: Page | undefined = undefined;
  #notice: Frame['notice'] = undefined;
  #cancelNotice: () => void = () => {};
  #isDrawing = false;
  /** Whether the next frame shows another page, which starts at its top. */
  #isArriving = false;

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  async start(): Promise<void> {
    followTheme();
    onTheme(() => this.#redraw());
    addEventListener('hashchange', () => this.#moved(readRoute(location.hash)));
    this.#api.onSignedOut = () => this.#signedOut(true);
    this.#feed.listen(() => this.#redraw());
    this.#redraw();
    const session = await this.#api.session().catch(() => undefined);
    // If the service is unreachable, the feed retries.
    if (session === undefined || session.signedIn) this.#enter();
    else this.#signedOut(false);
  }

  #enter(): void {
    this.#signIn.isNeeded = false;
    this.#feed.start();
    this.#show(this.#route);
  }

  /** The address stays, so that signing in returns to the same page. */
  #signedOut(isExpired: boolean): void {
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
    redraw: () => this.#redraw(),
    go: (route, how) => {
      const text = routeText(route);
      if (how === 'replace') history.replaceState(null, '', text);
      else history.pushState(null, '', text);
      this.#moved(route);
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

  #moved(route: Route): void {
    const isSame = route.page === this.#route.page;
    this.#isArriving ||= !isSame || route.names.join('/') !== this.#route.names.join('/');
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
      if (this.#isArriving) arrive();
      this.#isArriving = false;
    });
  }

  #view(): TemplateResult {
    if (this.#signIn.isNeeded) return this.#signIn.view();
    return frame({
      feed: this.#feed,
      page: this.#route.page,
      content: this.#page?.view(),
      notice: this.#notice,
      signOut: this.#api.isTokenNeeded ? () => void this.#signOut() : undefined,
    });
  }

  async #signOut(): Promise<void> {
    try {
      await this.#api.signOut();
      this.#signedOut(false);
    } catch (error) {
      this.#context.notify(`You are still signed in. ${(error as Error).message}`, 'wrong');
    }
  }
}

/** The focused element was removed with its page; screen readers start at the new one. */
function arrive(): void {
  scrollTo(0, 0);
  document.getElementById('main')?.focus({ preventScroll: true });
}
