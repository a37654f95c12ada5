/** The frame around every page: header, navigation, connection state and notices. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from './api/feed.ts';
import { hrefTo, type PageName } from './route.ts';
import { clockText } from './view/format.ts';
import { logo } from './view/logo.ts';
import { switchTheme, themeLabel } from './view/theme.ts';

const LINKS: readonly [PageName, string][] = [
  ['overview', 'Overview'],
  ['denials', 'Recent denials'],
  ['lab', 'Lab'],
];

export interface FrameOptions {
  readonly feed: Feed;
  readonly page: PageName;
  readonly content: unknown;
  readonly notice: { readonly text: string; readonly kind: 'fine' | 'wrong' } | undefined;
  /** Undefined if the service requires no admin token. */
  readonly signOut: (() => void) | undefined;
}

export const frame = (options: FrameOptions): TemplateResult => html`
  <a class="skip" href="#main" @click=${skipToMain}>Skip to content</a>
  <header class="bar">
    <a class="brand" href=${hrefTo('overview')}>${logo()} Sluice</a>
    <nav aria-label="Pages">${LINKS.map(([page, label]) => link(options, page, label))}</nav>
    <div class="bar-end">${connection(options.feed)} ${buttons(options)}</div>
  </header>
  ${lostBanner(options.feed)}
  <main id="main" tabindex="-1">${options.content}</main>
  <footer class="foot">
    <span>${location.host}</span>
    ${options.feed.hello ? html`<span>Sluice ${options.feed.hello.version}</span>` : nothing}
  </footer>
  <div class="notice" role="status" aria-live="polite">
    ${options.notice && html`<p class=${options.notice.kind}>${options.notice.text}</p>`}
  </div>
`;

const link = ({ page: current }: FrameOptions, page: PageName, label: string): TemplateResult =>
  html`<a href=${hrefTo(page)} aria-current=${page === current ? 'page' : nothing}>${label}</a>`;

/** Connection state, as a live region: screen readers announce each change. */
function connection({ state, lostAtMs }: Feed): TemplateResult {
  const since = lostAtMs === undefined ? '' : ` since ${clockText(lostAtMs)}`;
  const label = { connecting: 'connecting…', live: 'live', lost: `connection lost${since}` }[state];
  return html`<span class="connection ${state}" role="status">${label}</span>`;
}

function lostBanner({ state, problem, last }: Feed): TemplateResult | typeof nothing {
  if (state !== 'lost') return nothing;
  const cause = problem ?? 'The service is unreachable';
  const dataTime = last === undefined ? '' : ` Showing data as of ${clockText(last.atMs)}.`;
  return html`<p class="lost-banner">
    ${cause}. Retrying every 2 s; missed seconds are loaded on reconnect.${dataTime}
  </p>`;
}

function buttons({ signOut }: FrameOptions): TemplateResult {
  const leave = html`<button type="button" class="quiet small" @click=${signOut}>Sign out</button>`;
  return html`<button
      type="button"
      class="quiet small theme"
      title="Switch between light, dark and system theme"
      @click=${switchTheme}
    >
      ${themeLabel()}</button
    >${signOut === undefined ? nothing : leave}`;
}

/** Focuses the content. Following the link would change the fragment, which holds the route. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')!.focus();
}
