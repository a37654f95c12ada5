/**
 * Three kinds of application. They differ in which of several values they use, and in how they read
 * the path. Each is a function of the request's target and its header lines.
 */

/** A request as an application receives it. `lines` are names and values of headers in turn. */
export interface Received {
  readonly target: string;
  readonly lines: readonly string[];
}

export interface Application {
  readonly name: string;
  /** Whether the request reaches the handler of `/login`. */
  isLogin(received: Received): boolean;
  /** Returns the client key that the application reads, or undefined if the request has none. */
  keyOf(received: Received): readonly string[] | undefined;
}

type Pick = (values: readonly string[]) => string | undefined;

const first: Pick = (values) => values[0];
const last: Pick = (values) => values.at(-1);

const valuesOf = ({ lines }: Received, isName: (name: string) => boolean): string[] =>
  lines.flatMap((name, at) => (at % 2 === 0 && isName(name.toLowerCase()) ? lines[at + 1] : []));

function tryDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const pathOf = (target: string): string => target.split('?', 1)[0];
const searchOf = (target: string): string => /\?(.*)$/s.exec(target)?.[1] ?? '';

interface ParserBehavior {
  readonly pick: Pick;
  readonly isHeader: (name: string) => boolean;
  readonly params: (target: string) => readonly (readonly [string, string])[];
  readonly cookies: (header: string) => readonly (readonly [string, string])[];
}

/** Returns the key in the order of the configured key: header, parameter, cookie. */
function keyBy(
  { pick, isHeader, params, cookies }: ParserBehavior,
  received: Received,
): readonly string[] | undefined {
  const header = pick(valuesOf(received, isHeader))?.trim();
  if (header) return ['header', 'x-api-key', header];
  const named = params(received.target).filter(([name]) => name === 'api_key');
  const param = pick(named.map(([, value]) => value))?.trim();
  if (param) return ['query', 'api_key', countedParam(param)];
  const lines = valuesOf(received, (name) => name === 'cookie').join('; ');
  const sessions = cookies(lines).filter(([name]) => name === 'session');
  const session = pick(sessions.map(([, value]) => value))?.trim();
  return session ? ['cookie', 'session', countedCookie(session)] : undefined;
}

/** Normalizes values that some application considers equal. */
const countedParam = (value: string): string =>
  value.replaceAll('+', ' ').trim().replaceAll(' ', '+');
const countedCookie = (value: string): string =>
  tryDecode(value)
    .replace(/^"(.*)"$/, '$1')
    .trim();

const pairs = (text: string, separator: RegExp, decode = tryDecode) =>
  text.split(separator).map((pair) => {
    const [name, ...rest] = pair.split('=');
    return [decode(name).trim(), decode(rest.join('='))] as const;
  });

/** Like a router of Express: the path as sent, ignoring case and a trailing slash. */
const firstWins: Application = {
  name: 'first value wins',
  isLogin: ({ target }) => /^\/login\/?$/i.test(pathOf(target)),
  keyOf: (received) =>
    keyBy(
      {
        pick: first,
        isHeader: (name) => name === 'x-api-key',
        params: (target) => pairs(searchOf(target), /&/),
        cookies: (header) => pairs(header, /;/, (text) => text),
      },
      received,
    ),
};

/** Like PHP or Java behind a decoding gateway: everything is decoded, and the last value wins. */
const lastWins: Application = {
  name: 'last value wins',
  isLogin: ({ target }) => lenientPath(pathOf(target)) === '/login',
  keyOf: (received) =>
    keyBy(
      {
        pick: last,
        isHeader: (name) => name.replaceAll('_', '-') === 'x-api-key',
        params: (target) =>
          pairs(searchOf(target), /[&;]/).map(([name, value]) => [
            name.replace(/\[.*$/s, '').replace(/[. ]/g, '_').toLowerCase(),
            value,
          ]),
        cookies: (header) => pairs(header, /[;,]/),
      },
      received,
    ),
};

function lenientPath(path: string): string {
  const text = tryDecode(tryDecode(path)).split(/[?#\0]/, 1)[0];
  const kept: string[] = [];
  for (const segment of text.replaceAll('\\', '/').split('/')) {
    const name = segment.replace(/;.*$/s, '').trimEnd();
    if (name === '..') kept.pop();
    else if (name !== '' && name !== '.') kept.push(name.replace(/\.+$/, ''));
  }
  return `/${kept.join('/')}`.toLowerCase();
}

/** Like a `fetch` handler: the platform's URL parser resolves the path, then it is decoded. */
const urlParser: Application = {
  name: 'URL parser',
  isLogin: ({ target }) => {
    const url = parsed(target);
    return url !== undefined && tryDecode(url.pathname).replace(/(?<=.)\/$/, '') === '/login';
  },
  keyOf: (received) =>
    keyBy(
      {
        // `Headers` joins the lines of a header.
        pick: (values) => (values.length > 1 ? values.join(', ') : values[0]),
        isHeader: (name) => name === 'x-api-key',
        params: (target) => {
          const value = parsed(target)?.searchParams.get('api_key');
          return value ? [['api_key', value]] : [];
        },
        cookies: (header) => pairs(header, /;/).slice(0, 1),
      },
      received,
    ),
};

function parsed(target: string): URL | undefined {
  try {
    return new URL(target, 'http://application');
  } catch {
    return undefined;
  }
}

export const APPLICATIONS: readonly Application[] = [firstWins, lastWins, urlParser];
