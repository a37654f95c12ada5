/**
 * The common log format of nginx and Apache, and the combined one, which adds two quoted fields:
 *
 *     198.51.100.7 - alice [10/Oct/2026:13:55:36 +0200] "GET /a?b HTTP/1.1" 200 512 "-" "curl/8"
 *
 * Read by looking for its separators rather than by a pattern, as this is the most common log, and
 * the largest. Apache's `vhost_combined` has the host and port in front.
 */
import type { Entry, Format } from '../entry.ts';
import { readClfTime } from './instant.ts';
import { type RequestLine, readRequestLine } from './request-line.ts';

class CombinedEntry implements Entry {
  #request: RequestLine | undefined = undefined;

  constructor(
    readonly timeMs: number,
    readonly client: string,
    readonly user: string,
    readonly host: string,
    readonly status: number,
    readonly bytes: number,
    private readonly line: string,
    private readonly requestStart: number,
    private readonly requestEnd: number,
  ) {}

  get #parts(): RequestLine {
    this.#request ??= readRequestLine(
      unquoted(this.line.slice(this.requestStart, this.requestEnd)),
    );
    return this.#request;
  }

  get method(): string {
    return this.#parts.method;
  }

  get path(): string {
    return this.#parts.path;
  }

  get search(): string {
    return this.#parts.search;
  }

  field(name: string): string | undefined {
    const quoted = /^ \S+ \S+ "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"/.exec(
      this.line.slice(this.requestEnd + 1),
    );
    if (name === 'referer') return quoted === null ? undefined : unquoted(quoted[1]);
    return name === 'user-agent' && quoted !== null ? unquoted(quoted[2]) : undefined;
  }
}

/** Both servers write a quote, a backslash and what cannot be printed with a backslash. */
function unquoted(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/\\(x[\da-fA-F]{2}|.)/g, (_, code: string) =>
    code.length === 3 ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : code,
  );
}

/** The end of a quoted field that begins at `start`; a quote after a backslash is not it. */
function quoteEnd(line: string, start: number): number {
  let end = line.indexOf('"', start);
  while (end > 0 && isEscaped(line, start, end)) end = line.indexOf('"', end + 1);
  return end;
}

function isEscaped(line: string, start: number, at: number): boolean {
  let slashes = 0;
  while (at - slashes > start && line.charCodeAt(at - slashes - 1) === 92) slashes++;
  return slashes % 2 === 1;
}

const SPACE = 32;

/** A number up to the next space; -1 if it is none, 0 for `-`. */
function numberAt(line: string, start: number): number {
  if (line[start] === '-') return 0;
  let value = 0;
  let at = start;
  for (; at < line.length && line.charCodeAt(at) !== SPACE; at++) {
    const digit = line.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = 10 * value + digit;
  }
  return at === start ? -1 : value;
}

function read(line: string): Entry | undefined {
  const open = line.indexOf(' [');
  const close = line.indexOf('] "', open);
  if (open <= 0 || close < 0) return undefined;
  const timeMs = readClfTime(line.slice(open + 2, close));
  if (timeMs === undefined) return undefined;
  const start = close + 3;
  const end = quoteEnd(line, start);
  if (end < 0) return undefined;
  const status = numberAt(line, end + 2);
  if (status < 0 || status > 999) return undefined;
  const afterStatus = line.indexOf(' ', end + 2);
  const bytes = afterStatus < 0 ? 0 : numberAt(line, afterStatus + 1);
  const who = line.slice(0, open).split(' ');
  const [client, , user] = who.length === 4 ? who.slice(1) : who;
  if ((who.length !== 3 && who.length !== 4) || client === '' || bytes < 0) return undefined;
  const host = who.length === 4 ? who[0].replace(/:\d+$/, '') : '';
  return new CombinedEntry(
    timeMs,
    client,
    user === '-' ? '' : user,
    host,
    status,
    bytes,
    line,
    start,
    end,
  );
}

export const combined: Format = { name: 'combined', read };
