/** Writes the settings of the lab to the URL in the browser, and creates links to share. */
import { after } from '../clock.ts';
import type { PageContext } from '../page.ts';
import { type Route, routeText } from '../route.ts';
import { type LabQuery, MAX_QUERY_LENGTH, queryLength } from './lab-query.ts';

/** Debounce of URL changes, because browsers limit how often a page may change its URL. */
const WRITE_MS = 300;

/** Returns the route with a query. Omits the calls if the query is too long for a link. */
function routeOf(query: LabQuery): Route {
  const { times, drawn, ...rest } = query;
  return { page: 'lab', names: [], query: isTooLong(query) ? rest : query };
}

export const isTooLong = (query: LabQuery): boolean => queryLength(query) > MAX_QUERY_LENGTH;

export const linkTo = (query: LabQuery): string =>
  `${location.origin}${location.pathname}${routeText(routeOf(query))}`;

export class LabUrl {
  readonly #context: PageContext;
  #written: string | undefined = undefined;
  #cancel: () => void = () => {};

  constructor(context: PageContext) {
    this.#context = context;
  }

  /** Returns true if `write` set this route. */
  isOwn(route: Route): boolean {
    return routeText(route) === this.#written;
  }

  write(query: () => LabQuery): void {
    this.cancel();
    this.#cancel = after(WRITE_MS, () => {
      const route = routeOf(query());
      this.#written = routeText(route);
      this.#context.go(route, 'replace');
    });
  }

  cancel(): void {
    this.#cancel();
  }
}
