/** Header, navigation, connection state and notices around every page. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from './api/feed.ts';
import { type PageName, to } from './route.ts';
import { clockText } from './view/format.ts';
import { logo } from './view/logo.ts';
import { nextTheme, themeLabel } from './view/theme.ts';

const LINKS: readonly [PageName, string][] = [
  ['overview', 'Overview'],
  ['denials', 'Recent denials'],
  ['lab', 'Lab'],
];

export interface Frame {
  readonly feed: Feed;
  readonly page: PageName;
  readonly content: unknown;
  readonly notice: { readonly text: string; readonly kind: 'fine' | 'wrong' } | undefined;
  /** Undefined if the service has no admin token. */
  readonly signOut: (() => void) | undefined;
}

export const frame = (around: Frame): TemplateResult => html`
  <a class="skip" href="#main" @click=${skipToMain}>Skip to content</a>
  <header class="bar">
    <a class="brand" href=${to('overview')}>${logo()} Sluice</a>
    <nav aria-label="Pages">${LINKS.map(([page, label]) => link(around, page, label))}</nav>
    <div class="bar-end">${connection(around.feed)} ${buttons(around)}</div>
  </header>
  ${lostBanner(around.feed)}
  <main id="main" tabindex="-1">${around.content}</main>
  <footer class="foot">
    <span>${location.host}</span>
    ${around.feed.hello ? html`<span>Sluice ${around.feed.hello.version}</span>` : nothing}
  </footer>
  <div class="notice" role="status" aria-live="polite">
    ${around.notice && html`<p class=${around.notice.kind}>${around.notice.text}</p>`}
  </div>
`;

const link = (around: Frame, page: PageName, label: string): TemplateResult =>
  html`<a href=${to(page)} aria-current=${page === around.page ? 'page' : nothing}>${label}</a>`;

/** A live region: screen readers announce each change. */
function connection({ state, lostAtMs }: Feed): TemplateResult {
  const since = lostAtMs === undefined ? '' : ` since ${clockText(lostAtMs)}`;
  const label = { connecting: 'connecting…', live: 'live', lost: `connection lost${since}` }[state];
  return html`<span class="connection ${state}" role="status">${label}</span>`;
}

function lostBanner({ state, problem, last }: Feed): TemplateResult | typeof nothing {
  if (state !== 'lost') return nothing;
  const cause = problem ?? 'The service is unreachable';
  const shown = last === undefined ? '' : ` Showing data as of ${clockText(last.atMs)}.`;
  return html`<p class="lost-banner">
    ${cause}. Retrying every 2 s; missed seconds are loaded on reconnect.${shown}
  </p>`;
}

function buttons({ signOut }: Frame): TemplateResult {
  const leave = html`<button type="button" class="quiet small" @click=${signOut}>Sign out</button>`;
  return html`<button
      type="button"
      class="quiet small theme"
      title="Switch between light, dark and system theme"
      @click=${nextTheme}
    >
      ${themeLabel()}</button
    >${signOut === undefined ? nothing : leave}`;
}

/** The router would read a plain `#main` link as the address of a page. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')!.focus();
}
