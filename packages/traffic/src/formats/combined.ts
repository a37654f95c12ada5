/**
 * The common log format of nginx and Apache, and the combined format, which adds two quoted fields:
 *
 *     198.51.100.7 - alice [10/Oct/2026:13:55:36 +0200] "GET /a?b HTTP/1.1" 200 512 "-" "curl/8"
 *
 * The parser searches for separators, which is faster than a regular expression. Lines of Apache's
 * `vhost_combined` start with the host and port. Further fields at the end, as in the logs of
 * Traefik and in custom formats, are ignored.
 */
import type { Entry, Format } from '../entry.ts';
import { readClient, readHost } from './client.ts';
import { readTime } from './instant.ts';
import { type RequestLine, readRequestLine } from './request-line.ts';
import { absentIfDash, owned, quoteEnd, unescaped, wholeNumber } from './text.ts';

/** The quoted fields after the size. nginx's default configuration has all three. */
const QUOTED = ['referer', 'user-agent', 'x-forwarded-for'];

class CombinedEntry implements Entry {
  #request: RequestLine | undefined = undefined;

  constructor(
    readonly timeMs: number,
    private readonly source: Source,
    readonly status: number,
    readonly bytes: number,
    private readonly line: string,
    private readonly requestStart: number,
    private readonly requestEnd: number,
    private readonly bytesEnd: number,
  ) {}

  /**
   * Returns the parsed request line. Parses it on first use, because many commands need only the
   * client.
   */
  get #parts(): RequestLine {
    this.#request ??= readRequestLine(
      unescaped(this.line.slice(this.requestStart, this.requestEnd)),
    );
    return this.#request;
  }

  get client(): string {
    return this.source.client;
  }

  get user(): string {
    return this.source.user;
  }

  get host(): string {
    return this.source.host || this.#parts.host;
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
    const wanted = QUOTED.indexOf(name);
    let at = this.bytesEnd;
    for (let place = 0; place <= wanted && this.line.startsWith(' "', at); place++) {
      const end = quoteEnd(this.line, at + 2);
      if (end < 0) return undefined;
      if (place === wanted) {
        return absentIfDash(unescaped(this.line.slice(at + 2, end))) || undefined;
      }
      at = end + 1;
    }
    return undefined;
  }
}

interface Source {
  readonly client: string;
  readonly user: string;
  readonly host: string;
}

/** Parses the start of a line up to `end`, such as `198.51.100.7 - alice`. */
function readSource(line: string, end: number): Source | undefined {
  const space = line.indexOf(' ');
  if (!line.startsWith(' - ', space)) return readUnusualSource(line.slice(0, end).split(' '));
  return sourceOf(line.slice(0, space), line.slice(space + 3, end), '');
}

function sourceOf(client: string, user: string, host: string): Source | undefined {
  const address = readClient(client);
  if (address === '' || user === '') return undefined;
  return {
    client: address,
    user: user === '-' || user === '""' ? '' : owned(unescaped(user)),
    host,
  };
}

/**
 * Parses the start of a line, as words, if it has a host before the address, a list of addresses,
 * or an identd user instead of `-`.
 */
function readUnusualSource(words: readonly string[]): Source | undefined {
  const listed = words.findIndex((word) => !word.endsWith(','));
  const after = words.slice(listed + 1);
  if (listed > 0) {
    return sourceOf(words.slice(0, listed + 1).join(' '), after.slice(1).join(' '), '');
  }
  if (words.length === 3) return sourceOf(words[0], words[2], '');
  if (words.length < 4 || words[2] !== '-') return undefined;
  return sourceOf(words[1], words.slice(3).join(' '), owned(readHost(words[0])));
}

const MAX_STATUS_DIGITS = 3;

function read(line: string): Entry | undefined {
  const close = line.indexOf('] "');
  const open = line.lastIndexOf(' [', close);
  if (close < 0 || open <= 0) return undefined;
  const timeMs = readTime(line.slice(open + 2, close));
  if (timeMs === undefined) return undefined;
  const end = quoteEnd(line, close + 3);
  if (end < 0 || line.charCodeAt(end + 1) !== 32) return undefined;
  const statusEnd = line.indexOf(' ', end + 2);
  const status = wholeNumber(line, end + 2, statusEnd);
  if (status < 0 || statusEnd > end + 2 + MAX_STATUS_DIGITS) return undefined;
  const space = line.indexOf(' ', statusEnd + 1);
  const bytesEnd = space < 0 ? line.length : space;
  const bytes = wholeNumber(line, statusEnd + 1, bytesEnd);
  const source = readSource(line, open);
  if (bytes < 0 || source === undefined) return undefined;
  return new CombinedEntry(timeMs, source, status, bytes, line, close + 3, end, bytesEnd);
}

export const combined: Format = { name: 'combined', read };
