/**
 * Stores the current view in the fragment of the page's URL, so that a reload or a shared link
 * restores it. Browsers do not send the fragment to servers, so keys do not appear in access logs.
 */
export const PAGE_NAMES = ['overview', 'policy', 'key', 'denials', 'lab'] as const;
export type PageName = (typeof PAGE_NAMES)[number];

export interface Route {
  readonly page: PageName;
  /** Path segments after the name of the page: a policy, or a policy and a key. */
  readonly names: readonly string[];
  /** Filters, sort order, lab settings. */
  readonly query: Readonly<Record<string, string>>;
}

/** The route of an empty or unknown fragment. */
const DEFAULT_ROUTE: Route = { page: 'overview', names: [], query: {} };

export function parseRoute(hash: string): Route {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [page, ...names] = path.split('/').map(decodeSegment);
  const known = PAGE_NAMES.find((name) => name === page);
  if (known === undefined) return DEFAULT_ROUTE;
  return {
    page: known,
    names: names.filter((name) => name !== ''),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

export function routeText({ page, names, query }: Route): string {
  const path = [page, ...names.map(encodeSegment)].join('/');
  const search = new URLSearchParams(query).toString();
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}

/** Returns the URL of a page for a link: `href=${hrefTo('policy', ['perMinute'])}`. */
export const hrefTo = (
  page: PageName,
  names: readonly string[] = [],
  query: Readonly<Record<string, string>> = {},
): string => routeText({ page, names, query });

/**
 * Encodes a path segment. Replaces lone surrogates first, because `encodeURIComponent` throws on
 * them. A truncated key may end with a lone surrogate.
 */
const encodeSegment = (text: string): string =>
  encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\uFFFD'));

/** Decodes a path segment. Returns the text unchanged if it is not validly encoded. */
function decodeSegment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
