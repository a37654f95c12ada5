/**
 * What is looked at, as the part of the address after the `#`. That part is never sent anywhere, so
 * keys do not end up in logs, and whoever reloads or shares the address sees the same again.
 */
export const PAGE_NAMES = ['overview', 'policy', 'key', 'denials', 'lab'] as const;
export type PageName = (typeof PAGE_NAMES)[number];

export interface Route {
  readonly page: PageName;
  /** What follows the page's name: a policy, and a key. */
  readonly names: readonly string[];
  /** The rest of what the view is: filters, sorting, the lab's setting. */
  readonly query: Readonly<Record<string, string>>;
}

/** Names an address that does not say any, and one that nobody knows. */
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

/** Half a character, which a key may end in, cannot be encoded. */
const encoded = (text: string): string =>
  encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\uFFFD'));

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
