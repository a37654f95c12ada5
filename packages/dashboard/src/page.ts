/** The interface between a page and the application. */
import type { TemplateResult } from 'lit-html';
import type { Api } from './api/client.ts';
import type { Feed } from './api/feed.ts';
import type { Route } from './route.ts';

export interface PageContext {
  readonly api: Api;
  readonly feed: Feed;
  /** Schedules a redraw for the next animation frame. */
  redraw(): void;
  /** Navigates; `replace` overwrites the current history entry. */
  go(route: Route, how?: 'replace'): void;
  /** Shows a success or error message for a few seconds. */
  notify(text: string, kind?: 'fine' | 'wrong'): void;
}

export interface Page {
  /** For the browser's title bar. */
  readonly title: string;
  /** Renders the current state, without side effects. */
  view(): TemplateResult;
  /** The address changed within this page: a filter, a sort order, other names. */
  moved(route: Route): void;
  /** Stops timers, listeners and pending requests. */
  leave(): void;
}

export type PageMaker = (context: PageContext, route: Route) => Page;
