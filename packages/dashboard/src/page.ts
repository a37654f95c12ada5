/** What a page is to the frame around it. */
import type { TemplateResult } from 'lit-html';
import type { Api } from './api/client.ts';
import type { Feed } from './api/feed.ts';
import type { Route } from './route.ts';

export interface PageContext {
  readonly api: Api;
  /** What the service tells once a second. */
  readonly feed: Feed;
  /** Has the page drawn again with the next frame. */
  redraw(): void;
  /** Looks at something else; `replace` leaves no way back to what was looked at before. */
  go(route: Route, how?: 'replace'): void;
  /** Shows for a while what was done, or why it could not be. */
  tell(text: string, kind?: 'fine' | 'wrong'): void;
}

export interface Page {
  /** For the title of the window. */
  readonly title: string;
  /** What it looks like now. Nothing is changed or asked for here. */
  view(): TemplateResult;
  /** The address has changed, and is still this page's: a filter, a sorting, other names. */
  moved(route: Route): void;
  /** Somebody else is looked at: stops what it has begun. */
  leave(): void;
}

export type PageMaker = (context: PageContext, route: Route) => Page;
