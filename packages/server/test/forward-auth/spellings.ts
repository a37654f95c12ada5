/** Requests for `/login`, spelt so that a limiter and an application may disagree about them. */

export interface Spelling {
  /** The request target, between method and version. */
  readonly target: string;
  /** Header lines: names and values in turn. */
  readonly lines: readonly string[];
}

const spelling = (target: string, ...lines: readonly string[]): Spelling => ({ target, lines });

const PATHS = [
  ...['/login', '/login/', '//login', '///login', '/LOGIN', '/Login/', '/%6cogin', '/%4C%6F%67in'],
  ...['/x\\..\\login', '/\\login', '\\login', '/x/..\\login', '/login\\', '/free\\..\\login'],
  ...['/%2flogin', '/%2Flogin', '/%5clogin', '/login%2f', '/login%5c', '/%2f%2flogin'],
  ...[
    '/x/..%2flogin',
    '/x%2f..%2flogin',
    '/x%5c..%5clogin',
    '/free/..%2flogin',
    '/free%2f..%2flogin',
  ],
  ...[
    '/x/../login',
    '/./login',
    '/login/.',
    '/login/x/..',
    '/free/../login',
    '/free/x/../../login',
  ],
  ...['/%2e%2e/login', '/x/%2e%2e/login', '/x/.%2e/login', '/x/%2E./login', '/%2e/login'],
  ...['/free//../login', '/free/x//../../login', '/x//..//login', '/free///../../login'],
  ...['/login.', '/login..', '/login%20', '/login%20.', '/login%09', '/login%00', '/login%00.css'],
  ...['/login;x=1', '/login;', '/;x/login', '/x/..;/login', '/free/..;x=1/login', '/login%3bx'],
  ...['/login%3fx', '/login%23x', '/login#x', '/login?x', '/login?', '/login??', '/login#?x'],
  ...['/%252flogin', '/x/..%252flogin', '/%256cogin', '/x/%252e%252e/login', '/%25%32%66login'],
  ...['//x/login', '//free/login', '/\\x/login', '//user@x:80/login', '//x\\login', '/%5cx/login'],
  ...[
    '/%c0%aflogin',
    '/x/..%c0%aflogin',
    '/%e0%80%aflogin',
    '/logi%u006e',
    '/x/%c0%ae%c0%ae/login',
  ],
  // Found by random spellings: a URL parser decodes no backslash.
  ...['/free%5cx\\../login', '/free%5cx/%2e%2e\\%6cogin\\', '/free%5cx/..\\login/.'],
  ...['http://x/login', 'http://free/login', 'HTTP://x//login', 'http:/login', 'x/login', '*', ''],
];

const key = (value: string): readonly string[] => ['X-Api-Key', value];

const HEADERS: readonly (readonly string[])[] = [
  key('real'),
  [...key('made up'), ...key('real')],
  [...key('real'), ...key('made-up')],
  [...key('real'), ...key('')],
  [...key(''), ...key('real')],
  [...key('real'), 'x-api-key', 'real'],
  [...key('a'), ...key('b'), ...key('real')],
  [...key('made-up'), 'X_Api_Key', 'real'],
  ['X_API_KEY', 'real'],
  ['x_api-key', 'real', ...key('made-up')],
  key('real, made-up'),
  key(' real '),
  ['X-Api-Key ', 'real', ...key('made-up')],
];

const QUERIES = [
  ...['api_key=real', 'api_key=1&api_key=real', 'api_key=real&api_key=1', 'api_key=1;api_key=real'],
  ...['api_key=real;x', 'x;api_key=real', 'api%5fkey=1&api_key=real', 'API_KEY=real&api_key=1'],
  ...['api_key[]=real&api_key=1', 'api_key=1&api_key[]=real', 'api.key=real&api_key=1'],
  ...[
    'api_key=&api_key=real',
    'api_key&api_key=real',
    'api_key=re%61l',
    '&&api_key=real',
    'api_key=+real',
  ],
  ...['x=1?api_key=real', '?api_key=1&api_key=real', 'api_key=real#x', 'api_key=1&api%20key=real'],
];

