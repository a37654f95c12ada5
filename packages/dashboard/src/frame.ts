/** The frame around every page: header, navigation, connection state and notices. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from './api/feed.ts';
import { hrefTo, type PageName } from './route.ts';
import { clockText, durationText } from './view/format.ts';
import { signOutIcon, themeIcon } from './view/icons.ts';
import type { KeySearch, KeySearchOptions } from './view/key-search.ts';
import { logo } from './view/logo.ts';
import { switchTheme, themeLabel } from './view/theme.ts';

const LINKS: readonly [PageName, TemplateResult | string][] = [
  ['overview', 'Overview'],
  ['denials', html`<span class="wide">Recent denials</span><span class="narrow">Denials</span>`],
  ['lab', 'Lab'],
];

export interface FrameOptions {
  readonly feed: Feed;
  readonly page: PageName;
  readonly content: unknown;
  readonly notice: { readonly text: string; readonly kind: 'fine' | 'wrong' } | undefined;
  readonly search: KeySearch;
  readonly find: KeySearchOptions;
  /** Undefined if the service requires no admin token. */
  readonly signOut: (() => void) | undefined;
}

export const frame = (options: FrameOptions): TemplateResult => html`
  <a class="skip" href="#main" @click=${skipToMain}>Skip to content</a>
  <header class="bar">
    <a class="brand" href=${hrefTo('overview')} aria-label="Sluice"
      >${logo()} <span class="wide">Sluice</span></a
    >
    <nav aria-label="Pages">${LINKS.map(([page, label]) => link(options, page, label))}</nav>
    ${options.search.view(options.find)}
    <div class="bar-end">
      ${connection(options.feed)} ${options.search.button()} ${buttons(options)}
    </div>
  </header>
  ${lostBanner(options.feed)} ${storeBanner(options.feed)}
  <main id="main" tabindex="-1">${options.content}</main>
  <footer class="foot">
    <span>${location.host}</span>
    ${options.feed.hello ? html`<span>Sluice ${options.feed.hello.version}</span>` : nothing}
  </footer>
  <div class="notice" role="status" aria-live="polite">
    ${options.notice && html`<p class=${options.notice.kind}>${options.notice.text}</p>`}
  </div>
`;

const link = (
  { page: current }: FrameOptions,
  page: PageName,
  label: TemplateResult | string,
): TemplateResult =>
  html`<a href=${hrefTo(page)} aria-current=${page === current ? 'page' : nothing}>${label}</a>`;

/** Shows the connection state as a live region: screen readers announce each change. */
function connection({ state, lostAtMs }: Feed): TemplateResult {
  const since = lostAtMs === undefined ? '' : ` since ${clockText(lostAtMs)}`;
  const label = { connecting: 'connecting…', live: 'live', lost: `connection lost${since}` }[state];
  return html`<span class="connection ${state}" role="status" title=${label}
    ><span class="unseen-on-phones">${label}</span></span
  >`;
}

/** Shows that the connection is lost, and how old the data on the page is. */
function lostBanner({ state, problem, dataMs, nowMs }: Feed): TemplateResult | typeof nothing {
  if (state !== 'lost') return nothing;
  const cause = problem ?? 'The service is unreachable';
  return html`<p class="lost-banner">
    <b>${cause}.</b>
    ${
      dataMs === undefined
        ? nothing
        : html`Data as of ${clockText(dataMs)},
            <span class="age">${ageText(nowMs - dataMs)}</span> ago.`
    }
    Retrying every 2 s. After reconnecting, the page loads the missed data.
  </p>`;
}

/** Shows a banner on every page while the store is unavailable. */
function storeBanner({ state, last }: Feed): TemplateResult | typeof nothing {
  if (state !== 'live' || last?.store.up !== false) return nothing;
  return html`<p class="store-banner" role="status">
    <b>The store is unavailable.</b> Each policy applies its <code>onFailure</code> action, and
    decisions are marked as degraded.
  </p>`;
}

/** Returns the age in whole seconds, so that the text changes once per second. */
const ageText = (ageMs: number): string =>
  ageMs < 1000 ? 'less than 1 s' : durationText(Math.floor(ageMs / 1000) * 1000);

function buttons({ signOut }: FrameOptions): TemplateResult {
  const leave = html`<button type="button" class="quiet small icon" @click=${signOut}>
    ${signOutIcon()}<span class="unseen-on-phones">Sign out</span>
  </button>`;
  return html`<button
      type="button"
      class="quiet small icon theme"
      title="Switch between light, dark and system theme"
      @click=${switchTheme}
    >
      ${themeIcon()}<span class="unseen-on-phones">${themeLabel()}</span></button
    >${signOut === undefined ? nothing : leave}`;
}

/** Focuses the content without following the link, which would replace the route in the URL. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')!.focus();
}
