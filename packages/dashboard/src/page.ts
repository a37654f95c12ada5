/** The interface between the pages and the application. */
import type { TemplateResult } from 'lit-html';
import type { Api } from './api/client.ts';
import type { Feed } from './api/feed.ts';
import type { PolledQuery } from './api/polled-query.ts';
import type { PolicyDefinition } from './api/types.ts';
import type { Route } from './route.ts';

export interface PageContext {
  readonly api: Api;
  readonly feed: Feed;
  /** All policies, refreshed when a policy changes. */
  readonly policies: PolledQuery<readonly PolicyDefinition[]>;
  /** Schedules a redraw for the next animation frame. */
  redraw(): void;
  /**
   * Navigates to a route. With `replace`, the route replaces the current entry of the browser's
   * history.
   */
  go(route: Route, how?: 'replace'): void;
  /** Shows a success or error message for a few seconds. */
  notify(text: string, kind?: 'fine' | 'wrong'): void;
}

export interface Page {
  /** Title of the browser tab. */
  readonly title: string;
  /** Renders the current state, without side effects. */
  view(): TemplateResult;
  /**
   * Called when the route changes within the page, for example to another policy, key, filter or
   * sort order.
   */
  onRouteChange(route: Route): void;
  /** Stops timers and listeners, and discards the results of pending requests. */
  leave(): void;
}

export type PageFactory = (context: PageContext, route: Route) => Page;