const COOKIES: readonly (readonly string[])[] = [
  ['Cookie', 'session=real'],
  ['Cookie', 'session=1; session=real'],
  ['Cookie', 'session=real; session=1'],
  ['Cookie', 'session=1', 'Cookie', 'session=real'],
  ['Cookie', 'session=1, session=real'],
  ['Cookie', 'session=re%61l'],
  ['Cookie', 'sessio%6e=1; session=real'],
  ['Cookie', 'session; session=real'],
  ['Cookie', 'session="real"; Session=1'],
  ['Cookie', 'a="x; session=1"; session=real'],
];

const FORWARDING: readonly (readonly string[])[] = [
  ...['X-Forwarded-Uri', 'X-Original-URI', 'X-Original-URL', 'X-Rewrite-URL'].flatMap((name) => [
    [name, '/free'],
    [name, '/free', name.toLowerCase(), '/free'],
    ['Connection', name, name, '/free'],
  ]),
  ['X-Forwarded-Method', 'OPTIONS', 'X-Original-Method', 'OPTIONS'],
  ['X-Forwarded-Host', 'free.example', 'X-Forwarded-Prefix', '/free', 'X-Original-Host', 'free'],
  ['X-Forwarded-For', '192.0.2.1', 'X-Forwarded-For', '192.0.2.2'],
  ['Forwarded', 'for=192.0.2.1', 'X-Real-IP', '192.0.2.1', 'X-Forwarded-For', '192.0.2.1'],
  ['X_Forwarded_Uri', '/free', 'X_Original_URI', '/free', 'X_Forwarded_For', '192.0.2.1'],
  ['X-Sluice-Status', '200'],
];

export const SPELLINGS: readonly Spelling[] = [
  ...PATHS.map((target) => spelling(target)),
  ...HEADERS.map((lines) => spelling('/login', ...lines)),
  ...QUERIES.map((search) => spelling(`/login?${search}`)),
  ...COOKIES.map((lines) => spelling('/login', ...lines)),
  ...FORWARDING.map((lines) => spelling('/login', ...lines)),
];

/** Returns numbers from 0 to below 1. */
export type Random = () => number;

const SLASHES = ['/', '/', '/', '//', '\\', '%2f', '%2F', '%5c', '%252f', '/./', '/;/', '%c0%af'];
const DETOURS = [
  'x/..',
  'free/..',
  'free//..',
  '.',
  '%2e',
  'x/%2e%2e',
  'x/..;a=1',
  'x\\..',
  'free%2f..',
];
const ENDS = [
  '',
  '',
  '',
  '/',
  '.',
  '%20',
  ';x',
  '%2f',
  '\\',
  '/.',
  '%00',
  '%3fx',
  '?',
  '?x=1',
  '#',
  '/x/..',
];

/** Returns a random spelling of parts that proxies and applications read differently. */
export function randomSpelling(random: Random): Spelling {
  const one = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)];
  const isRare = (): boolean => random() < 0.3;
  let target = isRare() ? one(['//x', '/\\x', '//free', '/free', '']) : '';
  while (isRare()) target += one(SLASHES) + one(DETOURS);
  target += one(SLASHES) + [...'login'].map((letter) => spelt(letter, random)).join('') + one(ENDS);
  if (isRare() && !target.includes('#')) {
    target += `${target.includes('?') ? '&' : '?'}${one(QUERIES)}`;
  }
  const lines = [HEADERS, COOKIES, FORWARDING].flatMap((each) => (isRare() ? one(each) : []));
  return { target, lines };
}

function spelt(letter: string, random: Random): string {
  const chance = random();
  if (chance < 0.9) return letter;
  const hex = letter.charCodeAt(0).toString(16);
  return [letter.toUpperCase(), `%${hex}`, `%25${hex}`, `%u00${hex}`][
    Math.floor(chance * 1000) % 4
  ];
}
