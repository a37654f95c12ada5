/** Requests of ordinary clients: a small shop with weighted pages. */
import type { Random } from './random.ts';

export interface SiteRequest {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly status: number;
  readonly bytes: number;
}

const WORDS = ['lamp', 'table', 'blue chair', 'desk', 'shelf', 'rug', 'mirror', 'clock'];

const FILES = ['app.js', 'vendor.js', 'style.css', 'logo.svg', 'font.woff2'];

type Page = readonly [weight: number, make: (random: Random) => SiteRequest];

const response = (random: Random, most: number): Pick<SiteRequest, 'status' | 'bytes'> => {
  const chance = random.below(100);
  if (chance < 93) return { status: 200, bytes: 200 + random.below(most) };
  if (chance < 96) return { status: 304, bytes: 0 };
  if (chance < 99) return { status: 404, bytes: 153 };
  return { status: 500, bytes: 177 };
};

const page =
  (method: string, path: (random: Random) => string, most: number) =>
  (random: Random): SiteRequest => ({
    method,
    path: path(random),
    search: '',
    ...response(random, most),
  });

const PAGES: readonly Page[] = [
  [20, page('GET', () => '/', 12_000)],
  [30, page('GET', (random) => `/api/items/${1 + random.below(5000)}`, 3000)],
  [15, page('GET', (random) => `/static/${random.one(FILES)}`, 90_000)],
  [10, page('POST', () => '/api/cart', 400)],
  [5, page('POST', () => '/login', 300)],
  [
    20,
    (random) => ({
      method: 'GET',
      path: '/api/search',
      search: `q=${encodeURIComponent(random.one(WORDS))}&page=${1 + random.below(9)}`,
      ...response(random, 8000),
    }),
  ],
];

const TOTAL = PAGES.reduce((sum, [weight]) => sum + weight, 0);

export function siteRequest(random: Random): SiteRequest {
  let chance = random.below(TOTAL);
  for (const [weight, make] of PAGES) {
    if (chance < weight) return make(random);
    chance -= weight;
  }
  throw new Error('Page weights do not add up');
}
