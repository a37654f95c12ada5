/** What is around every page: where one can go, and whether the service is there. */
import { html, nothing, type TemplateResult } from 'lit-html';
import type { Feed } from './api/feed.ts';
import { type PageName, to } from './route.ts';
import { clockText } from './view/format.ts';
import { logo } from './view/logo.ts';
import { nextTheme, themeLabel } from './view/theme.ts';

const LINKS: readonly [PageName, string][] = [
  ['overview', 'Overview'],
  ['denials', 'Live denials'],
  ['lab', 'Lab'],
];

export interface Frame {
  readonly feed: Feed;
  readonly page: PageName;
  readonly content: unknown;
  readonly told: { readonly text: string; readonly kind: 'fine' | 'wrong' } | undefined;
  /** Undefined where nobody has to sign in. */
  readonly signOut: (() => void) | undefined;
}

export const frame = (around: Frame): TemplateResult => html`
  <a class="skip" href="#main" @click=${skipToMain}>Skip to the content</a>
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
  <div class="told" role="status" aria-live="polite">
    ${around.told && html`<p class=${around.told.kind}>${around.told.text}</p>`}
  </div>
`;

const link = (around: Frame, page: PageName, label: string): TemplateResult =>
  html`<a href=${to(page)} aria-current=${page === around.page ? 'page' : nothing}>${label}</a>`;

/** Said aloud whenever it changes. */
function connection({ state, lostAtMs }: Feed): TemplateResult {
  const since = lostAtMs === undefined ? '' : ` since ${clockText(lostAtMs)}`;
  const label = { connecting: 'connecting…', live: 'live', lost: `connection lost${since}` }[state];
  return html`<span class="connection ${state}" role="status">${label}</span>`;
}

function lostBanner({ state, problem, last }: Feed): TemplateResult | typeof nothing {
  if (state !== 'lost') return nothing;
  const why = problem ?? 'The service does not answer';
  const shown = last === undefined ? '' : ` What is shown is of ${clockText(last.atMs)}.`;
  return html`<p class="lost-banner">
    ${why}. It is tried again every 2 s, and what is missed is filled in.${shown}
  </p>`;
}

function buttons({ signOut }: Frame): TemplateResult {
  const leave = html`<button type="button" class="quiet small" @click=${signOut}>Sign out</button>`;
  return html`<button
      type="button"
      class="quiet small theme"
      title="Switch between light, dark and what the system has"
      @click=${nextTheme}
    >
      ${themeLabel()}</button
    >${signOut === undefined ? nothing : leave}`;
}

/** A plain link would be taken for the address of a page. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')!.focus();
}
