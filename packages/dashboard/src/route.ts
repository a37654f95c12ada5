/**
 * The current view as the fragment of the address. Browsers do not send the fragment, so keys stay
 * out of access logs; reloading or sharing the address restores the view.
 */
export const PAGE_NAMES = ['overview', 'policy', 'key', 'denials', 'lab'] as const;
export type PageName = (typeof PAGE_NAMES)[number];

export interface Route {
  readonly page: PageName;
  /** Path segments after the page: a policy, and a key. */
  readonly names: readonly string[];
  /** Filters, sort order, lab settings. */
  readonly query: Readonly<Record<string, string>>;
}

/** For an empty or unknown address. */
const FIRST: Route = { page: 'overview', names: [], query: {} };

export function readRoute(hash: string): Route {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [page, ...names] = path.split('/').map(decoded);
  const known = PAGE_NAMES.find((name) => name === page);
  if (known === undefined) return FIRST;
  return {
    page: known,
    names: names.filter((name) => name !== ''),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

export function routeText({ page, names, query }: Route): string {
  const path = [page, ...names.map(encoded)].join('/');
  const search = new URLSearchParams(query).toString();
  return `#/${path}${search === '' ? '' : `?${search}`}`;
}

/** For links: `href=${to('policy', ['perMinute'])}`. */
export const to = (
  page: PageName,
  names: readonly string[] = [],
  query: Readonly<Record<string, string>> = {},
): string => routeText({ page, names, query });

/** `encodeURIComponent` throws on lone surrogates, which a truncated key may end with. */
const encoded = (text: string): string =>
  encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\uFFFD'));

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
